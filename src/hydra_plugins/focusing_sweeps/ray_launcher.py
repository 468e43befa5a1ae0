"""``hydra/launcher=ray``: jobs on a Ray cluster."""

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.focusing_sweeps.local_launcher import SweepLauncher


@dataclass
class RayOptions:
    """A Ray cluster; needs the extra ``ray`` and a file system that all machines share.

    Attributes:
        address: ``local`` starts a cluster on this machine; ``auto`` or ``host:port``: one that
            exists.
        cpus: of a job; also its threads.
        gpus: of a job; 0.5: two jobs share one.
        init: more options of ``ray.init``.
        remote: more options of ``ray.remote``. A job whose machine dies continues elsewhere, once.
    """

    _target_: str = "hydra_plugins.focusing_sweeps.ray_launcher.RayLauncher"
    address: str = "local"
    cpus: int = 1
    gpus: float = 0
    init: Any = None  # not a dictionary: it could have no keys but its own
    remote: Any = None


# Not a file in conf/: Hydra would hold it against the options of the published launcher, which has
# the same name. That one first, so that it cannot replace ours.
with suppress(ImportError):
    import_module("hydra_plugins.hydra_ray_launcher._config")
ConfigStore.instance().store(
    group="hydra/launcher", name="ray", node=RayOptions, provider="focusing"
)


class RayLauncher(SweepLauncher):
    """Hands jobs to Ray."""

    def __init__(self, address: str, cpus: int, gpus: float, init: Any, remote: Any) -> None:
        self.address, self.cpus, self.gpus = address, cpus, gpus
        own_init: Any = OmegaConf.to_container(OmegaConf.create(init or {}))
        own_remote: Any = OmegaConf.to_container(OmegaConf.create(remote or {}))
        self.init: Any = {"include_dashboard": False, "logging_level": "warning", **own_init}
        self.remote: Any = {"max_retries": 1, **own_remote}

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Connect to the cluster."""
        from focusing.errors import UserError
        from focusing.experiments.table1_trials import sweep_task
        from focusing.sweep.ray_cluster import Ray

        for name, number, least in (("cpus", self.cpus, 1), ("gpus", self.gpus, 0)):
            if number < least:
                raise UserError(f"hydra.launcher.{name}={number} must be at least {least}.")
        task = sweep_task(task_function, threads=self.cpus, folder=Path.cwd())
        remote = {"num_cpus": self.cpus, "num_gpus": self.gpus, **self.remote}
        self.sweep = Ray(
            hydra_context, config, task, address=self.address, init=self.init, remote=remote
        )
