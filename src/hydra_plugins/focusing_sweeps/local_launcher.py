"""``hydra/launcher=local``: a pool of processes on this machine; and what runs without one."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

if TYPE_CHECKING:
    from focusing.sweep.launch.board import Board
    from focusing.sweep.launch.local import LocalSweep
    from focusing.sweep.launch.serial import SerialSweep
    from focusing.sweep.outcome import Job, Outcome


class LocalLauncher(Launcher):
    """Runs jobs in processes of their own; conf/hydra/launcher/local.yaml explains the options."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.pool: LocalSweep | SerialSweep | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Find the slots of this machine."""
        from focusing.sweep.jobs import Reporting
        from focusing.sweep.launch.local import LocalSweep

        task = Reporting.of(task_function)
        self.pool = LocalSweep(hydra_context, config, task, **self.options)

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run jobs and wait for them."""
        from focusing.sweep.launch.board import Board
        from focusing.sweep.outcome import numbered, returned

        jobs = numbered(job_overrides, initial_job_idx)
        found: dict[int, JobReturn] = {}

        def done(job: "Job", outcome: "Outcome") -> None:
            found[job.index] = returned(job, outcome)

        self.stream(iter(jobs), Board(job_overrides), done)
        return [found[job.index] for job in jobs]

    def stream(
        self,
        jobs: "Iterator[Job]",
        board: "Board",
        done: "Callable[[Job, Outcome], None]",
    ) -> None:
        """Run jobs that are thought of while others run."""
        assert self.pool is not None  # noqa: S101 - setup was called
        self.pool.run(jobs, board, done)


class SerialLauncher(LocalLauncher):
    """Runs jobs one after the other in this process, in the place of Hydra's own launcher.

    Hydra's composes all jobs by itself: a wrong value in one of them would stop the others.
    """

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Nothing to find."""
        from focusing.sweep.jobs import Reporting
        from focusing.sweep.launch.serial import SerialSweep

        self.pool = SerialSweep(hydra_context, config, Reporting.of(task_function))
