"""Figures of the report, put into the page."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from focusing.reports.figures.gallery import FOLDER, INDEX
from focusing.reports.page.titles import short_title

KINDS = {".svg": "image/svg+xml", ".png": "image/png", ".gif": "image/gif"}
LARGEST_SVG = 300_000
"""Bytes; of a larger one the PNG is shown if it is smaller: scatter plots draw slowly as SVG."""
WIDE = 2.2
"""Width over height, from which on a figure gets a row of its own."""
LARGEST = 4_000_000
"""Bytes; a larger file is linked but not shown."""


@dataclass(frozen=True)
class Picture:
    """A figure.

    Attributes:
        title: in print.
        caption: what it shows.
        data: name of the data set, for filters; empty if there are several.
        model: name of the model, for filters; empty if there are several.
        protocol: the same of the protocol.
        wide: so wide that it needs a row of its own.
        source: a data URI; empty if the file is too large.
        files: names of its files.
    """

    title: str
    caption: str
    data: str
    model: str
    protocol: str
    wide: bool
    source: str
    files: tuple[str, ...]


def pictures(out: Path) -> tuple[list[Picture], list[tuple[str, str]]]:
    """All figures of a report in their order, and command and title of those without runs.

    Args:
        out: folder of the report.
    """
    try:
        index = json.loads((out / FOLDER / INDEX).read_bytes())
    except FileNotFoundError:
        return [], []  # a report without figures
    missing = [(each["command"], each["title"]) for each in index["missing"]]
    return [_picture(out / FOLDER, entry) for entry in index["figures"]], missing


def damaged(out: Path) -> list[tuple[str, str]]:
    """Files that figures could not be drawn from, and why."""
    try:
        index = json.loads((out / FOLDER / INDEX).read_bytes())
    except FileNotFoundError:
        return []
    return [(each["file"], each["reason"]) for each in index.get("damaged", ())]


def _picture(folder: Path, entry: Mapping[str, Any]) -> Picture:
    tags = {name: str(entry["tags"].get(name) or "") for name in ("data", "model", "protocol")}
    shown = _shown([folder / name for name in entry["files"]])
    return Picture(
        title=short_title(entry["title"]),
        caption=entry["caption"],
        **tags,
        wide=shown is not None and _shape(shown) > WIDE,
        source="" if shown is None else _uri(shown),
        files=tuple(entry["files"]),
    )


def _shown(files: Sequence[Path]) -> Path | None:
    """The best of the files: an SVG unless it is large, else the smallest picture."""
    sizes = {path: path.stat().st_size for path in files if path.suffix in KINDS and path.exists()}
    small = [path for path in sizes if path.suffix == ".svg" and sizes[path] <= LARGEST_SVG]
    best = min(small or sizes, key=lambda path: sizes[path], default=None)
    return None if best is None or sizes[best] > LARGEST else best


def _uri(path: Path) -> str:
    content = base64.b64encode(path.read_bytes()).decode()
    return f"data:{KINDS[path.suffix]};base64,{content}"


def _shape(path: Path) -> float:
    """Width over height."""
    if path.suffix == ".svg":
        box = re.search(rb'viewBox="[\d.]+ [\d.]+ ([\d.]+) ([\d.]+)"', path.read_bytes())
        return float(box[1]) / float(box[2]) if box else 1.0
    with Image.open(path) as image:
        return image.width / image.height
