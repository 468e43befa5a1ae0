"""Progress of a sweep (a bar in a terminal, lines in a log), and the summary at its end."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column

from focusing.clock import running_seconds
from focusing.compose import command_flags, overrides_of_twin
from focusing.reports.names import dense_twin
from focusing.sweep.jobs import Job, Outcome, Result, label, swept_options


class SweepStatus:
    """Counts the jobs of a sweep and shows the counts.

    It draws only when it is called, because with a drawing thread the pool could not fork safely.

    Args:
        jobs: the overrides of the jobs.
        interval: seconds between two lines of a log.
        console: where to draw; stdout by default.
        total, options: number of jobs, and options that name a job, if the jobs are not known yet.
        noun: what is counted.
        best: show the best score, as a search does. In a grid it would be that of a lucky seed.

    Attributes:
        running: number of jobs that are running.
        queue: summary of the jobs in the queue of a cluster.
    """

    def __init__(
        self,
        jobs: Sequence[Sequence[str]] = (),
        interval: float = 10.0,
        console: Console | None = None,
        total: int | None = None,
        options: Collection[str] = (),
        noun: str = "jobs",
        best: bool = False,
    ) -> None:
        self.noun, self._show_best = noun, best
        self.total = len(jobs) if total is None else total
        self.counts = {"done": 0, "failed": 0, "skipped": 0, "pruned": 0}
        self.running, self.queue = 0, ""
        self.best: Result | None = None
        self._not_run = 0
        self._last_error: str | None = None
        self._interval = interval
        self._options = options or swept_options(jobs)
        self._console = console or Console(soft_wrap=True)
        self._next = time.monotonic()
        self._began = self._latest = running_seconds()
        self._bar: Progress | None = None

    @property
    def finished(self) -> int:
        """Number of jobs that have ended, in whatever way."""
        return sum(self.counts.values())

    def __enter__(self) -> SweepStatus:
        """Start to show the counts."""
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn(f"[bold]{self.noun}"),
                MofNCompleteColumn(),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[text]}", table_column=Column(no_wrap=True)),
                console=self._console,
                auto_refresh=False,
            )
            self._bar.add_task("sweep", total=self.total, text="")
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Show the final counts and leave them on the screen."""
        self.running, self.queue = 0, ""
        if self._bar is not None:
            self.refresh()
            self._bar.stop()
        elif self.total:
            self._console.print(escape(self.describe()))
        if kind is not None and issubclass(kind, (KeyboardInterrupt, SystemExit)):
            self._console.print("Stopped. The same command goes on from here.")

    def add(self, job: Job, outcome: Outcome) -> None:
        """Count a job that has ended; a job that another process runs has not."""
        if outcome.status == "busy":
            return
        skipped = outcome.earlier and outcome.status == "done"
        self.counts["skipped" if skipped else outcome.status] += 1
        self._not_run += outcome.earlier
        if not outcome.earlier:
            self._latest = running_seconds()
        if outcome.is_better_than(self.best[1] if self.best else None):
            self.best = (job, outcome)
        if outcome.status == "failed" and not outcome.earlier and outcome.error != self._last_error:
            self._last_error = outcome.error  # all runs of a dead cluster job have the same
            self.print(f"failed: {self._name(job)}: {outcome.error}")

    def refresh(self) -> None:
        """Draw the bar, or print a line if the last one is old enough."""
        now = time.monotonic()
        if self._bar is not None:
            text = escape(self.describe())
            self._bar.update(self._bar.task_ids[0], completed=self.finished, text=text)
            self._bar.refresh()
        elif now >= self._next:
            self._next = now + self._interval
            self._console.print(escape(self.describe()))

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        self._console.print(line, markup=False, highlight=False)

    def describe(self) -> str:
        """Return the counts in one line."""
        shown = {**self.counts, "running": self.running}
        words = [] if self._bar is not None else [f"{self.finished}/{self.total} {self.noun}"]
        words += [f"{count} {name}" for name, count in shown.items() if count or name == "done"]
        if (left := self.seconds_left()) is not None:
            words.append(f"{_format_time(left)} left")
        if self._show_best and self.best is not None and self.best[1].score is not None:
            words.append(f"best {self.best[1].score:.4g} ({self._name(self.best[0])})")
        if self.queue:
            words.append(self.queue)
        return ", ".join(words)

    def seconds_left(self) -> float | None:
        """Estimate the remaining time, once a job has run; None when it is over.

        At the pace of the jobs that have run, less the time since the latest of them: that time
        belongs to the jobs that are running.
        """
        run = self.finished - self._not_run
        if not run or self.finished >= self.total:
            return None
        expected = (self._latest - self._began) / run * (self.total - self.finished)
        left = expected - (running_seconds() - self._latest)
        return left if left > 0 else None

    def _name(self, job: Job) -> str:
        return label(job.overrides, self._options)


def print_summary(
    results: Sequence[Result],
    config: DictConfig,
    arguments: Sequence[str],
    is_valid: Callable[[Sequence[str]], bool],
) -> None:
    """Print the scores of a sweep, compared with the dense network, and the next commands.

    Args:
        results: jobs and their outcomes. A stack, which has no folder, prints its own table.
        config: of the sweep.
        arguments: the command line of the sweep.
        is_valid: whether another such command line has no mistakes.
    """
    from focusing.reports.tables.experiments import sweep_tables  # pandas and scipy load slowly
    from focusing.reports.terminal import table_lines
    from focusing.results.collect import runs_at
    from focusing.results.frame import group_by

    done = [out.run_dir for _, out in results if out.status == "done" and out.run_dir]
    archive = config.sweep.archive and Path(config.sweep.archive).expanduser().absolute()
    runs = runs_at(map(Path, done), archive)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    printed: set[str] = set()
    for protocol, members in group_by(runs, lambda run: run.protocol).items():
        for table in sweep_tables(members, protocol):
            console.print(*table_lines(table, printed), sep="\n")
    folder = str(config.paths.output_dir)
    commands = [shlex.join(["focusing", "report", folder])]
    twins = {dense_twin(run.model) for run in runs}
    if runs and not twins & {run.model for run in runs}:
        words = overrides_of_twin(arguments, ",".join(sorted(twins)), is_valid)
        if words is not None:
            flags = command_flags(config.hydra)
            commands.insert(0, shlex.join(["python", "train.py", "-m", *flags, *words]))
    for command in commands:
        console.print(f"Next: {command}", markup=False, soft_wrap=True)


def _format_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes}:{rest:02d}"
