"""``hydra/launcher=ray``: jobs on a Ray cluster."""

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.focusing_sweeps.local_launcher import ClusterLauncher


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

    _target_: str = "hydra_plugins.focusing_sweeps.ray_launcher.RayLauncher"
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


class RayLauncher(ClusterLauncher):
    """Hands jobs to Ray."""

    def __init__(self, init: Any, remote: Any, **options: Any) -> None:
        own_init: Any = OmegaConf.to_container(OmegaConf.create(init or {}))
        own_remote: Any = OmegaConf.to_container(OmegaConf.create(remote or {}))
        quiet = {"include_dashboard": False, "logging_level": "warning", "log_to_driver": False}
        self.options = {
            **options,
            "init": {**quiet, **own_init},
            "remote": {"max_retries": 20, **own_remote},  # spot machines come and go
        }

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Connect to the cluster."""
        from focusing.experiments.table1_trials import sweep_task
        from focusing.sweep.ray_cluster import Ray

        task = sweep_task(task_function, folder=Path.cwd())
        self.sweep = Ray(hydra_context, config, task, **self.options)
