"""All tables of a report, and their files: Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, count
from pathlib import Path
from textwrap import wrap

import pandas as pd  # type: ignore[import-untyped]

from focusing.reports.tables import Cell, Column, Record, Table
from focusing.reports.tables.diagnostics import (
    course_tables,
    failed_tables,
    optimism_tables,
    pruning_tables,
    unreadable_tables,
)
from focusing.reports.tables.experiments import (
    chosen_tables,
    experiment_tables,
    learnt_tables,
)
from focusing.reports.tables.paper_tables import paper_tables
from focusing.reports.tables.trial_tables import marginal_tables, trial_tables
from focusing.results.collect import Collection
from focusing.results.store import atomic_write, safe_join

FOLDER = "tables"
MARKDOWN_ALIGNMENT = {"left": ":--", "right": "--:", "center": ":-:"}
LATEX_ALIGNMENT = {"left": "l", "right": "r", "center": "c"}
MAX_LINE = 78
"""Characters of a line of text; a wider table is made smaller."""
MAX_HEAD_LINE = 12
"""Characters of a line of a head, if its words are not longer."""
MAX_PAGE_LINES = 40
"""Lines of a table that still fits on a page."""
MATH = {"±": "pm", "Δ": "Delta", "×": "times", "·": "cdot", "σ": "sigma", "†": "dagger",
        "→": "rightarrow", "←": "leftarrow", "≤": "leq", "≥": "geq", "≠": "neq", "≈": "approx",
        "∞": "infty", "µ": "mu", "μ": "mu", "√": "surd"}  # fmt: skip
LATEX_SIGNS = {
    **{sign: rf"\{sign}" for sign in "{}&%$#_"},
    **{sign: rf"$\{command}$" for sign, command in MATH.items()},
    **{"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "…": r"\ldots{}"},
    **{"−": "$-$", "–": "--", "—": "---"},
    **{"[": "{[}", "]": "{]}"},  # after \\ and \midrule a bare one would begin an option
}
DOCUMENT = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs,graphicx,longtable}
\begin{document}
%s
\end{document}
"""


@lru_cache(maxsize=1)  # files, the terminal and the page show the same ones
def all_tables(collection: Collection) -> tuple[Table, ...]:
    """Every table, in the order of the paper, then what goes beyond it."""
    tables = (
        *trial_tables(collection),
        *marginal_tables(collection),
        *paper_tables(collection),
        *optimism_tables(collection),
        *course_tables(collection),
        *experiment_tables(collection),
        *chosen_tables(collection),
        *learnt_tables(collection),
        *pruning_tables(collection),
        *failed_tables(collection),
        *unreadable_tables(collection),
    )
    names = unique_names([table.name for table in tables])
    return tuple(replace(table, name=name) for table, name in zip(tables, names, strict=True))


def unique_names(names: Sequence[str]) -> list[str]:
    """The same names, numbered where two experiments would share files: ``a b`` and ``a-b``."""
    taken = {"all"}  # also where A and a are one file
    unique = []
    for name in names:
        numbered = chain([name], (f"{name}_{copy}" for copy in count(2)))
        unique.append(next(copy for copy in numbered if copy.casefold() not in taken))
        taken.add(unique[-1].casefold())
    return unique


def write_tables(collection: Collection, out: Path) -> list[Path]:
    """Write ``tables/<name>.md``, ``.tex`` and ``.csv``, and ``all.md`` and ``all.tex`` of all.

    Args:
        collection: the runs.
        out: folder of the report.

    Returns:
        The files.
    """
    folder = safe_join(out, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    tables = all_tables(collection)
    texts = {"all.tex": document([table.name for table in tables])}
    texts["all.md"] = "\n".join(["# Tables", "", *map(markdown, tables)])
    for table in tables:
        texts[f"{table.name}.md"] = markdown(table, level=1)
        texts[f"{table.name}.tex"] = latex(table)
        if table.records:
            texts[f"{table.name}.csv"] = records_csv(table.records)
    for name, content in texts.items():
        atomic_write(folder / name, content.encode(), sync=False)
    return [folder / name for name in texts]


def records_csv(records: Sequence[Record]) -> str:
    """Records as CSV, a line per record, with all names that any of them has."""
    table = pd.DataFrame(list(records), dtype=object)  # whole numbers stay whole beside gaps
    return str(table.to_csv(index=False, lineterminator="\n"))


def markdown(table: Table, level: int = 2) -> str:
    """A table with its title, notes and commands.

    Args:
        table: the table.
        level: of the title.
    """
    lines = [f"{'#' * level} {_escape_markdown(table.title)}", ""]
    if table.rows:
        lines += [
            _markdown_row([_escape_markdown(column.title) for column in table.columns]),
            _markdown_row([MARKDOWN_ALIGNMENT[column.align] for column in table.columns]),
            *(_markdown_row([_markdown_cell(cell) for cell in row.cells]) for row in table.rows),
            "",
        ]
    for note in table.notes:
        lines += [_escape_markdown(note), ""]
    if table.commands:
        lines += ["Missing cells are filled by:" if table.rows else "This makes them:", ""]
        lines += [
            f"- [{mark}] `{command}`" if table.rows else f"- `{command}`"  # no cell has the mark
            for mark, command in table.commands.items()
        ] + [""]
    return "\n".join(lines)


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    content = "<br>".join(_escape_markdown(line) for line in cell.printed)
    if cell.dim and content:
        return f"*{content}*"
    first, *rest = content.split("<br>", 1)
    return "<br>".join([f"**{first}**", *rest]) if cell.bold and first else content


def _escape_markdown(content: str) -> str:
    for sign in "\\|*_`":
        content = content.replace(sign, f"\\{sign}")
    return content.replace("<", "&lt;")


def latex(table: Table) -> str:
    """A table to input; needs the packages booktabs, graphicx and longtable."""
    spec = "@{}" + "".join(LATEX_ALIGNMENT[column.align] for column in table.columns) + "@{}"
    heads = [
        _stacked(list(map(escape, _head(column))), LATEX_ALIGNMENT[column.align])
        for column in table.columns
    ]
    head = " & ".join(heads) + r" \\"
    body = []
    for place, row in enumerate(table.rows):
        if row.begins and place:
            body.append(r"\midrule")
        cells = [_latex_cell(cell, spec[3 + place]) for place, cell in enumerate(row.cells)]
        body.append(" & ".join(cells) + r" \\")
    caption = escape(table.title if table.title.endswith(".") else f"{table.title}.")
    notes = " ".join(map(escape, table.notes))
    label = rf"\label{{tab:{table.name}}}"
    if not table.rows:
        return "\n".join([rf"\paragraph{{{caption}}} {notes}", *_commands(table), ""])
    if sum(max(len(cell.printed) for cell in row.cells) for row in table.rows) > MAX_PAGE_LINES:
        content = [
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
        if _width(table) > MAX_LINE:
            begin, inner[-1] = rf"\resizebox{{\textwidth}}{{!}}{{{begin}", r"\end{tabular}}"
        content = [
            r"\begin{table}[htbp]",
            r"\centering\small",
            rf"\caption{{{caption} {notes}}}{label}",
            r"\medskip",  # a caption above its table touches it
            begin,
            *inner,
            r"\end{table}",
        ]
    return "\n".join([*content, *_commands(table), ""])


def document(names: Sequence[str]) -> str:
    """A document that shows all tables, from the files beside it."""
    return DOCUMENT % "\n".join(rf"\input{{{name}}}\clearpage" for name in names)


def escape(content: str) -> str:
    """Any text, so that LaTeX prints it as it is."""
    return "".join(LATEX_SIGNS.get(sign, sign) for sign in content)


def _commands(table: Table) -> list[str]:
    if not table.commands:
        return []
    items = [
        rf"\item[{escape(mark) if table.rows else ''}] {{\ttfamily {escape(command)}}}"
        for mark, command in table.commands.items()
    ]
    return [r"\begin{description}\footnotesize\raggedright", *items, r"\end{description}"]


def _latex_cell(cell: Cell, align: str) -> str:
    lines = list(map(escape, cell.printed))
    if cell.bold:
        lines[0] = rf"\textbf{{{lines[0]}}}"
    lines[1:] = [rf"\footnotesize {line}" for line in lines[1:]]
    return _stacked(lines, align)


def _head(column: Column) -> list[str]:
    """The lines of a head: a long one would make its column as wide."""
    return wrap(column.title, MAX_HEAD_LINE, break_long_words=False, break_on_hyphens=False) or [""]


def _stacked(lines: list[str], align: str) -> str:
    if len(lines) == 1:
        return lines[0]
    inner = r" \\ ".join(lines)
    return rf"\begin{{tabular}}[t]{{@{{}}{align}@{{}}}}{inner}\end{{tabular}}"


def _width(table: Table) -> int:
    rows = [[cell.printed for cell in row.cells] for row in table.rows]
    rows.append([tuple(_head(column)) for column in table.columns])
    return sum(
        2 + max(len(line) for row in rows for line in row[place])
        for place in range(len(table.columns))
    )
