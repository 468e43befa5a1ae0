"""Tables as LaTeX, with booktabs."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from focusing.reports.tables import Cell, Column, Table

ALIGNMENT = {"left": "l", "right": "r", "center": "c"}
WIDE = 78
"""Characters of a line of text; a wider table is made smaller."""
HEAD = 12
"""Characters of a line of a head, if its words are not longer."""
LONG = 40
"""Lines of a table that still fits on a page."""
SIGNS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "[": "{[}",  # after \\ and \midrule a bare one would begin an option
    "]": "{]}",
    "±": r"$\pm$",
    "−": r"$-$",
    "Δ": r"$\Delta$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "σ": r"$\sigma$",
    "†": r"$\dagger$",
    "→": r"$\rightarrow$",
    "←": r"$\leftarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≠": r"$\neq$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "µ": r"$\mu$",
    "μ": r"$\mu$",
    "√": r"$\surd$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
}
DOCUMENT = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs,graphicx,longtable}
\begin{document}
%s
\end{document}
"""


def latex(table: Table) -> str:
    """A table to input; needs the packages booktabs, graphicx and longtable."""
    spec = "@{}" + "".join(ALIGNMENT[column.align] for column in table.columns) + "@{}"
    heads = [
        _stacked(list(map(escape, _head(each))), ALIGNMENT[each.align]) for each in table.columns
    ]
    head = " & ".join(heads) + r" \\"
    body = []
    for place, row in enumerate(table.rows):
        if row.begins and place:
            body.append(r"\midrule")
        cells = [_cell(cell, spec[3 + place]) for place, cell in enumerate(row.cells)]
        body.append(" & ".join(cells) + r" \\")
    caption = escape(table.title if table.title.endswith(".") else f"{table.title}.")
    notes = " ".join(map(escape, table.notes))
    label = rf"\label{{tab:{table.name}}}"
    if not table.rows:
        return "\n".join([rf"\paragraph{{{caption}}} {notes}", *_commands(table), ""])
    if sum(max(len(cell.lines) for cell in row.cells) for row in table.rows) > LONG:
        middle = [
            r"{\scriptsize\setlength{\tabcolsep}{3pt}",
            rf"\begin{{longtable}}{{{spec}}}",
            rf"\caption{{{caption} {notes}}}{label} \\",
            *(r"\toprule", head, r"\midrule", r"\endfirsthead"),
            *(r"\toprule", head, r"\midrule", r"\endhead"),
            *body,
            *(r"\bottomrule", r"\end{longtable}}"),
        ]
    else:
        inner = [r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
        begin = rf"\begin{{tabular}}{{{spec}}}"
        if _width(table) > WIDE:
            begin, inner[-1] = rf"\resizebox{{\textwidth}}{{!}}{{{begin}", r"\end{tabular}}"
        middle = [
            r"\begin{table}[htbp]",
            r"\centering\small",
            rf"\caption{{{caption} {notes}}}{label}",
            r"\medskip",  # a caption above its table touches it
            begin,
            *inner,
            r"\end{table}",
        ]
    return "\n".join([*middle, *_commands(table), ""])


def document(names: Sequence[str]) -> str:
    """A document that shows all tables, from the files beside it."""
    return DOCUMENT % "\n".join(rf"\input{{{name}}}\clearpage" for name in names)


def escape(content: str) -> str:
    """Any text, so that LaTeX prints it as it is."""
    return "".join(SIGNS.get(sign, sign) for sign in content)


def _commands(table: Table) -> list[str]:
    if not table.commands:
        return []
    items = [
        rf"\item[{escape(mark) if table.rows else ''}] {{\ttfamily {escape(command)}}}"
        for mark, command in table.commands.items()
    ]
    return [r"\begin{description}\footnotesize\raggedright", *items, r"\end{description}"]


def _cell(cell: Cell, align: str) -> str:
    lines = list(map(escape, cell.lines))
    if cell.bold:
        lines[0] = rf"\textbf{{{lines[0]}}}"
    lines[1:] = [rf"\footnotesize {line}" for line in lines[1:]]
    return _stacked(lines, align)


def _head(column: Column) -> list[str]:
    """The lines of a head: a long one would make its column as wide."""
    return wrap(column.title, HEAD, break_long_words=False, break_on_hyphens=False) or [""]


def _stacked(lines: list[str], align: str) -> str:
    if len(lines) == 1:
        return lines[0]
    inner = r" \\ ".join(lines)
    return rf"\begin{{tabular}}[t]{{@{{}}{align}@{{}}}}{inner}\end{{tabular}}"


def _width(table: Table) -> int:
    rows = [[cell.lines for cell in row.cells] for row in table.rows]
    rows.append([tuple(_head(column)) for column in table.columns])
    return sum(
        2 + max(len(line) for row in rows for line in row[place])
        for place in range(len(table.columns))
    )
