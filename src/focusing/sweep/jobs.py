"""Jobs of a sweep, their outcomes, and the table of failures at its end."""

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

from focusing.errors import UserError
from focusing.messages import user_message
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
        index: its position in the sweep, from 0.
        overrides: its options, in Hydra's syntax.
    """

    index: int
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The result of a job, in plain values, because it may come from another machine.

    Attributes:
        status: ``busy`` means that another process is running the job.
        earlier: the job had this status before the sweep began.
        run_dir: its folder, if its config is valid.
        score: under the protocol of the config.
        metric: ``"accuracy"``, or ``"mae"``, where lower is better.
        error: why it failed, in one sentence.
        runs: for a stack of runs, those that failed.
        crashed: the process of the job died.
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
        """Make the outcome of a job that raised an error before it had a folder."""
        return cls("failed", error=describe_error(error))

    def is_better_than(self, other: Outcome | None) -> bool:
        """Compare scores; a missing score is worse than any other."""
        if self.score is None:
            return False
        if other is None or other.score is None:
            return True
        return self.score < other.score if self.metric == "mae" else self.score > other.score


Result = tuple[Job, Outcome]
OnDone = Callable[[Job, Outcome], None]
"""Called with every job that has finished or failed."""


class RunsFailedError(UserError):
    """Raised when some ``runs`` of a stack have failed."""

    def __init__(self, message: str, runs: tuple[Result, ...]) -> None:
        super().__init__(message)
        self.runs = runs


def number_jobs(overrides: Sequence[Sequence[str]], first: int = 0) -> list[Job]:
    """Make jobs with these overrides, numbered from ``first``."""
    return [Job(index, tuple(words)) for index, words in enumerate(overrides, first)]


def describe_error(error: BaseException) -> str:
    """Describe an error in one line."""
    return user_message(error) or repr(error)


def swept_options(jobs: Sequence[Sequence[str]]) -> set[str]:
    """Return the options whose values differ between jobs."""
    overrides = [set(job) for job in jobs]
    every: set[str] = set().union(*overrides)
    shared = every.intersection(*overrides) if len(overrides) > 1 else set()
    return {override.partition("=")[0] for override in every - shared} - {"+callbacks.trial"}


def label(overrides: Sequence[str], options: Collection[str]) -> str:
    """Name a job by its values of some options."""
    named = [override for override in overrides if override.partition("=")[0] in options]
    return " ".join(named) or "the job"


def record_failure(
    run_dir: Path | None, config: Mapping[str, Any], error: str, trace: str | None = None
) -> None:
    """Record a failure that the run could not record itself; ``trace`` goes to ``error.txt``."""
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
        return  # the disk may be full, the record damaged, or another process runs the job now


def print_failures(results: Sequence[Result], options: Collection[str] = ()) -> list[Outcome]:
    """Print a table of failed jobs to stderr, and return their outcomes.

    Args:
        results: jobs and their outcomes; a stack has a row for each failed run.
        options: whose values name a job; by default those that differ between jobs.
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
        console = Console(stderr=True, width=10_000)  # never wrap a line of a log: people grep
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
    """Print the failed jobs of a sweep, and raise an error if there are any.

    Args:
        results: jobs and their outcomes.
        total: number of jobs, if there are more than results.
        options: as in :func:`print_failures`.
        retryable: whether ``sweep.retry_failed=true`` also runs jobs that left no record.

    Raises:
        UserError: if a job failed, so that the command exits with code 1.
    """
    failed = print_failures(results, options)
    if not failed:
        return
    if len(results) == 1 and results[0][1].runs:  # a stack counts its runs itself
        text = str(results[0][1].error)
    else:
        count = sum(outcome.status == "failed" for _, outcome in results)
        text = f"{count} of {len(results) if total is None else total} jobs failed"
    folders = [Path(outcome.run_dir) for outcome in failed if outcome.run_dir]
    retryable = retryable or any((folder / RECORD_FILE).exists() for folder in folders)
    raise UserError(f"{text}{'; sweep.retry_failed=true runs them again.' if retryable else '.'}")
