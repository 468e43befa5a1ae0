"""Tables and figures as the page shows them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from focusing.reports.figures.chart import joined, says_little
from focusing.reports.figures.gallery import FOLDER, INDEX
from focusing.reports.tables import Table
from focusing.results.frame import group_by

FIGURE_SPACE = "\u2007"
"""As wide as a digit."""
TAGS = ("experiment", "size", "data", "model", "protocol")
"""What filters choose by."""


def short_title(title: str) -> str:
    """``Table 2 (size=full, variant=author)`` without the size: it is the paper's."""
    title = re.sub(r"(?<=\(|\s)(size=full|variant=text)(,\s*|(?=\)))", "", title)
    return re.sub(r",?\s*\(?\s*\)", lambda end: ")" if "(" not in end[0] else "", title)


def page_table(table: Table) -> Table:
    """A table with a short title, and numbers whose decimal points stand in line."""
    widths = [_width(table, place) for place in range(len(table.columns))]
    rows = []
    for row in table.rows:
        lines = [
            (_padded(cell.lines[0], width), *cell.lines[1:])
            for cell, width in zip(row.cells, widths, strict=True)
        ]
        cells = [replace(cell, lines=text) for cell, text in zip(row.cells, lines, strict=True)]
        rows.append(replace(row, cells=tuple(cells)))
    return replace(table, title=short_title(table.title), rows=tuple(rows))


def table_tags(table: Table) -> dict[str, str]:
    """The experiments and sizes that a table is about, for filters."""
    columns = {"experiment": ("experiment", "table"), "size": ("size",)}
    values = {
        tag: joined(record[key] for record in table.records for key in keys if key in record)
        for tag, keys in columns.items()
    }
    return {tag: names for tag, names in values.items() if names}


def is_minor(table: Table) -> bool:
    """Whether a table belongs into the appendix."""
    return says_little(table.records, table_tags(table))


def _whole(line: str) -> int:
    """Signs before the decimal point of a line that begins with a number; 0 for others."""
    number = re.match(r"([+−]?\d+)(\.\d| ±|$)", line)
    return len(number[1]) if number else 0


def _width(table: Table, place: int) -> int:
    if table.columns[place].align != "left":
        return 0
    return max((_whole(row.cells[place].lines[0]) for row in table.rows), default=0)


def _padded(line: str, width: int) -> str:
    """A number moved right, so that decimal points are aligned."""
    whole = _whole(line)
    return FIGURE_SPACE * (width - whole) + line if whole else line


KINDS = {".svg": "image/svg+xml", ".png": "image/png", ".gif": "image/gif"}
MAX_SVG_BYTES = 300_000
"""Of a larger one the PNG is shown if it is smaller: scatter plots draw slowly as SVG."""
MAX_PICTURE_BYTES = 4_000_000
"""A larger file is linked but not shown."""
WIDE = 4.5
"""Inches, from which on a figure gets a row of its own."""
FILM_DPI = 150


def exhibition(out: Path) -> dict[str, Any]:
    """The figures in the folder of a report, as the page shows them.

    Returns:
        ``sections`` (name -> figures: entries of the index with ``source``, a data URI that is
        empty if the file is too large, ``inches``, the native width, and ``wide``, if it needs a
        row of its own), ``missing`` (command and title of those without runs) and ``damaged``
        (files that could not be drawn from, and why).
    """
    try:
        index = json.loads((out / FOLDER / INDEX).read_bytes())
    except FileNotFoundError:
        index = {"figures": [], "missing": []}
    pictures = [entry | _picture(out / FOLDER, entry) for entry in index["figures"]]
    return {
        "sections": group_by(pictures, lambda picture: picture["section"]),
        "missing": [(entry["command"], entry["title"]) for entry in index["missing"]],
        "damaged": [(entry["file"], entry["reason"]) for entry in index.get("damaged", ())],
    }


def first_picture(figures: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The first figure whose name begins like this and that can be shown."""
    every = [picture for pictures in figures["sections"].values() for picture in pictures]
    shown = [one for one in every if one["name"].startswith(name) and one["source"]]
    return shown[0] if shown else None


def _picture(folder: Path, entry: Mapping[str, Any]) -> dict[str, Any]:
    shown = _shown([folder / name for name in entry["files"]])
    inches = 0.0 if shown is None else _inches(shown)
    return {
        "tags": {key: entry["tags"][key] for key in TAGS if entry["tags"].get(key)},
        "source": "" if shown is None else _uri(shown),
        "inches": inches,
        "wide": inches > WIDE,
    }


def _shown(files: Sequence[Path]) -> Path | None:
    """The best of the files: an SVG unless it is large, else the smallest picture."""
    sizes = {path: path.stat().st_size for path in files if path.suffix in KINDS and path.exists()}
    small = [path for path in sizes if path.suffix == ".svg" and sizes[path] <= MAX_SVG_BYTES]
    best = min(small or sizes, key=lambda path: sizes[path], default=None)
    return None if best is None or sizes[best] > MAX_PICTURE_BYTES else best


def _uri(path: Path) -> str:
    content = base64.b64encode(path.read_bytes()).decode()
    return f"data:{KINDS[path.suffix]};base64,{content}"


def _inches(path: Path) -> float:
    """The native width of a picture."""
    if path.suffix == ".svg":
        box = re.search(rb'viewBox="[\d.]+ [\d.]+ ([\d.]+) ', path.read_bytes())
        return float(box[1]) / 72 if box else WIDE
    with Image.open(path) as image:
        return float(image.width / image.info.get("dpi", (FILM_DPI,))[0])
