"""``hydra/launcher=slurm``: jobs on a SLURM cluster."""

from pathlib import Path
from typing import Any

from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.focusing_sweeps.local_launcher import ClusterLauncher


class SlurmLauncher(ClusterLauncher):
    """Submits jobs with submitit; conf/hydra/launcher/slurm.yaml explains the options."""

    def __init__(
        self, cluster: str, runs_per_job: int, per_gpu: int, more: Any, **options: Any
    ) -> None:
        # Null in the file: a dictionary there could have no keys but those of the file.
        rest: Any = OmegaConf.to_container(OmegaConf.create(more or {}))
        self.cluster, self.options = cluster, {**options, **rest}
        self.packing = {"runs_per_job": runs_per_job, "per_gpu": per_gpu}

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Connect to the cluster."""
        from focusing.experiments.table1_trials import sweep_task
        from focusing.sweep.slurm import Slurm

        task, options = sweep_task(task_function, folder=Path.cwd()), self.options
        self.sweep = Slurm(
            hydra_context, config, task, cluster=self.cluster, options=options, **self.packing
        )
