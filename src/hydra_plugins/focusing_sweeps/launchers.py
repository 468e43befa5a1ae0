"""``hydra/launcher=local``, ``slurm`` and ``ray``; and the default, one job after the other."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

if TYPE_CHECKING:
    from focusing.sweep.jobs import Job, Outcome


class SweepLauncher(Launcher):
    """Hands jobs to a sweep.

    Args:
        **options: of the sweep.

    Attributes:
        home: module and class of the sweep.
        sweep: what runs the jobs, once the launcher is set up.
    """

    home: ClassVar[str]
    sweep: Any

    def __init__(self, **options: Any) -> None:
        self.options = options

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Make the sweep, which checks its options."""
        from focusing.experiments.table1_trials import sweep_task

        module, _, name = self.home.partition(":")
        make_sweep = getattr(import_module(module), name)
        self.sweep = make_sweep(hydra_context, config, sweep_task(task_function), **self.options)

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


class SerialLauncher(SweepLauncher):
    """Runs jobs one after the other in this process, in place of Hydra's own launcher.

    Hydra's launcher composes all jobs by itself: a wrong value in one would stop the others.
    """

    home = "focusing.sweep.local:SerialSweep"


class LocalLauncher(SweepLauncher):
    """Runs jobs in processes of their own; conf/hydra/launcher/local.yaml explains the options."""

    home = "focusing.sweep.local:LocalSweep"


class SlurmLauncher(SweepLauncher):
    """Submits jobs with submitit; conf/hydra/launcher/slurm.yaml explains the options."""

    home = "focusing.sweep.slurm:Slurm"


class RayLauncher(SweepLauncher):
    """Hands jobs to Ray; :class:`RayOptions` explains the options."""

    home = "focusing.sweep.ray_cluster:Ray"


@dataclass
class RayOptions:
    """A Ray cluster; needs the extra ``ray`` and a file system that all machines share.

    Attributes:
        address: ``local`` starts a cluster on this machine; ``auto`` or ``host:port``: one that
            exists.
        cpus: of a job.
        gpus: of a job; 0.5: two jobs share one.
        runs_per_job: of a job; they share its processors and GPUs.
        per_gpu: runs of a job that share a GPU.
        init: more options of ``ray.init``.
        remote: more options of ``ray.remote``. A job whose machine dies continues elsewhere, as
            often as ``max_retries`` says.
    """

    _target_: str = "hydra_plugins.focusing_sweeps.launchers.RayLauncher"
    address: str = "local"
    cpus: int = 1
    gpus: float = 0
    runs_per_job: int = 1
    per_gpu: int = 1
    init: Any = None  # not a dictionary: it could have no keys but its own
    remote: Any = None


# Not a file in conf/: Hydra would hold it against the options of the published launcher, which has
# the same name. That one first, so that it cannot replace ours.
with suppress(ImportError):
    import_module("hydra_plugins.hydra_ray_launcher._config")
ConfigStore.instance().store(
    group="hydra/launcher", name="ray", node=RayOptions, provider="focusing"
)
