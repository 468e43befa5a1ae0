"""A sweep on a cluster: what SLURM and Ray have in common.

The cluster gets jobs of one or many runs (:mod:`focusing.sweep.allocation`). Their journals tell
what became of runs; the cluster is asked now and then what became of jobs. What a job leaves
undone is submitted again, unless the job or the run is to blame.
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
from hydra.types import HydraContext
from omegaconf import DictConfig

from focusing.instantiate import trusted
from focusing.results.store import atomic_write
from focusing.sweep.allocation import NO_RUN, SHARED_FILE, Allocation, Journal, Workload
from focusing.sweep.jobs import Done, Job, Outcome
from focusing.sweep.status import SweepStatus
from focusing.sweep.task import HydraSweep, SweepTask

MAX_WATCH_SECONDS = 15.0
"""Between two questions to the cluster about its jobs; less when they are young."""
MAX_LOSSES = 3
"""Jobs that may lose a run before it counts as failed."""
BLAMELESS = tuple(
    "COMPLETED NODE_FAIL BOOT_FAIL PREEMPTED TIMEOUT DEADLINE REVOKED GONE".split()  # noqa: SIM905
)
"""States of jobs whose runs are not to blame: what they left undone goes on in other jobs."""
OVER = (*BLAMELESS, "CANCELLED", "FAILED", "OUT_OF_MEMORY")
ROUTINE = ("", "None", "Priority", "Resources", "BeginTime", "JobArrayTaskLimit")
"""Reasons to wait that pass by themselves."""


@dataclass(frozen=True)
class State:
    """What the cluster says of a job: SLURM's word, and why it waits or has died."""

    name: str
    reason: str = ""


@dataclass(eq=False)
class Submitted:
    """A job of the cluster, as the sweep sees it.

    Attributes:
        allocation: the job.
        handle: what the cluster calls it.
        left: runs that are not over, by index.
        begun: runs that have begun in the job's present life; it may have been queued again.
        state: as of the last question.
    """

    allocation: Allocation
    handle: Any
    left: dict[int, Job] = field(init=False)
    begun: set[int] = field(default_factory=set)
    state: State = State("PENDING")

    def __post_init__(self) -> None:
        """Nothing is over yet."""
        self.left = {job.index: job for job in self.allocation.jobs}
        self._journal = Journal(self.allocation.journal)

    def news(self) -> Iterator[tuple[Job, Outcome]]:
        """Runs that are over since the last call."""
        for index, outcome in self._journal.read():
            self.begun.add(index)
            if index == NO_RUN:
                self.begun.clear()
            if outcome is not None and index in self.left:
                yield self.left.pop(index), outcome


class ClusterSweep(HydraSweep):
    """Submits jobs to a cluster and collects the outcomes of their runs.

    Args:
        context, config, task: as of any sweep.
        runs_per_job: runs of a job; they share its processors and GPUs.
        cpus, gpus: of a job.
        per_gpu: runs that share a GPU.

    Attributes:
        cluster: its name.
        gpus: of a job.
        at_once: ask for so many runs, and for the next ones when those are over; 0: as many as the
            cluster runs at the same time; None: ask for all.
        max_batch: the most jobs that are submitted together.
        poll_seconds: between two looks at the journals.
    """

    cluster: str
    max_batch: int
    at_once: int | None = None
    poll_seconds = 1.0

    def __init__(
        self,
        context: HydraContext,
        config: DictConfig,
        task: SweepTask,
        runs_per_job: int,
        cpus: int,
        gpus: float | None,
        per_gpu: int,
    ) -> None:
        super().__init__(context, config, task)
        self._runs_per_job, self._per_gpu = runs_per_job, per_gpu
        self._cpus, self.gpus = cpus, gpus or 0
        sweep_dir = Path(str(config.hydra.sweep.dir)).absolute()
        self._folder = sweep_dir / f".{self.cluster}" / uuid.uuid4().hex[:8]
        self._submitted: list[Submitted] = []
        self._count, self._losses = 0, Counter[int]()
        self._last_submission = self._next_watch = 0.0
        self._told: set[str] = set()

    def run(self, jobs: Iterator[Job], status: SweepStatus, done: Done) -> None:
        """Submit jobs, and collect outcomes until none is left."""
        search = self.at_once is not None
        limit = -(-(self.at_once or 0) // self._runs_per_job) or self._capacity(search)
        queue, more = deque[Sequence[Job]](), True
        self._submitted = []
        self._losses.clear()
        try:
            while more or queue or self._submitted:
                while more and (not search or len(queue) + len(self._submitted) < limit):
                    asked = list(islice(jobs, self._runs_per_job if search else None))
                    more = search and bool(asked)
                    queue += self._pack(self._unfinished(asked, status, done))
                if queue:
                    count = min(len(queue), limit - len(self._submitted))
                    self._submit_packs([queue.popleft() for _ in range(count)], status)
                queue += self._pack(self._unfinished(self._collect(status, done), status, done))
                if self._submitted:
                    status.refresh()
                    time.sleep(self.poll_seconds)
        except BaseException:
            self._cancel([job.handle for job in self._submitted])
            raise

    def _pack(self, jobs: Iterable[Job]) -> list[Sequence[Job]]:
        """Deal runs out to as few jobs as may be: neighbours, which cost the same, to all."""
        runs = list(jobs)
        count = -(-len(runs) // self._runs_per_job)
        return [runs[first::count] for first in range(count)]

    def _unfinished(self, jobs: Iterable[Job], status: SweepStatus, done: Done) -> Iterator[Job]:
        """Report what earlier calls have finished, and yield the rest."""
        for job in jobs:
            try:
                outcome = self._task.peek(self.compose(job))
            except Exception as error:
                outcome = Outcome.from_error(error)
            status.refresh()
            if outcome is None:
                yield job
            else:
                done(job, outcome)

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
            self._submitted += map(Submitted, allocations, handles)
        self._last_submission = time.monotonic()
        self._next_watch = 0.0

    def _write_shared_file(self) -> None:
        """Write what all jobs have in common once: a job's own description is small."""
        cloudpickle: Any = import_module("cloudpickle")  # which has no types
        gpus = math.ceil(self.gpus)  # half of a GPU is a GPU to see
        places = {"cpus": self._cpus, "gpus": gpus, "per_gpu": self._per_gpu}
        workload = Workload(
            self._context,
            self._config,
            self._task,
            places,
            folder=Path.cwd(),
            trusted=trusted(),
            singletons=Singleton.get_state(),
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        atomic_write(self._folder / SHARED_FILE, cloudpickle.dumps(workload))

    def _collect(self, status: SweepStatus, done: Done) -> list[Job]:
        """Report what is over; returns the runs that dead jobs have left undone."""
        self._watch_now_and_then(status)
        handed_back: list[Job] = []
        for submitted in list(self._submitted):
            dead = submitted.state.name in OVER  # asked before the last look at the journal
            for job, outcome in submitted.news():
                done(job, outcome)
            if dead or not submitted.left:
                self._submitted.remove(submitted)
            if dead and submitted.left:
                handed_back += self._bury(submitted, status, done)
        status.running = sum(len(job.begun & job.left.keys()) for job in self._submitted)
        return handed_back

    def _watch_now_and_then(self, status: SweepStatus) -> None:
        """Ask the cluster about its jobs: seconds after they were submitted, later less often."""
        now = time.monotonic()
        if now < self._next_watch or not self._submitted:
            return
        age = now - self._last_submission
        self._next_watch = now + min(MAX_WATCH_SECONDS, max(self.poll_seconds, age / 2))
        for job, state in zip(self._submitted, self._watch(self._submitted), strict=True):
            job.state = state
        states = Counter(job.state.name.lower() for job in self._submitted)
        reasons = Counter(j.state.reason for j in self._submitted if j.state.name == "PENDING")
        reason = reasons.most_common(1)[0][0] if reasons else ""
        words = [f"{count} {name}" for name, count in sorted(states.items(), reverse=True)]
        known = f" ({reason})" if reason not in ("", "None") else ""
        status.queue = f"{self.cluster}: {', '.join(words)}{known}"
        for reason, count in reasons.items():
            if reason not in (*ROUTINE, *self._told):
                self._told.add(reason)
                noun = "jobs wait" if count > 1 else "job waits"
                status.print(f"{count} {noun} in the queue of {self.cluster}: {reason}.")

    def _bury(self, submitted: Submitted, status: SweepStatus, done: Done) -> list[Job]:
        """Report a job that is over with runs left; returns those that other jobs shall do."""
        state = submitted.state
        cause = f": {state.reason}" if state.reason not in ROUTINE else ""
        text = f"The job died{cause} (state: {state.name}). Its log is {self._log(submitted)}"
        handed_back = []
        for job in submitted.left.values():
            self._losses[job.index] += 1
            blamed = job.index in submitted.begun and state.name not in BLAMELESS
            if state.name != "CANCELLED" and not blamed and self._losses[job.index] <= MAX_LOSSES:
                handed_back.append(job)
                continue
            # Who cancels a job does not call its runs failures: the next call runs them.
            crashed = state.name != "CANCELLED"
            run_dir = self.record_failure(job, text, write=crashed)
            done(job, Outcome("failed", run_dir=run_dir, error=text, crashed=crashed))
        if handed_back:
            status.print(f"{text} {len(handed_back)} unfinished runs go to another job.")
        return handed_back

    @abstractmethod
    def _capacity(self, search: bool) -> int:
        """The most jobs that are submitted and not over; for a search those that run at once."""

    @abstractmethod
    def _submit(self, allocations: Sequence[Allocation]) -> Sequence[Any]:
        """Submit jobs; returns a handle for each."""

    @abstractmethod
    def _watch(self, submitted: Sequence[Submitted]) -> Sequence[State]:
        """Ask the cluster for the states of jobs."""

    @abstractmethod
    def _cancel(self, handles: Sequence[Any]) -> None:
        """The sweep stops; the cluster decides what its jobs do then."""

    @abstractmethod
    def _log(self, submitted: Submitted) -> str:
        """The log file of a job."""


def cause_of(error: BaseException) -> str:
    """Why a job died, in one line: the last line of a traceback, else the first of the message."""
    text, _, trace = str(error).partition("Traceback (most recent call last)")
    lines = [line.strip() for line in (trace or text).splitlines() if line.strip(" -")]
    hints = [i for i, line in enumerate(lines) if line.startswith("You can check full logs")]
    lines = lines[: hints[0]] if hints else lines  # submitit adds hints below the traceback
    if not lines:
        return repr(error)
    return lines[-1] if trace else lines[0]
