"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from focusing.reports.tables import Cell, Table

MOST_ROWS = 40


def terminal(table: Table, told: set[str] | None = None) -> Iterator[RenderableType]:
    """A table, its notes and its commands, to be printed one after the other.

    Args:
        table: the table.
        told: notes that were printed before and need not be again; gets those of this table.
    """
    told = set() if told is None else told
    if not table.rows:
        yield Text(table.title, style="bold")
    else:
        yield _grid(table)
    if len(table.rows) > MOST_ROWS:
        yield Text(f"... and {len(table.rows) - MOST_ROWS} more rows, in {table.name}.md")
    for note in [each for each in table.notes if each not in told]:
        told.add(note)
        yield Padding(Text(note, style="dim"), (0, 0, 0, 1))
    for mark, command in table.commands.items():
        told_as = f"[{mark}] {command}" if table.rows else command
        yield Padding(Text(told_as, style="dim"), (0, 0, 0, 1))
    yield ""


def _grid(table: Table) -> Grid:
    grid = Grid(
        title=escape(table.title),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for column in table.columns:
        grid.add_column(escape(column.title), justify=column.align, overflow="fold")
    for row in table.rows[:MOST_ROWS]:
        if row.begins and grid.rows:
            grid.add_section()
        grid.add_row(*map(_cell, row.cells))
    return grid


def _cell(cell: Cell) -> Text:
    content = Text(cell.lines[0], style="bold" if cell.bold else "dim" if cell.dim else "")
    for line in cell.lines[1:]:
        content.append(f"\n{line}", style="dim")
    return content
