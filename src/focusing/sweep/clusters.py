"""A sweep on a cluster: what SLURM and Ray have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf

from focusing.sweep.expansion import Composer
from focusing.sweep.jobs import Done, Job, Outcome, record_failure
from focusing.sweep.status import SweepStatus
from focusing.sweep.task import SweepTask


class ClusterSweep(ABC):
    """Submits jobs to a cluster and collects their outcomes.

    Attributes:
        max_batch: the most jobs that are submitted together.
    """

    max_batch: int

    def __init__(self, context: HydraContext, config: DictConfig, task: SweepTask) -> None:
        self._context, self._task = context, task
        self._compose = Composer(context, config)

    def run(self, jobs: Iterator[Job], status: SweepStatus, done: Done) -> None:
        """Run all jobs; ``done`` is called with every job that is over."""
        waiting, running = list(jobs), list[tuple[Any, Job]]()
        with status:
            try:
                while waiting or running:
                    while waiting and (free := self._capacity() - len(running)) > 0:
                        count = min(free, self.max_batch)
                        batch, waiting = waiting[:count], waiting[count:]
                        running += zip(self._submit(batch), batch, strict=True)
                    handles = [handle for handle, _ in running]
                    over = {id(handle) for handle in self._finished(handles)}
                    for handle, job in running:
                        if id(handle) in over:
                            outcome = self._outcome(handle, job)
                            status.add(job, outcome)
                            done(job, outcome)
                    running = [(handle, job) for handle, job in running if id(handle) not in over]
                    status.running = len(running)
                    status.refresh()
            except BaseException:
                self._cancel([handle for handle, _ in running])
                raise

    @abstractmethod
    def _capacity(self) -> int:
        """The most jobs that are submitted and not over yet; a cluster may grow."""

    @abstractmethod
    def _submit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        """Submit jobs; returns a handle for each."""

    @abstractmethod
    def _finished(self, handles: Sequence[Any]) -> Sequence[Any]:
        """The handles whose jobs are over; waits a moment if there are none."""

    @abstractmethod
    def _result(self, handle: Any) -> Outcome:
        """The outcome of a job that is over; raises if the job died."""

    @abstractmethod
    def _cancel(self, handles: Sequence[Any]) -> None:
        """The sweep stops; the cluster decides what its jobs do then."""

    def _log(self, handle: Any) -> str | None:
        """The log file of the job, if there is one."""
        return None

    def _outcome(self, handle: Any, job: Job) -> Outcome:
        try:
            return self._result(handle)
        except Exception as error:  # its process or its machine died
            log = self._log(handle)
            text = f"The job died: {cause_of(error)}" + (f" Its log is {log}" if log else "")
            run_dir = None
            with suppress(Exception):  # its config may be the problem
                cfg = self._compose(job)
                HydraConfig.instance().set_config(cfg)  # as it was where the job ran
                OmegaConf.set_struct(cfg, False)
                del cfg["hydra"]
                config, run_dir = self._task.locate(cfg)
                record_failure(run_dir, config, text)
            return Outcome("failed", run_dir=str(run_dir) if run_dir else None, error=text)


def cause_of(error: Exception) -> str:
    """Why a job died, in one line: the last line of a traceback, else the first of the message."""
    text, _, trace = str(error).partition("Traceback (most recent call last)")
    lines = [line.strip() for line in (trace or text).splitlines() if line.strip(" -")]
    hints = [i for i, line in enumerate(lines) if line.startswith("You can check full logs")]
    lines = lines[: hints[0]] if hints else lines  # submitit adds hints below the traceback
    if not lines:
        return repr(error)
    return lines[-1] if trace else lines[0]
