"""Tables as Markdown, as GitHub shows it."""

from __future__ import annotations

from focusing.reports.tables import Cell, Table

ALIGNMENT = {"left": ":--", "right": "--:", "center": ":-:"}


def markdown(table: Table, level: int = 2) -> str:
    """A table with its title, notes and commands.

    Args:
        table: the table.
        level: of the title.
    """
    lines = [f"{'#' * level} {_escape(table.title)}", ""]
    if table.rows:
        lines += [
            _row([_escape(column.title) for column in table.columns]),
            _row([ALIGNMENT[column.align] for column in table.columns]),
            *(_row([_cell(cell) for cell in row.cells]) for row in table.rows),
            "",
        ]
    for note in table.notes:
        lines += [_escape(note), ""]
    if table.commands:
        lines += ["Missing cells are filled by:" if table.rows else "This makes them:", ""]
        lines += [
            f"- [{mark}] `{command}`" if table.rows else f"- `{command}`"  # no cell has the mark
            for mark, command in table.commands.items()
        ] + [""]
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    content = "<br>".join(_escape(line) for line in cell.lines)
    if cell.dim and content:
        return f"*{content}*"
    first, *rest = content.split("<br>", 1)
    return "<br>".join([f"**{first}**", *rest]) if cell.bold and first else content


def _escape(content: str) -> str:
    for sign in "\\|*_`":
        content = content.replace(sign, f"\\{sign}")
    return content.replace("<", "&lt;")
