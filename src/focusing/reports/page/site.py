"""Writes the pages of a report: ``index.html`` and one page per run, all self-contained."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from focusing.reports.differences import findings, noise_differences, pruning_results
from focusing.reports.figures.gallery import APPENDIX
from focusing.reports.names import DATA, MODELS, PROTOCOLS, data_name, model_name
from focusing.reports.page import exhibits, overview
from focusing.reports.page.run_page import run_view
from focusing.reports.report_cache import code_version
from focusing.reports.settings import editions
from focusing.reports.tables import Table, file_name, format_interval, number, p_value, signed
from focusing.reports.tables.files import all_tables, unique_names
from focusing.reports.terminal import PROTOCOL_MEANINGS
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by, replicate_key
from focusing.results.store import atomic_write, safe_join

TEMPLATES = Path(__file__).parent / "templates"
RUNS = "runs"
Item = TypeVar("Item")
MAX_EXPERIMENT_NAME = 80
"""Most characters of an experiment's name in the file name of a run."""


def render(template: str, **values: Any) -> str:
    """Render a file of ``templates/``."""
    return _environment().get_template(template).render(**values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,  # a misspelt name is an error, not a gap in the page
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters |= {
        "data_name": data_name,
        "model_name": model_name,
        "number": number,
        "signed": signed,
        "p_value": p_value,
        "format_interval": format_interval,
        "table_tags": exhibits.table_tags,
    }
    environment.globals["asset"] = _asset
    return environment


@cache
def _asset(name: str) -> str:
    """CSS or JavaScript without indentation and comments: a thousand pages hold a copy."""
    lines = (line.strip() for line in (TEMPLATES / name).read_text(encoding="utf-8").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def write_page(
    collection: Collection, out: Path, progress: Callable[[int, int], object] | None = None
) -> list[Path]:
    """Write ``index.html`` and ``runs/<run>.html``; no page needs another file.

    ``out`` is the folder of the report, with its figures in ``figures/``. ``progress`` is called
    with the number of finished run pages and of all. Returns all pages, ``index.html`` first.
    """
    runs = [*collection.runs, *collection.failed]
    names = page_names(runs)
    pages = _write_runs(collection, names, safe_join(out, RUNS), progress)
    tables = all_tables(collection)
    differences = findings(collection)
    noise = noise_differences(tables)
    pruned = pruning_results(collection)
    figures = exhibits.load_figures(out)
    shown = [exhibits.page_table(table) for table in tables if table.rows]
    page = render(
        "index.html",
        lead=overview.lead(collection),
        verdicts=overview.verdicts(collection, differences, noise, pruned),
        film=exhibits.first_picture(figures, "film"),
        forest=exhibits.first_picture(figures, "forest"),
        findings=_parts(differences, lambda finding: finding.minor),
        counted=list(overview.counted(differences)),
        noise=noise,
        pruned=pruned,
        experiments=overview.experiments(collection),
        tables=_parts(shown, exhibits.table_is_minor),
        figures=figures,
        appendix=APPENDIX,
        missing=_missing(tables, figures["missing"]),
        choices=overview.choices(collection),
        protocols={name: PROTOCOL_MEANINGS[name] for name in PROTOCOLS},
        runs=overview.run_rows(runs, names),
        names={"data": DATA, "model": MODELS},
    )
    atomic_write(out / "index.html", page.encode(), sync=False)
    return [out / "index.html", *pages]


def _parts(items: Sequence[Item], is_minor: Callable[[Item], bool]) -> dict[str, list[Item]]:
    """Split items into those of the main page and those of its appendix."""
    return {
        "main": [item for item in items if not is_minor(item)],
        "appendix": [item for item in items if is_minor(item)],
    }


def _missing(tables: Sequence[Table], figures: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Commands that make missing runs -> titles of the tables and figures that need them."""
    empty = [table for table in tables if not table.rows]
    wanted = [(command, table.title) for table in empty for command in table.commands.values()]
    by_command = group_by([*wanted, *figures], lambda item: item[0])
    return {
        command: list(dict.fromkeys(title for _, title in items))
        for command, items in by_command.items()
    }


def page_names(runs: Sequence[Run]) -> dict[Run, str]:
    """A unique file name per run, without suffix."""
    names = [
        file_name(run.experiment[:MAX_EXPERIMENT_NAME], run.config_hash, f"seed{run.seed}")
        for run in runs
    ]
    return dict(zip(runs, unique_names(names), strict=True))


def _write_runs(
    collection: Collection,
    names: Mapping[Run, str],
    folder: Path,
    progress: Callable[[int, int], object] | None,
) -> list[Path]:
    """Write the pages of new and changed runs; returns the pages of all runs."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    twins = _dense_twins(collection)
    for place, (run, others) in enumerate(_with_repeats(list(names))):
        if progress and place % 50 == 0:
            progress(place, len(names))
        file = folder / f"{names[run]}.html"
        repeats = [(str(other.seed), f"{names[other]}.html", other is run) for other in others]
        twin = twins.get(run)
        links = {"repeats": repeats, "twin": f"{names[twin]}.html" if twin else ""}
        mark = _mark(run, links)
        if mark is None:
            continue
        if not _ends_with(file, mark):
            content = render("run.html", **run_view(run), **links)
            atomic_write(file, content.encode() + mark, sync=False)
        pages.append(file)
    return pages


def _with_repeats(runs: Sequence[Run]) -> Iterator[tuple[Run, list[Run]]]:
    """Every run with the runs that differ only in their seed, itself included."""
    same = group_by(runs, lambda run: (run.experiment, run.config_hash, run.fingerprint))
    for others in same.values():
        others.sort(key=lambda run: run.seed)
        for run in others:
            yield run, others


def _dense_twins(collection: Collection) -> dict[Run, Run]:
    """Run -> run of its dense twin on the same data from the same seed."""
    twins: dict[Run, Run] = {}
    for edition in (*editions(collection), *editions(collection, random_trials=True)):
        for setting in edition.settings:
            if base := edition.dense_twin(setting):
                dense = {(run.holdout, replicate_key(run)): run for run in base.runs}
                pairs = {run: dense.get((run.holdout, replicate_key(run))) for run in setting.runs}
                twins |= {run: twin for run, twin in pairs.items() if twin}
    return twins


def _mark(run: Run, links: Any) -> bytes | None:
    """Last line of a page, a digest of what it is made from; None if the record is gone."""
    parts: list[Any] = [code_version(), links]
    try:
        for path in (run.file, run.path / "focus.npz", run.path / "windows.npz"):
            if path == run.file or path.exists():
                state = path.stat()
                parts.append([str(path), state.st_mtime_ns, state.st_size])
    except FileNotFoundError:
        return None
    return f"<!-- {hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]} -->\n".encode()


def _ends_with(path: Path, mark: bytes) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(-len(mark), os.SEEK_END)
            return file.read() == mark
    except OSError:  # missing or too short
        return False
