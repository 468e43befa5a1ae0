"""A sweep on a cluster: what SLURM and Ray have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf

from focusing.sweep.expansion import Composer
from focusing.sweep.jobs import Job, Outcome, Result, number_jobs, record_failure, to_return
from focusing.sweep.status import SweepStatus
from focusing.sweep.task import SweepTask


class Cluster(Protocol):
    """Something that runs jobs elsewhere.

    Attributes:
        max_batch: the most jobs that are submitted together.
    """

    max_batch: int

    @property
    def capacity(self) -> int:
        """The most jobs that are submitted and not over yet; a cluster may grow."""

    def submit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        """Submit jobs.

        Returns:
            A handle for each.
        """

    def finished(self, handles: Sequence[Any]) -> Sequence[Any]:
        """The handles whose jobs are over; waits a moment if there are none."""

    def result(self, handle: Any) -> Outcome:
        """The outcome of a job that is over; raises if the job died."""

    def log(self, handle: Any) -> str | None:
        """The log file of the job, if there is one."""

    def cancel(self, handles: Sequence[Any]) -> None:
        """The sweep stops; the cluster decides what its jobs do then."""


class ClusterSweep:
    """Submits jobs to a cluster and collects their outcomes.

    Args:
        context: Hydra's.
        config: of the sweep.
        task: the task of a job.
        cluster: where jobs run.
    """

    def __init__(
        self, context: HydraContext, config: DictConfig, task: SweepTask, cluster: Cluster
    ) -> None:
        self._compose, self._task, self._cluster = Composer(context, config), task, cluster

    def launch(self, overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        """Run jobs and wait for them, as Hydra wants it.

        Args:
            overrides: of each job.
            first: index of the first.
        """
        jobs = number_jobs(overrides, first)
        returned: dict[int, JobReturn] = {}
        with SweepStatus(overrides) as status:
            for job, outcome in self._outcomes(jobs, status):
                status.add(job, outcome)
                returned[job.index] = to_return(job, outcome)
        return [returned[job.index] for job in jobs]

    def _outcomes(self, jobs: Sequence[Job], status: SweepStatus) -> Iterator[Result]:
        waiting = list(jobs)
        running: list[tuple[Any, Job]] = []
        try:
            while waiting or running:
                while waiting and (free := self._cluster.capacity - len(running)) > 0:
                    count = min(free, self._cluster.max_batch)
                    batch, waiting = waiting[:count], waiting[count:]
                    running += zip(self._cluster.submit(batch), batch, strict=True)
                handles = [handle for handle, _ in running]
                over = {id(handle) for handle in self._cluster.finished(handles)}
                for handle, job in running:
                    if id(handle) in over:
                        yield job, self._outcome(handle, job)
                running = [(handle, job) for handle, job in running if id(handle) not in over]
                status.running = len(running)
                status.refresh()
        except BaseException:
            self._cluster.cancel([handle for handle, _ in running])
            raise

    def _outcome(self, handle: Any, job: Job) -> Outcome:
        try:
            return self._cluster.result(handle)
        except Exception as error:  # its process or its machine died
            log = self._cluster.log(handle)
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
