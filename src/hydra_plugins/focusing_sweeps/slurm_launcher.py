"""``hydra/launcher=slurm``: jobs on a SLURM cluster."""

from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


class SlurmLauncher(Launcher):
    """Submits jobs with submitit; conf/hydra/launcher/slurm.yaml explains the options."""

    def __init__(self, cluster: str, more: Any, **options: Any) -> None:
        # Null in the file: a dictionary there could have no keys but those of the file.
        rest: Any = OmegaConf.to_container(OmegaConf.create(more or {}))
        self.cluster, self.options = cluster, {**options, **rest}

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Connect to the cluster."""
        from focusing.experiments.table1_trials import sweep_task
        from focusing.sweep.clusters import ClusterSweep
        from focusing.sweep.slurm import Slurm

        task = sweep_task(task_function, threads=self.options["cpus_per_task"])
        cluster = Slurm(
            hydra_context, config, task, cluster=self.cluster, options=dict(self.options)
        )
        self.sweep = ClusterSweep(hydra_context, config, task, cluster)

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run jobs and wait for them."""
        return self.sweep.launch(job_overrides, initial_job_idx)
