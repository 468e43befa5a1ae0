"""A job of a sweep, what became of it, and the table of failures at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import Timeout
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from focusing.compose import user_message
from focusing.errors import UserError
from focusing.results.identity import config_hash
from focusing.results.record import git_state, now, versions
from focusing.results.store import (
    RECORD_FILE,
    atomic_write,
    finished_record,
    read_record,
    run_lock,
    write_record,
)

Status = Literal["done", "failed", "busy", "pruned"]


@dataclass(frozen=True)
class Job:
    """One job.

    Attributes:
        index: its place in the sweep, from 0.
        overrides: the options that distinguish it from the config files.
    """

    index: int
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of a job: plain values, because it may come from another machine.

    Attributes:
        status: ``busy`` means that another process is running it.
        earlier: it already had this status before the sweep began.
        run_dir: its folder, if its config is valid.
        score: under the config's protocol.
        metric: ``"accuracy"``, or ``"mae"``, where lower is better.
        error: a sentence.
        runs: for a stack of runs, those that failed.
        crashed: its process died.
    """

    status: Status
    earlier: bool = False
    run_dir: str | None = None
    score: float | None = None
    metric: str | None = None
    error: str | None = None
    runs: tuple[tuple[Job, Outcome], ...] = ()
    crashed: bool = False

    @classmethod
    def from_error(cls, error: BaseException) -> Outcome:
        """The outcome of a job that raised an error before it had a folder."""
        return cls("failed", error=describe_error(error))

    def is_better_than(self, other: Outcome | None) -> bool:
        """Compare scores; no score is worse than any."""
        if self.score is None:
            return False
        if other is None or other.score is None:
            return True
        return self.score < other.score if self.metric == "mae" else self.score > other.score


Result = tuple[Job, Outcome]
Done = Callable[[Job, Outcome], None]
"""What is done with a job that is over."""


class RunsFailedError(UserError):
    """Some runs of a stack failed: ``runs``."""

    def __init__(self, message: str, runs: tuple[Result, ...]) -> None:
        super().__init__(message)
        self.runs = runs


def number_jobs(overrides: Sequence[Sequence[str]], first: int = 0) -> list[Job]:
    """Jobs with these overrides, numbered from ``first``."""
    return [Job(first + place, tuple(words)) for place, words in enumerate(overrides)]


def describe_error(error: BaseException) -> str:
    """Say in one line what went wrong."""
    return user_message(error) or repr(error)


def swept_options(jobs: Sequence[Sequence[str]]) -> set[str]:
    """The options whose values differ between jobs; they name a job."""
    overrides = [set(job) for job in jobs]
    every: set[str] = set().union(*overrides)
    shared = every.intersection(*overrides) if len(overrides) > 1 else set()
    return {override.partition("=")[0] for override in every - shared} - {"+callbacks.trial"}


def label(overrides: Sequence[str], options: Collection[str]) -> str:
    """A short name of a job: its values of these options."""
    named = [override for override in overrides if override.partition("=")[0] in options]
    return " ".join(named) or "the job"


def record_failure(
    run_dir: Path | None, config: Mapping[str, Any], error: str, trace: str | None = None
) -> None:
    """Record a failure that the run could not record itself; a traceback goes to ``error.txt``."""
    if run_dir is None:
        return
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        with run_lock(run_dir):
            if trace:
                atomic_write(run_dir / "error.txt", trace.encode())
            if finished_record(run_dir) or (trace and read_record(run_dir)):
                return
            record = {
                "experiment": config["name"],
                "config": config,
                "config_hash": config_hash(config),
                "seed": config["seed"],
                "versions": versions(),
                "git": git_state(),
                "status": "failed",
                "error": error,
                "scores": {"best_test": None, "holdout": None, "last": None},
                "finished": now(),
            }
            write_record(run_dir, record)
    except (OSError, Timeout, UserError):
        return  # the disk or the record may be the problem, or another process runs the job now


def print_failures(results: Sequence[Result], options: Collection[str] = ()) -> list[Outcome]:
    """Print a table of the failed jobs to stderr, for a stack of its failed runs; returns them.

    ``options`` name a job; by default those that differ between jobs.
    """
    named = options or swept_options([job.overrides for job, _ in results])
    rows = []
    for job, outcome in results:
        if outcome.runs:
            rows += [(" ".join(run.overrides), failed) for run, failed in outcome.runs]
        elif outcome.status == "failed":
            rows.append((label(job.overrides, named), outcome))
    if not rows:
        return []
    console = Console(stderr=True)
    if not console.is_terminal:
        console = Console(stderr=True, width=10_000)  # logs are searched: never break a line
    table = Table("job", "error", "folder", box=SIMPLE_HEAD, pad_edge=False)
    for name, outcome in rows:
        when = " (in an earlier sweep)" if outcome.earlier else ""
        table.add_row(*map(escape, (name, f"{outcome.error}{when}", outcome.run_dir or "")))
    console.print(table)
    return [outcome for _, outcome in rows]


def raise_failures(
    results: Sequence[Result],
    *,
    total: int | None = None,
    options: Collection[str] = (),
    retryable: bool = False,
) -> None:
    """End a sweep: print what failed, and raise if anything did.

    Args:
        results: jobs and their outcomes.
        total: number of jobs, if the results do not hold all of them.
        options: as in :func:`print_failures`.
        retryable: ``sweep.retry_failed=true`` also runs jobs that left no record.

    Raises:
        UserError: if a job failed, so that the command exits with 1.
    """
    failed = print_failures(results, options)
    if not failed:
        return
    if len(results) == 1 and results[0][1].runs:  # a stack has counted its own runs
        text = str(results[0][1].error)
    else:
        count = sum(outcome.status == "failed" for _, outcome in results)
        text = f"{count} of {len(results) if total is None else total} jobs failed"
    folders = [Path(outcome.run_dir) for outcome in failed if outcome.run_dir]
    retryable = retryable or any((folder / RECORD_FILE).exists() for folder in folders)
    raise UserError(f"{text}{'; sweep.retry_failed=true runs them again.' if retryable else '.'}")
