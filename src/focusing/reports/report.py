"""``focusing report``: from records to tables, figures and a page; what did not change is kept."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table as Grid

from focusing.config import PAPER_EDITION
from focusing.errors import UserError
from focusing.reports.differences import all_differences, noise_differences
from focusing.reports.names import data_name, model_name
from focusing.reports.report_cache import remember, report_state, unchanged
from focusing.reports.tables import between, number, p_value, signed
from focusing.reports.tables.files import all_tables, write_tables
from focusing.results.collect import Collection, collect
from focusing.results.stats import MIN_FOR_INTERVAL
from focusing.results.store import atomic_write

DEFAULT_FOLDERS = ("outputs", "results")
CACHE = ".records.json"
SUMMARY = ".summary.json"
"""What the terminal showed last: a report that did not change shows it again."""
WRITERS = {
    "figures": ("focusing.reports.figures.gallery", "write_figures"),
    "page": ("focusing.reports.page.site", "write_page"),
}
"""What comes after the tables, and may draw on them; imported when it is used."""
PIPE_WIDTH = 120
"""Columns of what is printed to no terminal."""
MAX_ROWS = 10
"""Rows of the summary: with its head and end, a report prints no more than 20 lines."""


def main(options: argparse.Namespace) -> None:
    """Run the command with its arguments."""
    folders = search_folders(options.folders)
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    if options.serve:
        from focusing.reports.serve import serve

        serve(folders, options.out, options.port, console)
        return
    with progress_bar() as show:
        show("records", 0, 1)
        collection = collect(folders, options.out / CACHE)
        if not collection.runs and not collection.failed:
            raise UserError(nothing(folders))
        write_report(collection, options.out, show)
    if warning := collection.warning():
        print(warning, file=sys.stderr)
    for line in summary_lines(options.out, console.width):
        console.print(line, soft_wrap=isinstance(line, str), markup=False)
    console.print(headline(collection, options.out), soft_wrap=True)


Show = Callable[[str, int, int], None]
"""Shows what is being made, how much of it is ready, and of how much."""


@contextmanager
def progress_bar() -> Iterator[Show]:
    """A bar on stderr while a report is made, if there is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("")
        yield lambda part, ready, total: bar.update(
            task, description=part, completed=ready, total=max(1, total)
        )


def write_report(collection: Collection, out: Path, show: Show | None = None) -> None:
    """Write all files of a report: ``tables/``, ``figures/`` and ``index.html``.

    Args:
        collection: the runs.
        out: folder of the report. One that was made from the same records stays as it is.
        show: told of the progress.
    """
    state = report_state(collection)
    if unchanged(out, state):
        return  # and matplotlib is not even imported
    show = show or (lambda part, ready, total: None)
    out.mkdir(parents=True, exist_ok=True)
    show("tables", 0, 1)
    files = [*write_tables(collection, out), out / SUMMARY]
    atomic_write(out / SUMMARY, json.dumps(differences(collection)).encode(), sync=False)
    for part, (module, function) in WRITERS.items():
        show(part, 0, 1)
        write = getattr(import_module(module), function)
        files += write(collection, out, partial(show, part))
    remember(out, state, files)


def differences(collection: Collection) -> list[list[str]]:
    """What focus changed, a row for each setting: as published first, then smaller and fewer runs.

    Of several protocols the honest one counts. Rows hold: experiment, data, networks, difference,
    p and number of runs.
    """
    findings = [*noise_differences(all_tables(collection)), *all_differences(collection)]
    rows: list[tuple[tuple[bool, ...], list[str]]] = []
    for finding in findings:
        edition = [
            word for word in (finding.size, finding.variant) if word not in PAPER_EDITION.values()
        ]
        for row in finding.rows:
            if not row.shown or row.model.startswith("fixed"):
                continue
            where = dict.fromkeys([data_name(row.data), *row.label])
            where.pop(row.source, None)
            interval = between(row.interval, sign=True)
            cells = [
                " ".join([finding.experiment, *edition]),
                ", ".join(where),
                f"{model_name(row.model)} − {model_name(row.other)}",
                f"{signed(row.value)} {interval}".rstrip(),
                p_value(row.p),
                f"{row.n[0]} ({row.protocol})",
            ]
            few = row.n[0] < MIN_FOR_INTERVAL
            rank = row.source == "fake", finding.size != "full", few, finding.variant != "text"
            rows.append((rank, cells))
    return [row for _, row in sorted(rows, key=lambda item: item[0])]


def summary_lines(out: Path, screen: int) -> Iterator[Grid | str]:
    """What a terminal of so many columns shows: the first differences, and what is not drawn."""
    rows = json.loads((out / SUMMARY).read_bytes())
    if rows:
        grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
        titles = ("experiment", "data", "networks", "difference, 95 %", "p", "n")
        columns = zip(titles, *rows[:MAX_ROWS], strict=True)
        widths = [max(map(len, cells)) + 3 for cells in columns]
        room = screen - sum(widths) + widths[1]  # data alone may be cut
        for title in titles:
            width = max(8, min(room - 3, 36)) if title == "data" else None
            grid.add_column(title, no_wrap=True, max_width=width)
        for row in rows[:MAX_ROWS]:
            grid.add_row(*row)
        yield grid
        if len(rows) > MAX_ROWS:
            yield f"... and {number(len(rows) - MAX_ROWS, 0)} more: {out / 'tables' / 'all.md'}"
    else:
        yield "No focused network has a dense twin of the same settings yet: nothing is compared."
    not_drawn = _not_drawn(out)
    if not_drawn:
        yield not_drawn


def _not_drawn(out: Path) -> str:
    """How many figures have no runs yet, or damaged ones: a sentence, or nothing."""
    try:
        index: Mapping[str, Sequence[object]] = json.loads(
            (out / "figures" / "index.json").read_bytes()
        )
    except (OSError, ValueError):
        return ""
    words = {"missing": "have no runs yet", "damaged": "have damaged files"}
    parts = [f"{len(index[kind])} {why}" for kind, why in words.items() if index.get(kind)]
    return f"Figures not drawn: {', '.join(parts)}; the page says more." if parts else ""


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
