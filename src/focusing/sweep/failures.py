"""Jobs that failed: their records, and the table at the end of a sweep."""

from __future__ import annotations

import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import Timeout
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from focusing.errors import UserError
from focusing.results.identity import config_hash
from focusing.results.record import git_state, now, versions
from focusing.results.store import atomic_write, finished, lock_of, read_record, write_record
from focusing.sweep.outcome import Job, Outcome, label, varying


def leave_failure(
    run_dir: Path | None, config: Mapping[str, Any], error: str, trace: str | None = None
) -> None:
    """Record a failure that the run itself could not record.

    Args:
        run_dir: the run folder; None if the job has none.
        config: of the run.
        error: a sentence.
        trace: where the error came from, for ``error.txt``.
    """
    if run_dir is None:
        return
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        with lock_of(run_dir):
            if trace:
                atomic_write(run_dir / "error.txt", trace.encode())
            if finished(run_dir) or (trace and read_record(run_dir)):
                return
            write_record(run_dir, _failure(config, error))
    except (OSError, Timeout, UserError):
        return  # the disk may be what is wrong, or the record; or somebody else runs it now


def leave_death(run_dir: Path | None, config: Mapping[str, Any], exit_code: int | None) -> str:
    """Record that the process of a job died, and say so."""
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = "; is there enough memory?" if name == "SIGKILL" else "."
        error = f"The process of this job was ended by {name}{hint}"
    else:
        error = f"The process of this job ended with exit code {exit_code}."
    leave_failure(run_dir, config, error)
    return error


def _failure(config: Mapping[str, Any], error: str) -> dict[str, Any]:
    return {
        "experiment": config["name"],
        "config": config,
        "config_hash": config_hash(config),
        "seed": config["seed"],
        "data": None,
        "metric": None,
        "network": None,
        "versions": versions(),
        "git": git_state(),
        "started": None,
        "status": "failed",
        "error": error,
        "wall_seconds": None,
        "cpu_seconds": None,
        "steps_per_second": None,
        "peak_memory_bytes": None,
        "series": {},
        "scores": {"paper": None, "holdout": None, "last": None},
        "finished": now(),
    }


def print_failures(
    results: Sequence[tuple[Job, Outcome]], options: Collection[str] = ()
) -> list[Outcome]:
    """Show the jobs that failed, on stderr; of a stack its runs.

    Args:
        results: jobs and what became of them.
        options: those that name a job, if not those in which the results differ.

    Returns:
        What is shown.
    """
    named = options or varying([job.overrides for job, _ in results])
    rows = []
    for job, outcome in results:
        if outcome.runs:
            rows += [(" ".join(run.overrides), each) for run, each in outcome.runs]
        elif outcome.status == "failed":
            rows.append((label(job.overrides, named), outcome))
    if not rows:
        return []
    console = Console(stderr=True)
    if not console.is_terminal:
        console = Console(stderr=True, width=10_000)  # a log is searched: no line is broken
    table = Table("job", "error", "folder", box=SIMPLE_HEAD, pad_edge=False)
    for name, outcome in rows:
        when = " (in an earlier sweep)" if outcome.earlier else ""
        table.add_row(*map(escape, (name, f"{outcome.error}{when}", outcome.run_dir or "")))
    console.print(table)
    return [outcome for _, outcome in rows]
