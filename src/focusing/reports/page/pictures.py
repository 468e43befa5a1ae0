"""Figures of the report, put into the page."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from focusing.reports.gallery import FOLDER, INDEX
from focusing.reports.page.titles import short_title

KINDS = {".svg": "image/svg+xml", ".png": "image/png", ".gif": "image/gif"}
LARGEST_SVG = 300_000
"""Bytes; of a larger one the PNG is shown if it is smaller: scatter plots draw slowly as SVG."""
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
        source: a data URI; empty if the file is too large.
        files: names of its files.
    """

    title: str
    caption: str
    data: str
    model: str
    protocol: str
    source: str
    files: tuple[str, ...]


def pictures(out: Path) -> tuple[list[Picture], list[Mapping[str, str]]]:
    """All figures of a report in their order, and title and command of those without runs.

    Args:
        out: folder of the report.
    """
    try:
        index = json.loads((out / FOLDER / INDEX).read_bytes())
    except FileNotFoundError:
        return [], []  # a report without figures
    return [_picture(out / FOLDER, entry) for entry in index["figures"]], index["missing"]


def _picture(folder: Path, entry: Mapping[str, Any]) -> Picture:
    tags = {name: str(entry["tags"].get(name) or "") for name in ("data", "model", "protocol")}
    return Picture(
        title=short_title(entry["title"]),
        caption=entry["caption"],
        **tags,
        source=_source([folder / name for name in entry["files"]]),
        files=tuple(entry["files"]),
    )


def _source(files: Sequence[Path]) -> str:
    """The best of the files as a data URI: SVG unless it is large, else the smallest picture."""
    sizes = {path: path.stat().st_size for path in files if path.suffix in KINDS and path.exists()}
    small = [path for path in sizes if path.suffix == ".svg" and sizes[path] <= LARGEST_SVG]
    best = min(small or sizes, key=lambda path: sizes[path], default=None)
    if best is None or sizes[best] > LARGEST:
        return ""
    content = base64.b64encode(best.read_bytes()).decode()
    return f"data:{KINDS[best.suffix]};base64,{content}"
