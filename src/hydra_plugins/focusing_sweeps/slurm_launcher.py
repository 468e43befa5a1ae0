"""``hydra/launcher=slurm``: jobs on a SLURM cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


@dataclass
class SlurmOptions:
    """A SLURM cluster, from a machine that can call sbatch.

    Needs the extra ``slurm`` and a file system that all machines share.

    Attributes:
        cluster: ``slurm``; ``local``: the same on this machine, to try it.
        partition: of the cluster.
        timeout_min: when time is up, a job saves its middle, is queued again and goes on,
        max_num_timeout: so many times,
        signal_delay_s: with so many seconds for that.
        cpus_per_task: also its threads.
        gpus_per_node: 1 for a job on a GPU.
        mem_gb: of a job.
        array_parallelism: jobs at the same time.
        more: other options of sbatch, as in ``{account: me, qos: low}``.
    """

    _target_: str = "hydra_plugins.focusing_sweeps.slurm_launcher.SlurmLauncher"
    cluster: str = "slurm"
    partition: str | None = None
    timeout_min: int = 240
    max_num_timeout: int = 50
    signal_delay_s: int = 120
    cpus_per_task: int = 1
    gpus_per_node: int | None = None
    mem_gb: float = 4
    array_parallelism: int = 256
    more: dict[str, Any] = field(default_factory=dict)


# Not a file in conf/: there ``more`` could have no keys but those of the file.
ConfigStore.instance().store(
    group="hydra/launcher", name="slurm", node=SlurmOptions, provider="focusing"
)


class SlurmLauncher(Launcher):
    """Submits jobs with submitit."""

    def __init__(self, cluster: str, more: Any, **options: Any) -> None:
        rest: Any = OmegaConf.to_container(OmegaConf.create(more or {}))
        self.cluster, self.options = cluster, {**options, **rest}

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Find the cluster."""
        from focusing.sweep.jobs import Reporting
        from focusing.sweep.launch.cluster import ClusterSweep
        from focusing.sweep.launch.slurm import Submitit

        task = Reporting.of(task_function, threads=self.options["cpus_per_task"])
        cluster = Submitit(
            hydra_context, config, task, cluster=self.cluster, options=dict(self.options)
        )
        self.sweep = ClusterSweep(hydra_context, config, cluster)

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run jobs and wait for them."""
        return self.sweep.launch(job_overrides, initial_job_idx)
