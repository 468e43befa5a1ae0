"""All tables of a report, and their files: Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, count
from pathlib import Path
from textwrap import wrap

import pandas as pd  # type: ignore[import-untyped]

from focusing.reports.tables import Cell, Column, Record, Table, diagnostics, experiments
from focusing.reports.tables.paper_tables import paper_tables
from focusing.reports.tables.trial_tables import marginal_tables, trial_tables
from focusing.results.collect import Collection
from focusing.results.store import atomic_write, safe_join

FOLDER = "tables"
TABLES = (
    trial_tables,
    marginal_tables,
    paper_tables,
    diagnostics.optimism_tables,
    diagnostics.course_tables,
    experiments.experiment_tables,
    experiments.chosen_tables,
    experiments.learnt_tables,
    diagnostics.pruning_tables,
    diagnostics.failed_tables,
    diagnostics.unreadable_tables,
)
"""Functions that make the tables: in the order of the paper, then what goes beyond it."""
MARKDOWN_ALIGNMENT = {"left": ":--", "right": "--:", "center": ":-:"}
MAX_LINE = 78
"""Characters of a line of text; wider LaTeX tables are scaled down."""
MAX_HEAD_LINE = 12
"""Characters of a line of a heading, unless a word is longer."""
MAX_PAGE_LINES = 40
"""Lines of a table that fit on a page; longer tables go over several."""
MATH = {"±": "pm", "Δ": "Delta", "×": "times", "·": "cdot", "σ": "sigma", "†": "dagger",
        "→": "rightarrow", "←": "leftarrow", "≤": "leq", "≥": "geq", "≠": "neq", "≈": "approx",
        "∞": "infty", "µ": "mu", "μ": "mu", "√": "surd"}  # fmt: skip
LATEX_SIGNS = {
    **{sign: rf"\{sign}" for sign in "{}&%$#_"},
    **{sign: rf"$\{command}$" for sign, command in MATH.items()},
    **{"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "…": r"\ldots{}"},
    **{"−": "$-$", "–": "--", "—": "---"},
    **{"[": "{[}", "]": "{]}"},  # after \\ and \midrule a bare bracket would begin an option
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
    """Make every table of a report."""
    tables = [table for make in TABLES for table in make(collection)]
    names = unique_names([table.name for table in tables])
    return tuple(replace(table, name=name) for table, name in zip(tables, names, strict=True))


def unique_names(names: Sequence[str]) -> list[str]:
    """Number repeated file names; on some file systems ``A`` and ``a`` are the same."""
    taken = {"all"}
    unique = []
    for name in names:
        numbered = chain([name], (f"{name}_{copy}" for copy in count(2)))
        unique.append(next(copy for copy in numbered if copy.casefold() not in taken))
        taken.add(unique[-1].casefold())
    return unique


def write_tables(collection: Collection, out: Path) -> list[Path]:
    """Write ``tables/<name>.md``, ``.tex`` and ``.csv``, and ``all.md`` and ``all.tex`` of all.

    Returns the files.
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
    """Records as CSV: one line each, with the columns of all of them."""
    table = pd.DataFrame(list(records), dtype=object)  # whole numbers stay whole beside gaps
    return str(table.to_csv(index=False, lineterminator="\n"))


def markdown(table: Table, level: int = 2) -> str:
    """A table as Markdown, with its title as a heading of this level, notes and commands."""
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
        marked = {mark: f"[{mark}] " if table.rows else "" for mark in table.commands}
        lines += [f"- {marked[mark]}`{command}`" for mark, command in table.commands.items()]
        lines.append("")
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
    r"""A table to ``\input``; it needs the packages booktabs, graphicx and longtable."""
    caption = escape(table.title if table.title.endswith(".") else f"{table.title}.")
    notes = " ".join(map(escape, table.notes))
    if not table.rows:
        return "\n".join([rf"\paragraph{{{caption}}} {notes}", *_latex_commands(table), ""])
    alignment = [column.align[0] for column in table.columns]
    spec = "@{}" + "".join(alignment) + "@{}"
    heads = [list(map(escape, _head(column))) for column in table.columns]
    head = " & ".join(map(_stacked, heads, alignment)) + r" \\"
    body = []
    for place, row in enumerate(table.rows):
        if row.starts_block and place:
            body.append(r"\midrule")
        body.append(" & ".join(map(_latex_cell, row.cells, alignment)) + r" \\")
    caption = rf"\caption{{{caption} {notes}}}\label{{tab:{table.name}}}"
    if sum(max(len(cell.printed) for cell in row.cells) for row in table.rows) > MAX_PAGE_LINES:
        content = [
            r"{\scriptsize\setlength{\tabcolsep}{3pt}",
            rf"\begin{{longtable}}{{{spec}}}",
            rf"{caption} \\",
            *(r"\toprule", head, r"\midrule", r"\endfirsthead"),
            *(r"\toprule", head, r"\midrule", r"\endhead"),
            *body,
            *(r"\bottomrule", r"\end{longtable}}"),
        ]
    else:
        begin, end = rf"\begin{{tabular}}{{{spec}}}", r"\end{tabular}"
        if _width(table) > MAX_LINE:
            begin, end = rf"\resizebox{{\textwidth}}{{!}}{{{begin}", r"\end{tabular}}"
        content = [
            r"\begin{table}[htbp]",
            r"\centering\small",
            caption,
            r"\medskip",  # a caption above its table touches it
            *(begin, r"\toprule", head, r"\midrule"),
            *body,
            *(r"\bottomrule", end, r"\end{table}"),
        ]
    return "\n".join([*content, *_latex_commands(table), ""])


def document(names: Sequence[str]) -> str:
    """A LaTeX document that shows the tables of these names, from the files beside it."""
    return DOCUMENT % "\n".join(rf"\input{{{name}}}\clearpage" for name in names)


def escape(content: str) -> str:
    """Escape any text for LaTeX."""
    return "".join(LATEX_SIGNS.get(sign, sign) for sign in content)


def _latex_commands(table: Table) -> list[str]:
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
    """Lines of a heading, so that a long one does not widen its column."""
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
        2 + max(len(line) for lines in column for line in lines)
        for column in zip(*rows, strict=True)
    )
