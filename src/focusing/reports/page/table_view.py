"""Tables as the page shows them: which rows and columns a filter hides, and numbers in line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from focusing.reports.names import PROTOCOLS
from focusing.reports.page.titles import short_title
from focusing.reports.tables import Cell, Column, Row, Table

FIGURE_SPACE = "\u2007"
"""As wide as a digit."""
OF_PROTOCOL = {"Δ": "paper"}
"""Columns that are about a protocol without naming it."""


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
