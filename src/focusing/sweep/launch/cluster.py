"""What the launchers for more than one machine have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf

from focusing.sweep.failures import leave_failure
from focusing.sweep.jobs import Reporting, locate
from focusing.sweep.launch.board import Board
from focusing.sweep.launch.local import compose_job
from focusing.sweep.outcome import Job, Outcome, numbered, outcome_of, returned


class Cluster(Protocol):
    """Something that runs jobs elsewhere."""

    def submit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        """Hand jobs over.

        Returns:
            A ticket for each.
        """

    def finished(self, tickets: Sequence[Any]) -> Sequence[Any]:
        """Those whose jobs are over, after a little while."""

    def result(self, ticket: Any) -> Any:
        """What Hydra's ``run_job`` returned there; raises if it did not."""

    def cancel(self, tickets: Sequence[Any]) -> None:
        """The sweep stops; what its jobs do then is up to the cluster."""


class ClusterSweep:
    """Hands jobs to a cluster and gathers what became of them.

    Args:
        context: Hydra's.
        config: of the sweep.
        task: what a job does.
        cluster: where.
        at_once: jobs that are handed over at the same time, at most.
        batch: jobs that are handed over together, at most.
    """

    def __init__(
        self,
        context: HydraContext,
        config: DictConfig,
        task: Reporting,
        cluster: Cluster,
        *,
        at_once: int,
        batch: int = 1,
    ) -> None:
        self._context, self._config, self._task = context, config, task
        self._cluster, self._at_once, self._batch = cluster, at_once, batch

    def launch(self, overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        """Run jobs and wait for them, as Hydra wants it.

        Args:
            overrides: of each job.
            first: index of the first.
        """
        jobs = numbered(overrides, first)
        found: dict[int, JobReturn] = {}
        with Board(overrides) as board:
            for job, outcome in self._outcomes(jobs, board):
                board.ended(job, outcome)
                found[job.index] = returned(job, outcome)
        return [found[job.index] for job in jobs]

    def _outcomes(self, jobs: Sequence[Job], board: Board) -> Iterator[tuple[Job, Outcome]]:
        waiting = list(jobs)
        running: list[tuple[Any, Job]] = []
        try:
            while waiting or running:
                while waiting and len(running) < self._at_once:
                    room = min(self._batch, self._at_once - len(running))
                    some, waiting = waiting[:room], waiting[room:]
                    running += zip(self._cluster.submit(some), some, strict=True)
                over = {id(each) for each in self._cluster.finished([t for t, _ in running])}
                for ticket, job in running:
                    if id(ticket) in over:
                        yield job, self._outcome(ticket, job)
                running = [each for each in running if id(each[0]) not in over]
                board.running = len(running)
                board.tick()
        except BaseException:
            self._cluster.cancel([ticket for ticket, _ in running])
            raise

    def _outcome(self, ticket: Any, job: Job) -> Outcome:
        try:
            return outcome_of(self._cluster.result(ticket))
        except Exception as error:  # its process died, or its machine
            text = str(error).strip().splitlines()
            sentence = f"The job died: {text[0] if text else repr(error)}"
            run_dir = None
            with suppress(Exception):  # its config may be what is wrong
                cfg = compose_job(self._context, self._config, job)
                HydraConfig.instance().set_config(cfg)  # as it was where the job ran
                OmegaConf.set_struct(cfg, False)
                del cfg["hydra"]
                config, run_dir = locate(cfg)
                leave_failure(run_dir, config, sentence)
            return Outcome("failed", run_dir=str(run_dir) if run_dir else None, error=sentence)
