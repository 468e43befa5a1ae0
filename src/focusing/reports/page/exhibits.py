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

from focusing.reports.figures.chart import is_minor, join_distinct
from focusing.reports.figures.gallery import FOLDER, INDEX
from focusing.reports.tables import Table
from focusing.results.frame import group_by

FIGURE_SPACE = "\u2007"
"""A space as wide as a digit."""
TAGS = ("experiment", "size", "data", "model", "protocol")
"""Tags that the filters of the page use."""
MIME_TYPES = {".svg": "image/svg+xml", ".png": "image/png", ".gif": "image/gif"}
MAX_SVG_BYTES = 300_000
"""Larger SVG files (scatter plots) draw slowly: the PNG is shown if it is smaller."""
MAX_PICTURE_BYTES = 4_000_000
"""Larger files are linked but not shown."""
WIDE = 4.5
"""Width in inches from which a figure gets a row of its own."""
FILM_DPI = 150


def short_title(title: str) -> str:
    """Remove the paper's size and variant: ``T (size=full, variant=text)`` becomes ``T``."""
    title = re.sub(r"(?<=\(|\s)(size=full|variant=text)(,\s*|(?=\)))", "", title)
    return re.sub(r",?\s*\(?\s*\)", lambda end: ")" if "(" not in end[0] else "", title)


def page_table(table: Table) -> Table:
    """Shorten the title of a table, and align the decimal points of its left-aligned columns."""
    widths = [0] * len(table.columns)
    for row in table.rows:
        for place, cell in enumerate(row.cells):
            if table.columns[place].align == "left":
                widths[place] = max(widths[place], _integer_width(cell.lines[0]))
    rows = []
    for row in table.rows:
        cells = [
            replace(cell, lines=(_padded(cell.lines[0], width), *cell.lines[1:]))
            for cell, width in zip(row.cells, widths, strict=True)
        ]
        rows.append(replace(row, cells=tuple(cells)))
    return replace(table, title=short_title(table.title), rows=tuple(rows))


def _integer_width(line: str) -> int:
    """Characters before the decimal point of a line that starts with a number; 0 for others."""
    number = re.match(r"([+−]?\d+)(\.\d| ±|$)", line)
    return len(number[1]) if number else 0


def _padded(line: str, width: int) -> str:
    """Pad a number so that it has this many characters before its decimal point."""
    integer = _integer_width(line)
    return FIGURE_SPACE * (width - integer) + line if integer else line


def table_tags(table: Table) -> dict[str, str]:
    """Experiments and sizes in a table, for filters."""
    columns = {"experiment": ("experiment", "table"), "size": ("size",)}
    values = {
        tag: join_distinct(record[key] for record in table.records for key in keys if key in record)
        for tag, keys in columns.items()
    }
    return {tag: names for tag, names in values.items() if names}


def table_is_minor(table: Table) -> bool:
    """Whether a table belongs in the appendix."""
    return is_minor(table.records, table_tags(table))


def load_figures(out: Path) -> dict[str, Any]:
    """Load the figures in the folder of a report.

    Returns:
        ``sections``: name -> figures, which are entries of the index with ``source`` (a data URI,
        empty if the file is too large), ``inches`` (the native width) and ``wide``.
        ``missing``: command and title of figures without runs.
        ``damaged``: files that could not be read, and the reasons.
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


def first_picture(figures: Mapping[str, Any], prefix: str) -> Mapping[str, Any] | None:
    """The first figure that can be shown and whose name starts with ``prefix``."""
    pictures = [picture for section in figures["sections"].values() for picture in section]
    shown = (one for one in pictures if one["name"].startswith(prefix) and one["source"])
    return next(shown, None)


def _picture(folder: Path, entry: Mapping[str, Any]) -> dict[str, Any]:
    path = _best_file([folder / name for name in entry["files"]])
    source, inches = "", 0.0
    if path is not None:
        content = base64.b64encode(path.read_bytes()).decode()
        source, inches = f"data:{MIME_TYPES[path.suffix]};base64,{content}", _inches(path)
    return {
        "tags": {key: entry["tags"][key] for key in TAGS if entry["tags"].get(key)},
        "source": source,
        "inches": inches,
        "wide": inches > WIDE,
    }


def _best_file(files: Sequence[Path]) -> Path | None:
    """The file to show: an SVG unless it is large, otherwise the smallest picture."""
    pictures = [path for path in files if path.suffix in MIME_TYPES and path.exists()]
    sizes = {path: path.stat().st_size for path in pictures}
    small = [path for path in sizes if path.suffix == ".svg" and sizes[path] <= MAX_SVG_BYTES]
    best = min(small or sizes, key=lambda path: sizes[path], default=None)
    return None if best is None or sizes[best] > MAX_PICTURE_BYTES else best


def _inches(path: Path) -> float:
    if path.suffix == ".svg":
        box = re.search(rb'viewBox="[\d.]+ [\d.]+ ([\d.]+) ', path.read_bytes())
        return float(box[1]) / 72 if box else WIDE
    with Image.open(path) as image:
        return float(image.width / image.info.get("dpi", (FILM_DPI,))[0])
