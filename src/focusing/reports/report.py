"""``focusing report``: makes tables, figures and a page from records."""

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
from focusing.reports.names import data_name, model_name, plural
from focusing.reports.report_cache import is_up_to_date, report_state, save_state
from focusing.reports.tables import format_interval, number, p_value, signed
from focusing.reports.tables.files import all_tables, write_tables
from focusing.results.collect import Collection, collect
from focusing.results.stats import MIN_FOR_INTERVAL
from focusing.results.store import atomic_write

DEFAULT_FOLDERS = ("outputs", "results")
CACHE = ".records.json"
SUMMARY = ".summary.json"
"""Rows of the printed summary, for a report that did not change."""
WRITERS = {
    "figures": ("focusing.reports.figures.gallery", "write_figures"),
    "page": ("focusing.reports.page.site", "write_page"),
}
"""Modules and functions that run after the tables; imported only if something changed."""
PIPE_WIDTH = 120
"""Columns of output that does not go to a terminal."""
MAX_ROWS = 10
"""Most rows of the summary: a report prints at most 20 lines."""

ProgressCallback = Callable[[str, int, int], None]
"""Called with the part that is being made, the number of finished items and of all."""


def main(options: argparse.Namespace) -> None:
    """Run ``focusing report`` with its arguments."""
    folders = search_folders(options.folders)
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    if options.serve:
        from focusing.reports.serve import serve

        serve(folders, options.out, options.port, console)
        return
    with progress_bar() as progress:
        progress("records", 0, 1)
        collection = collect(folders, options.out / CACHE)
        if not collection.runs and not collection.failed:
            warning = collection.warning()
            raise UserError(" ".join(filter(None, (no_runs_message(folders), warning))))
        write_report(collection, options.out, progress)
    if warning := collection.warning():
        print(warning, file=sys.stderr)
    for line in summary_lines(options.out, console.width):
        console.print(line, soft_wrap=isinstance(line, str), markup=False)
    console.print(headline(collection, options.out), soft_wrap=True, markup=False)


@contextmanager
def progress_bar() -> Iterator[ProgressCallback]:
    """Show a progress bar on stderr, if that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("")
        yield lambda part, ready, total: bar.update(
            task, description=part, completed=ready, total=max(1, total)
        )


def write_report(
    collection: Collection, out: Path, progress: ProgressCallback | None = None
) -> None:
    """Write ``tables/``, ``figures/`` and ``index.html`` below ``out``, unless nothing changed."""
    state = report_state(collection)
    if is_up_to_date(out, state):
        return  # without importing matplotlib
    progress = progress or (lambda part, ready, total: None)
    out.mkdir(parents=True, exist_ok=True)
    progress("tables", 0, 1)
    files = [*write_tables(collection, out), out / SUMMARY]
    atomic_write(out / SUMMARY, json.dumps(summary_rows(collection)).encode(), sync=False)
    for part, (module, function) in WRITERS.items():
        progress(part, 0, 1)
        write = getattr(import_module(module), function)
        files += write(collection, out, partial(progress, part))
    save_state(out, state, files)


def summary_rows(collection: Collection) -> list[list[str]]:
    """Rows of the summary, one per setting: full-size runs first, then smaller and fewer runs.

    A row holds experiment, data, networks, difference under the preferred protocol, p, and number
    of runs.
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
            interval = format_interval(row.interval, sign=True)
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
    """The summary for a terminal with ``screen`` columns: first differences, missing figures."""
    rows = json.loads((out / SUMMARY).read_bytes())
    if rows:
        grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
        titles = ("experiment", "data", "networks", "difference, 95 %", "p", "n")
        columns = zip(titles, *rows[:MAX_ROWS], strict=True)
        widths = [max(map(len, cells)) + 3 for cells in columns]
        room = screen - sum(widths) + widths[1]  # only the column of data may be cut
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
    if not_drawn := _not_drawn(out):
        yield not_drawn


def _not_drawn(out: Path) -> str:
    """A sentence on figures without runs or with damaged files; empty if there are none."""
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
    """Folders to search for records: those named, or the default ones that exist."""
    folders = [Path(name) for name in names or DEFAULT_FOLDERS]
    missing = [folder for folder in folders if not folder.is_dir()]
    if names and missing:
        raise UserError(f"{missing[0]} is not a folder.")
    if missing == folders:
        raise UserError(f"There is no folder {' or '.join(DEFAULT_FOLDERS)} here; name one.")
    return [folder for folder in folders if folder not in missing]


def no_runs_message(folders: Sequence[Path]) -> str:
    """Error message for folders without finished runs."""
    return f"No finished runs below {' and '.join(map(str, folders))}: python train.py makes one."


def headline(collection: Collection, out: Path) -> str:
    """One line with the number of runs and the place of the report."""
    failed = f", {len(collection.failed)} failed" if collection.failed else ""
    words = "1 copy" if collection.repeated == 1 else f"{collection.repeated} copies"
    copies = f", {words} left out" if collection.repeated else ""
    return f"{plural(len(collection.runs), 'run')}{failed}{copies}: {out / 'index.html'}"
