"""``focusing report``: from records to tables, figures and a page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from rich.console import Console

from focusing.errors import UserError
from focusing.reports.tables.files import all_tables, write_tables
from focusing.reports.terminal import table_lines
from focusing.results.collect import Collection, collect

DEFAULT_FOLDERS = ("outputs", "results")
CACHE = ".records.json"
Writer = Callable[[Collection, Path], object]
WRITERS = {
    "figures": ("focusing.reports.figures.gallery", "write_figures"),
    "page": ("focusing.reports.page", "write_page"),
}
"""What comes after the tables, and may draw on them; imported when it is used."""


def main(options: argparse.Namespace) -> None:
    """Run the command with its arguments."""
    folders = search_folders(options.folders)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    if options.serve:
        from focusing.reports.serve import serve

        serve(folders, options.out, options.port, console)
        return
    collection = collect(folders, options.out / CACHE)
    warning = collection.warning()
    if warning:
        print(warning, file=sys.stderr)
    if not collection.runs and not collection.failed:
        raise UserError(nothing(folders))
    printed: set[str] = set()
    for table in all_tables(collection):
        console.print(*table_lines(table, printed), sep="\n")
    write_report(collection, options.out)
    from focusing.reports.figures.gallery import missing_lines  # matplotlib takes a second

    for line in missing_lines(options.out):
        console.print(line, style="dim", markup=False, soft_wrap=True)
    console.print(headline(collection, options.out), soft_wrap=True)


def write_report(collection: Collection, out: Path) -> None:
    """Write all files of a report: ``tables/``, ``figures/`` and ``index.html``."""
    out.mkdir(parents=True, exist_ok=True)
    write_tables(collection, out)
    for module, function in WRITERS.values():
        getattr(import_module(module), function)(collection, out)


def search_folders(names: Sequence[str]) -> list[Path]:
    """The folders to search: those named, or those where results are by default."""
    if not names:
        existing = [Path(name) for name in DEFAULT_FOLDERS if Path(name).is_dir()]
        if not existing:
            raise UserError(f"There is no folder {' or '.join(DEFAULT_FOLDERS)} here; name one.")
        return existing
    folders = [Path(name) for name in names]
    missing = [folder for folder in folders if not folder.is_dir()]
    if missing:
        raise UserError(f"{missing[0]} is not a folder.")
    return folders


def nothing(folders: Sequence[Path]) -> str:
    """That there is nothing to report."""
    return f"No finished runs below {' and '.join(map(str, folders))}: python train.py makes one."


def headline(collection: Collection, out: Path) -> str:
    """What went into a report, and where it is."""
    failed = f", {len(collection.failed)} failed" if collection.failed else ""
    copies = f", {collection.repeated} copies left out" if collection.repeated else ""
    runs = "1 run" if len(collection.runs) == 1 else f"{len(collection.runs)} runs"
    return f"{runs}{failed}{copies}: {out / 'index.html'}"
