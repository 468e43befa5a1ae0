"""Tables and figures as the page shows them."""

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
from focusing.reports.names import PROTOCOLS
from focusing.reports.tables import Cell, Column, Row, Table

FIGURE_SPACE = "\u2007"
"""As wide as a digit."""
OF_PROTOCOL = {"Δ": "paper"}
"""Columns that are about a protocol without naming it."""


def short_title(title: str) -> str:
    """``Table 2 (size=paper, variant=author)`` without the size: it is the paper's."""
    title = re.sub(r"(?<=\(|\s)(size|variant)=paper(,\s*|(?=\)))", "", title)
    return re.sub(r",?\s*\(?\s*\)", lambda end: ")" if "(" not in end[0] else "", title)


@dataclass(frozen=True)
class CellView:
    """A cell; ``again`` if it repeats the one above and shows only where that one is hidden."""

    lines: tuple[str, ...]
    bold: bool
    dim: bool
    again: bool
    align: str
    protocol: str


@dataclass(frozen=True)
class RowView:
    """A row and what filters look at."""

    cells: tuple[CellView, ...]
    data: str
    model: str
    protocol: str
    begins: bool


@dataclass(frozen=True)
class TableView:
    """A table.

    Attributes:
        table: what is shown.
        title: in short.
        heads: columns, and what protocol each is about.
        rows: its rows.
    """

    table: Table
    title: str
    heads: tuple[tuple[Column, str], ...]
    rows: tuple[RowView, ...]


def table_views(tables: Sequence[Table]) -> list[TableView]:
    """Views of all tables."""
    return [_view(table) for table in tables]


def _view(table: Table) -> TableView:
    heads = tuple((column, column_protocol(column.title)) for column in table.columns)
    widths = [_width(table, place) for place in range(len(table.columns))]
    rows: list[RowView] = []
    for row in table.rows:
        above = rows[-1].cells if rows and not row.begins else ()
        cells: list[CellView] = []
        for place, ((column, protocol), cell) in enumerate(zip(heads, row.cells, strict=True)):
            leading = all(each.again for each in cells)
            if above and leading and cell == Cell():
                seen = above[place]
                cells.append(CellView(seen.lines, False, False, True, column.align, protocol))
                continue
            lines = (_padded(cell.lines[0], widths[place]), *cell.lines[1:])
            cells.append(CellView(lines, cell.bold, cell.dim, False, column.align, protocol))
        rows.append(_row(row, cells))
    return TableView(table, short_title(table.title), heads, tuple(rows))


def _row(row: Row, cells: Sequence[CellView]) -> RowView:
    tags = {name: row.tags.get(name, "") for name in ("data", "model", "protocol")}
    return RowView(tuple(cells), **tags, begins=row.begins)


def column_protocol(title: str) -> str:
    """The protocol that a column is about; empty for none."""
    named = title.removeprefix("difference, ")
    return named if named in PROTOCOLS else OF_PROTOCOL.get(title, "")


def _whole(line: str) -> int:
    """Signs before the decimal point of a line that begins with a number; 0 for others."""
    found = re.match(r"([+−]?\d+)(\.\d| ±|$)", line)
    return len(found[1]) if found else 0


def _width(table: Table, place: int) -> int:
    if table.columns[place].align != "left":
        return 0
    return max((_whole(row.cells[place].lines[0]) for row in table.rows), default=0)


def _padded(line: str, width: int) -> str:
    """A number moved right, so that decimal points stand below each other."""
    whole = _whole(line)
    return FIGURE_SPACE * (width - whole) + line if whole else line


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
