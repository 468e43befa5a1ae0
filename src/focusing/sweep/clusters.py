"""Sweeps on a cluster: what SLURM and Ray share.

A cluster job holds one or more runs (:mod:`focusing.sweep.allocation`). The sweep reads the
outcomes of runs from the journals of the jobs, and queries the cluster for the states of the jobs.
Unfinished runs of a dead job are submitted again, unless they are to blame for its death.
"""

from __future__ import annotations

import math
import time
import uuid
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from hydra.core.singleton import Singleton

from focusing.instantiate import trusted
from focusing.results.store import atomic_write
from focusing.sweep.allocation import ALL_STOPPED, SHARED_FILE, Allocation, Journal, Workload
from focusing.sweep.jobs import Job, OnDone, Outcome, Result
from focusing.sweep.status import SweepStatus
from focusing.sweep.task import JobRunner, Sweep

MAX_QUERY_INTERVAL = 15.0
"""Most seconds between two queries for job states; there are fewer after a submission."""
MAX_LOSSES = 3
"""A run fails if more jobs than this die with it."""
BLAMELESS_STATES = tuple(
    "COMPLETED NODE_FAIL BOOT_FAIL PREEMPTED TIMEOUT DEADLINE REVOKED GONE".split()  # noqa: SIM905
)
"""Final states for which no run is to blame: unfinished runs go to other jobs."""
FINAL_STATES = (*BLAMELESS_STATES, "CANCELLED", "FAILED", "OUT_OF_MEMORY")
ROUTINE_REASONS = ("", "None", "Priority", "Resources", "BeginTime", "JobArrayTaskLimit")
"""Reasons for waiting that need no attention."""


@dataclass(frozen=True)
class State:
    """State of a job in SLURM's words, and the reason why it waits or died."""

    name: str
    reason: str = ""


@dataclass(eq=False)
class SubmittedJob:
    """A cluster job, as the sweep sees it.

    Attributes:
        allocation: the job.
        handle: the cluster's own object for it.
        left: its unfinished runs by index.
        started: runs that have started since the job was last queued.
        state: as of the last query.
    """

    allocation: Allocation
    handle: Any
    left: dict[int, Job] = field(init=False)
    started: set[int] = field(default_factory=set)
    state: State = State("PENDING")

    def __post_init__(self) -> None:
        """Open the journal; all runs are unfinished."""
        self.left = {job.index: job for job in self.allocation.jobs}
        self._journal = Journal(self.allocation.journal_path)

    def new_outcomes(self) -> Iterator[Result]:
        """Yield the runs that have finished since the last call."""
        for index, outcome in self._journal.read():
            self.started.add(index)
            if index == ALL_STOPPED:
                self.started.clear()
            if outcome is not None and index in self.left:
                yield self.left.pop(index), outcome


class ClusterSweep(Sweep):
    """Submits jobs to a cluster and collects the outcomes of their runs.

    Args:
        runner: runs single jobs.
        runs_per_job: runs that share the processors and GPUs of a job.
        cpus, gpus: per job.
        per_gpu: runs that share a GPU.

    Attributes:
        cluster: its name.
        gpus: per job.
        max_parallel: most runs that are submitted at a time; 0: as many as the cluster can run at
            once; None: all.
        max_batch: most jobs per submission.
        poll_seconds: time between two reads of the journals.
    """

    cluster: str
    max_batch: int
    max_parallel: int | None = None
    poll_seconds = 1.0

    def __init__(
        self,
        runner: JobRunner,
        runs_per_job: int,
        cpus: int,
        gpus: float | None,
        per_gpu: int,
    ) -> None:
        self._runner, self._runs_per_job, self._per_gpu = runner, runs_per_job, per_gpu
        self._cpus, self.gpus = cpus, gpus or 0
        sweep_dir = Path(str(runner.config.hydra.sweep.dir)).absolute()
        self._folder = sweep_dir / f".{self.cluster}" / uuid.uuid4().hex[:8]
        self._submitted: list[SubmittedJob] = []
        self._count, self._losses = 0, Counter[int]()
        self._last_submission = self._next_query = 0.0
        self._reported_reasons: set[str] = set()

    def run(self, jobs: Iterator[Job], status: SweepStatus, on_done: OnDone) -> None:
        """Submit jobs, and collect outcomes until none is left."""
        search = self.max_parallel is not None
        limit = -(-(self.max_parallel or 0) // self._runs_per_job) or self._capacity(search)
        queue, more = deque[Sequence[Job]](), True
        self._submitted = []
        self._losses.clear()
        try:
            while more or queue or self._submitted:
                while more and (not search or len(queue) + len(self._submitted) < limit):
                    batch = list(islice(jobs, self._runs_per_job if search else None))
                    more = search and bool(batch)
                    queue += self._pack(self._unfinished(batch, status, on_done))
                if queue:
                    count = min(len(queue), limit - len(self._submitted))
                    self._submit_packs([queue.popleft() for _ in range(count)], status)
                left = self._collect(status, on_done)
                queue += self._pack(self._unfinished(left, status, on_done))
                if self._submitted:
                    status.refresh()
                    time.sleep(self.poll_seconds)
        except BaseException:
            self._cancel([job.handle for job in self._submitted])
            raise

    def _pack(self, jobs: Iterable[Job]) -> list[Sequence[Job]]:
        """Deal runs to as few jobs as possible, neighbours (often as costly) to different ones."""
        runs = list(jobs)
        count = -(-len(runs) // self._runs_per_job)
        return [runs[first::count] for first in range(count)]

    def _unfinished(
        self, jobs: Iterable[Job], status: SweepStatus, on_done: OnDone
    ) -> Iterator[Job]:
        """Report jobs that earlier sweeps have finished, and yield the others."""
        for job in jobs:
            try:
                outcome = self._runner.task.peek(self._runner.compose(job))
            except Exception as error:
                outcome = Outcome.from_error(error)
            status.refresh()
            if outcome is None:
                yield job
            else:
                on_done(job, outcome)

    def _submit_packs(self, packs: Sequence[Sequence[Job]], status: SweepStatus) -> None:
        if not packs:
            return
        if not self._count:
            self._write_shared_file()
        runs = sum(map(len, packs))
        if runs > 1:
            jobs = f"{len(packs)} jobs" if len(packs) > 1 else "a job"
            status.print(f"Submitting {runs} runs to {self.cluster} in {jobs}.")
        for first in range(0, len(packs), self.max_batch):
            allocations = []
            for pack in packs[first : first + self.max_batch]:
                allocations.append(Allocation(self._folder, self._count, tuple(pack)))
                self._count += 1
            handles = self._submit(allocations)
            self._submitted += map(SubmittedJob, allocations, handles)
        self._last_submission = time.monotonic()
        self._next_query = 0.0

    def _write_shared_file(self) -> None:
        """Write what all jobs share, once, so that the description of a job stays small."""
        cloudpickle: Any = import_module("cloudpickle")  # it has no types
        gpus = math.ceil(self.gpus)  # a job with half a GPU sees one
        resources = {"cpus": self._cpus, "gpus": gpus, "per_gpu": self._per_gpu}
        workload = Workload(
            self._runner.context,
            self._runner.config,
            self._runner.task,
            resources,
            working_dir=Path.cwd(),
            trusted=trusted(),
            singletons=Singleton.get_state(),
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        atomic_write(self._folder / SHARED_FILE, cloudpickle.dumps(workload))

    def _collect(self, status: SweepStatus, on_done: OnDone) -> list[Job]:
        """Report outcomes, and return the unfinished runs of dead jobs that shall run again."""
        self._update_states(status)
        resubmitted: list[Job] = []
        for submitted in list(self._submitted):
            dead = submitted.state.name in FINAL_STATES  # before the last read of the journal
            for job, outcome in submitted.new_outcomes():
                on_done(job, outcome)
            if dead or not submitted.left:
                self._submitted.remove(submitted)
            if dead and submitted.left:
                resubmitted += self._handle_dead_job(submitted, status, on_done)
        status.running = sum(len(job.started & job.left.keys()) for job in self._submitted)
        return resubmitted

    def _update_states(self, status: SweepStatus) -> None:
        """Query the states of jobs: soon after a submission, later less often."""
        now = time.monotonic()
        if now < self._next_query or not self._submitted:
            return
        age = now - self._last_submission
        self._next_query = now + min(MAX_QUERY_INTERVAL, max(self.poll_seconds, age / 2))
        for job, state in zip(self._submitted, self._query_states(self._submitted), strict=True):
            job.state = state
        states = Counter(job.state.name.lower() for job in self._submitted)
        reasons = Counter(j.state.reason for j in self._submitted if j.state.name == "PENDING")
        reason = reasons.most_common(1)[0][0] if reasons else ""
        words = [f"{count} {name}" for name, count in sorted(states.items(), reverse=True)]
        known = f" ({reason})" if reason not in ("", "None") else ""
        status.queue = f"{self.cluster}: {', '.join(words)}{known}"
        for reason, count in reasons.items():
            if reason not in (*ROUTINE_REASONS, *self._reported_reasons):
                self._reported_reasons.add(reason)
                noun = "jobs wait" if count > 1 else "job waits"
                status.print(f"{count} {noun} in the queue of {self.cluster}: {reason}.")

    def _handle_dead_job(
        self, submitted: SubmittedJob, status: SweepStatus, on_done: OnDone
    ) -> list[Job]:
        """Report a job that died with unfinished runs; returns those that shall run again."""
        state = submitted.state
        cause = f": {state.reason}" if state.reason not in ROUTINE_REASONS else ""
        text = f"The job died{cause} (state: {state.name}). Its log is {self._log(submitted)}"
        resubmitted = []
        for job in submitted.left.values():
            self._losses[job.index] += 1
            blamed = job.index in submitted.started and state.name not in BLAMELESS_STATES
            if state.name != "CANCELLED" and not blamed and self._losses[job.index] <= MAX_LOSSES:
                resubmitted.append(job)
                continue
            # Cancelling a job does not make its runs failures: the next sweep runs them.
            crashed = state.name != "CANCELLED"
            run_dir = self._runner.record_failure(job, text, write=crashed)
            on_done(job, Outcome("failed", run_dir=run_dir, error=text, crashed=crashed))
        if resubmitted:
            status.print(f"{text} {len(resubmitted)} unfinished runs go to another job.")
        return resubmitted

    @abstractmethod
    def _capacity(self, search: bool) -> int:
        """Return how many jobs may be in the queue; for a search, how many can run at once."""

    @abstractmethod
    def _submit(self, allocations: Sequence[Allocation]) -> Sequence[Any]:
        """Submit jobs; returns a handle for each."""

    @abstractmethod
    def _query_states(self, submitted: Sequence[SubmittedJob]) -> Sequence[State]:
        """Query the cluster for the states of jobs."""

    @abstractmethod
    def _cancel(self, handles: Sequence[Any]) -> None:
        """Clean up after a sweep that stops early: SLURM jobs stay queued, Ray jobs end."""

    @abstractmethod
    def _log(self, submitted: SubmittedJob) -> str:
        """Return the log file of a job."""


def cause_of(error: BaseException) -> str:
    """Return why a job died: the last line of a traceback, or else the first of the message."""
    text, _, trace = str(error).partition("Traceback (most recent call last)")
    lines = [line.strip() for line in (trace or text).splitlines() if line.strip(" -")]
    hints = [i for i, line in enumerate(lines) if line.startswith("You can check full logs")]
    lines = lines[: hints[0]] if hints else lines  # submitit adds hints below the traceback
    if not lines:
        return repr(error)
    return lines[-1] if trace else lines[0]
