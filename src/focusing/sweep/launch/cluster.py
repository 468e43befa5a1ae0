"""What the launchers for more than one machine have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf

from focusing.sweep.composition import Composer
from focusing.sweep.failures import leave_failure
from focusing.sweep.jobs import locate
from focusing.sweep.launch.board import Board
from focusing.sweep.outcome import Job, Outcome, numbered, returned


class Cluster(Protocol):
    """Something that runs jobs elsewhere.

    Attributes:
        batch: jobs that are handed over together, at most.
    """

    batch: int

    @property
    def jobs_at_once(self) -> int:
        """Jobs that are handed over at the same time, at most; a cluster may grow."""

    def submit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        """Hand jobs over.

        Returns:
            A ticket for each.
        """

    def finished(self, tickets: Sequence[Any]) -> Sequence[Any]:
        """Those whose jobs are over, after a little while."""

    def result(self, ticket: Any) -> Outcome:
        """What became of the job; raises if it could not tell."""

    def log(self, ticket: Any) -> str | None:
        """The file with what the job said, if there is one."""

    def cancel(self, tickets: Sequence[Any]) -> None:
        """The sweep stops; what its jobs do then is up to the cluster."""


class ClusterSweep:
    """Hands jobs to a cluster and gathers what became of them.

    Args:
        context: Hydra's.
        config: of the sweep.
        cluster: where.
    """

    def __init__(self, context: HydraContext, config: DictConfig, cluster: Cluster) -> None:
        self._compose, self._cluster = Composer(context, config), cluster

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
                while waiting and (room := self._cluster.jobs_at_once - len(running)) > 0:
                    room = min(room, self._cluster.batch)
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
            return self._cluster.result(ticket)
        except Exception as error:  # its process died, or its machine
            log = self._cluster.log(ticket)
            sentence = f"The job died: {reason(error)}" + (f" Its log is {log}" if log else "")
            run_dir = None
            with suppress(Exception):  # its config may be what is wrong
                cfg = self._compose(job)
                HydraConfig.instance().set_config(cfg)  # as it was where the job ran
                OmegaConf.set_struct(cfg, False)
                del cfg["hydra"]
                config, run_dir = locate(cfg)
                leave_failure(run_dir, config, sentence)
            return Outcome("failed", run_dir=str(run_dir) if run_dir else None, error=sentence)


def reason(error: Exception) -> str:
    """Why a job died, in a line: of a trace its last, of anything else its first."""
    text, _, trace = str(error).partition("Traceback (most recent call last)")
    lines = [each.strip() for each in (trace or text).splitlines() if each.strip(" -")]
    about = [n for n, each in enumerate(lines) if each.startswith("You can check full logs")]
    lines = lines[: about[0]] if about else lines  # submitit says more below the trace
    if not lines:
        return repr(error)
    return lines[-1] if trace else lines[0]
