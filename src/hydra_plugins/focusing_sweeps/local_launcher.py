"""``hydra/launcher=local``: a pool of processes on this machine; and the default, one process.

The base of all our launchers is here, too.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

if TYPE_CHECKING:
    from focusing.sweep.clusters import ClusterSweep
    from focusing.sweep.jobs import Done, Job, Outcome
    from focusing.sweep.local import SerialSweep
    from focusing.sweep.status import SweepStatus


class SweepLauncher(Launcher):
    """Hands jobs to a sweep, which ``setup`` makes."""

    sweep: "SerialSweep | ClusterSweep"

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run jobs and wait for them."""
        from focusing.sweep.jobs import number_jobs, to_return
        from focusing.sweep.status import SweepStatus

        jobs = number_jobs(job_overrides, initial_job_idx)
        returned: dict[int, JobReturn] = {}

        def done(job: "Job", outcome: "Outcome") -> None:
            returned[job.index] = to_return(job, outcome)

        self.sweep.run(iter(jobs), SweepStatus(job_overrides), done)
        return [returned[job.index] for job in jobs]


class LocalLauncher(SweepLauncher):
    """Runs jobs in processes of their own; conf/hydra/launcher/local.yaml explains the options."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Check the options and find the slots of this machine."""
        from focusing.experiments.table1_trials import sweep_task
        from focusing.sweep.local import LocalSweep

        self.sweep = LocalSweep(hydra_context, config, sweep_task(task_function), **self.options)

    def stream(
        self, jobs: "Iterator[Job]", status: "SweepStatus", done: "Done", parallel: int | None
    ) -> None:
        """Run jobs, some of which may depend on the outcome of earlier ones, in all slots."""
        self.sweep.run(jobs, status, done)


class ClusterLauncher(SweepLauncher):
    """Hands jobs to a cluster."""

    sweep: "ClusterSweep"

    def stream(
        self, jobs: "Iterator[Job]", status: "SweepStatus", done: "Done", parallel: int | None
    ) -> None:
        """Run jobs, some of which may depend on the outcome of earlier ones.

        ``parallel`` of them run at the same time; None: as many as the cluster has room for.
        """
        self.sweep.run(jobs, status, done, at_once=parallel or 0)


class SerialLauncher(LocalLauncher):
    """Runs jobs one after the other in this process, in place of Hydra's own launcher.

    Hydra's launcher composes all jobs by itself: a wrong value in one would stop the others.
    """

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """There are no options."""
        from focusing.experiments.table1_trials import sweep_task
        from focusing.sweep.local import SerialSweep

        self.sweep = SerialSweep(hydra_context, config, sweep_task(task_function))
