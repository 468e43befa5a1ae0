"""All tables, and their files: Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from focusing.reports.tables import Table
from focusing.reports.tables.course import course_tables
from focusing.reports.tables.experiment import experiment_tables
from focusing.reports.tables.failed import failed_tables, unreadable_tables
from focusing.reports.tables.latex import document, latex
from focusing.reports.tables.marginals import marginal_tables
from focusing.reports.tables.markdown import markdown
from focusing.reports.tables.optimism import optimism_tables
from focusing.reports.tables.paper import paper_tables
from focusing.reports.tables.pruning import pruning_tables
from focusing.reports.tables.trials import trial_tables
from focusing.results.collect import Collection
from focusing.results.store import atomic_write, inside, remove

FOLDER = "tables"


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
        *pruning_tables(collection),
        *failed_tables(collection),
        *unreadable_tables(collection),
    )
    names = unique_names([table.name for table in tables])
    return tuple(replace(table, name=name) for table, name in zip(tables, names, strict=True))


def unique_names(names: Sequence[str]) -> list[str]:
    """The same names, numbered where two experiments would share files: ``a b`` and ``a-b``."""
    taken = {"all"}  # also where A and a are one file
    found = []
    for name in names:
        copy, unique = 1, name
        while unique.casefold() in taken:
            copy += 1
            unique = f"{name}_{copy}"
        taken.add(unique.casefold())
        found.append(unique)
    return found


def write_tables(collection: Collection, out: Path) -> list[Path]:
    """Write ``tables/<name>.md``, ``.tex`` and ``.csv``, and ``all.md`` and ``all.tex`` of all.

    Args:
        collection: the runs.
        out: folder of the report.
    """
    folder = inside(out, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / ".written"  # what is left of runs that are no longer there goes
    if written.is_file():
        remove(folder, written.read_text(errors="replace").splitlines())
    tables = all_tables(collection)
    texts = {"all.tex": document([table.name for table in tables])}
    texts["all.md"] = "\n".join(["# Tables", "", *map(markdown, tables)])
    for table in tables:
        texts[f"{table.name}.md"] = markdown(table, level=1)
        texts[f"{table.name}.tex"] = latex(table)
        if table.records:
            texts[f"{table.name}.csv"] = csv_text(table)
    for name, content in texts.items():
        atomic_write(folder / name, content.encode(), sync=False)
    atomic_write(written, "".join(f"{name}\n" for name in texts).encode(), sync=False)
    return [folder / name for name in texts]


def csv_text(table: Table) -> str:
    """The numbers of a table in full precision, one line for each."""
    return records_csv(table.records)


def records_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Records with all names that any of them has, one line for each."""
    names = list(dict.fromkeys(name for record in records for name in record))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()
