"""Writes the pages of a report: ``index.html`` and one page per run, readable without a network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from focusing.reports.names import DATA, MODELS, PROTOCOLS, data_name, model_name
from focusing.reports.page.exhibits import column_protocol, exhibition, page_table
from focusing.reports.page.findings import findings, kept, noise_differences
from focusing.reports.page.overview import choices, experiments, lead, run_rows, tiles
from focusing.reports.page.run_page import run_view
from focusing.reports.tables import Table, between, file_name, number, p_value, signed
from focusing.reports.tables.files import all_tables, unique_names
from focusing.reports.terminal import PROTOCOL_MEANINGS
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by
from focusing.results.store import atomic_write, inside, remove

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
RUNS, WRITTEN = "runs", ".written.json"
MAX_EXPERIMENT_NAME = 80
"""Characters of an experiment's name in the file name of a run."""


def render(template: str, **values: Any) -> str:
    """Fill a template.

    Args:
        template: a file in ``templates/``.
        values: what it shows.
    """
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
        "between": between,
        "column_protocol": column_protocol,
    }
    environment.globals["asset"] = _asset
    return environment


@cache
def _asset(name: str) -> str:
    """Our own CSS or JavaScript as it is, but for indentation: a thousand pages have a copy."""
    lines = (line.strip() for line in (TEMPLATES / name).read_text(encoding="utf-8").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


@lru_cache(maxsize=1)
def source_mark() -> str:
    """Changes whenever pages would look different."""
    files = sorted([*HERE.glob("*.py"), *TEMPLATES.iterdir()])
    content = b"".join(path.read_bytes() for path in files if path.is_file())
    return hashlib.sha256(content).hexdigest()[:16]


def write_page(collection: Collection, out: Path) -> Path:
    """Write ``index.html`` and ``runs/<run>.html``; no page needs another file.

    Args:
        collection: the runs.
        out: folder of the report, with what figures it has in ``figures/``.
    """
    runs = [*collection.runs, *collection.failed]
    names = page_names(runs)
    _write_runs(runs, names, inside(out, RUNS))
    tables = all_tables(collection)
    differences = findings(collection)
    noise = noise_differences(tables)
    pruned = kept(collection)
    figures = exhibition(out)
    page = render(
        "index.html",
        lead=lead(collection),
        tiles=tiles(collection, differences, noise, pruned),
        findings=differences,
        noise=noise,
        pruned=pruned,
        experiments=experiments(collection),
        tables=list(map(page_table, tables)),
        figures=figures,
        missing=_missing(tables, figures.missing),
        choices=choices(collection),
        protocols={name: PROTOCOL_MEANINGS[name] for name in PROTOCOLS},
        runs=run_rows(runs, names),
        names={"data": DATA, "model": MODELS},
    )
    path = out / "index.html"
    atomic_write(path, page.encode(), sync=False)
    return path


def _missing(tables: Sequence[Table], figures: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Commands that make the records of tables and figures without any, and what these are."""
    empty = [table for table in tables if not table.rows]
    wanted = [(command, table.title) for table in empty for command in table.commands.values()]
    by_command = group_by([*wanted, *figures], lambda item: item[0])
    return {
        command: list(dict.fromkeys(title for _, title in items))
        for command, items in by_command.items()
    }


def page_names(runs: Sequence[Run]) -> dict[Run, str]:
    """A file name per run, without suffix; it stays the same unless a run is added before it."""
    names = [
        file_name(run.experiment[:MAX_EXPERIMENT_NAME], run.config_hash, f"seed{run.seed}")
        for run in runs
    ]
    return dict(zip(runs, unique_names(names), strict=True))


def _write_runs(runs: Sequence[Run], names: Mapping[Run, str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    known = _load(folder / WRITTEN)
    written: dict[str, str] = {}
    for run, others in _with_repeats(runs):
        file = folder / f"{names[run]}.html"
        links = [(str(other.seed), f"{names[other]}.html", other is run) for other in others]
        mark = _mark(run, links)
        if mark is not None and (known.get(file.name) != mark or not file.exists()):
            content = render("run.html", **run_view(run), repeats=links)
            atomic_write(file, content.encode(), sync=False)
        if mark is not None:
            written[file.name] = mark
    remove(folder, known.keys() - written.keys())
    atomic_write(folder / WRITTEN, json.dumps(written).encode(), sync=False)


def _with_repeats(runs: Sequence[Run]) -> Iterator[tuple[Run, list[Run]]]:
    """Every run with those that differ from it in their seed only."""
    same = group_by(runs, lambda run: (run.experiment, run.config_hash, run.fingerprint))
    for others in same.values():
        others.sort(key=lambda run: run.seed)
        for run in others:
            yield run, others


def _mark(run: Run, links: Any) -> str | None:
    """What a page was made from; None if the record has gone since it was collected."""
    parts: list[Any] = [source_mark(), links]
    try:
        for path in (run.file, run.path / "focus.npz", run.path / "windows.npz"):
            if path == run.file or path.exists():
                state = path.stat()
                parts.append([str(path), state.st_mtime_ns, state.st_size])
    except FileNotFoundError:
        return None
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _load(path: Path) -> dict[str, str]:
    try:
        known = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
