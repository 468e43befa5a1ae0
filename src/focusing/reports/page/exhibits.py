"""Tables and figures as the page shows them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from focusing.reports.figures.gallery import FOLDER, INDEX
from focusing.reports.names import PROTOCOLS
from focusing.reports.tables import Cell, Row, Table

FIGURE_SPACE = "\u2007"
"""As wide as a digit."""
OF_PROTOCOL = {"Δ": "best_test"}
"""Columns that are about a protocol without naming it."""


def short_title(title: str) -> str:
    """``Table 2 (size=full, variant=author)`` without the size: it is the paper's."""
    title = re.sub(r"(?<=\(|\s)(size=full|variant=text)(,\s*|(?=\)))", "", title)
    return re.sub(r",?\s*\(?\s*\)", lambda end: ")" if "(" not in end[0] else "", title)


def page_table(table: Table) -> Table:
    """A table with a short title, aligned numbers, and cells that repeat the one above.

    A repeated cell is shown only where a filter hides the row above it.
    """
    widths = [_width(table, place) for place in range(len(table.columns))]
    rows: list[Row] = []
    for row in table.rows:
        above = rows[-1].cells if rows and not row.begins else ()
        cells: list[Cell] = []
        for place, cell in enumerate(row.cells):
            if above and cell == Cell() and all(earlier.again for earlier in cells):
                cells.append(Cell(above[place].lines, again=True))
                continue
            lines = (_padded(cell.lines[0], widths[place]), *cell.lines[1:])
            cells.append(replace(cell, lines=lines))
        rows.append(replace(row, cells=tuple(cells)))
    return replace(table, title=short_title(table.title), rows=tuple(rows))


def column_protocol(title: str) -> str:
    """The protocol that a column is about; empty for none."""
    named = title.removeprefix("difference, ")
    return named if named in PROTOCOLS else OF_PROTOCOL.get(title, "")


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
WIDE_RATIO = 2.2
"""Width over height, from which on a figure gets a row of its own."""
MAX_PICTURE_BYTES = 4_000_000
"""A larger file is linked but not shown."""


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


@dataclass(frozen=True)
class Exhibition:
    """The figures of a report in their order.

    Attributes:
        pictures: the figures.
        missing: command and title of those without runs.
        damaged: files that could not be drawn from, and why.
    """

    pictures: Sequence[Picture] = ()
    missing: Sequence[tuple[str, str]] = ()
    damaged: Sequence[tuple[str, str]] = ()


def exhibition(out: Path) -> Exhibition:
    """The figures in the folder of a report; none, if it has no figures."""
    try:
        index = json.loads((out / FOLDER / INDEX).read_bytes())
    except FileNotFoundError:
        return Exhibition()
    return Exhibition(
        [_picture(out / FOLDER, entry) for entry in index["figures"]],
        [(entry["command"], entry["title"]) for entry in index["missing"]],
        [(entry["file"], entry["reason"]) for entry in index.get("damaged", ())],
    )


def _picture(folder: Path, entry: Mapping[str, Any]) -> Picture:
    tags = {name: str(entry["tags"].get(name) or "") for name in ("data", "model", "protocol")}
    shown = _shown([folder / name for name in entry["files"]])
    return Picture(
        title=short_title(entry["title"]),
        caption=entry["caption"],
        **tags,
        wide=shown is not None and _shape(shown) > WIDE_RATIO,
        source="" if shown is None else _uri(shown),
        files=tuple(entry["files"]),
    )


def _shown(files: Sequence[Path]) -> Path | None:
    """The best of the files: an SVG unless it is large, else the smallest picture."""
    sizes = {path: path.stat().st_size for path in files if path.suffix in KINDS and path.exists()}
    small = [path for path in sizes if path.suffix == ".svg" and sizes[path] <= MAX_SVG_BYTES]
    best = min(small or sizes, key=lambda path: sizes[path], default=None)
    return None if best is None or sizes[best] > MAX_PICTURE_BYTES else best


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
