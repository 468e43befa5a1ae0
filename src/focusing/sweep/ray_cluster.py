"""Jobs on a Ray cluster: the work behind ``hydra/launcher=ray``."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from hydra.core.singleton import Singleton
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf

from focusing.errors import UserError
from focusing.sweep.clusters import ClusterSweep
from focusing.sweep.jobs import Job, Outcome, to_return
from focusing.sweep.pool import GRACE_SECONDS
from focusing.sweep.task import SweepTask


class Ray(ClusterSweep):
    """Submits jobs to Ray as the published launcher does, but watches each job.

    Args:
        context, config, task: as in :class:`ClusterSweep`.
        address: of the cluster; ``"local"`` starts one on this machine.
        init: more options of ``ray.init``.
        remote: options of ``ray.remote``: the resources of a job.
    """

    max_batch = 1

    def __init__(
        self,
        context: HydraContext,
        config: DictConfig,
        task: SweepTask,
        *,
        address: str,
        init: Mapping[str, Any],
        remote: Mapping[str, Any],
    ) -> None:
        super().__init__(context, config, task)
        if address == "local":  # no usage reports, and no token in the user's home
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        try:
            ray: Any = import_module("ray")
            launchers: Any = import_module("hydra_plugins.hydra_ray_launcher._launcher_util")
        except ImportError:
            raise UserError("hydra/launcher=ray needs: pip install 'focusing[ray]'") from None
        self._ray, self._launch = ray, launchers.launch_job_on_ray
        self._remote = OmegaConf.create(dict(remote))
        terminate = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=address, **init)
        except (ConnectionError, ValueError) as error:
            raise UserError(f"hydra.launcher.address={address}: {error}") from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, terminate)  # Ray's handler exits with code 1
        for name, needed, available in self._resources():
            if needed > available:
                text = f"hydra.launcher.{name}={needed:g}, but the cluster has {available:g}"
                if address == "local":
                    ray.shutdown()
                    raise UserError(f"{text}.")
                warnings.warn(f"{text}: jobs wait until it grows.", stacklevel=2)

    def _capacity(self) -> int:
        # Twice as many jobs as fit, so that the cluster never waits for the next.
        fit = [available // needed for _, needed, available in self._resources() if needed]
        return int(2 * max(1, min(fit, default=1)))

    def _resources(self) -> list[tuple[str, float, float]]:
        """What a job needs, and what the cluster has now."""
        available = self._ray.cluster_resources()
        return [
            ("cpus", self._remote.num_cpus, available.get("CPU", 0)),
            ("gpus", self._remote.num_gpus, available.get("GPU", 0)),
        ]

    def _submit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        handles = []
        for job in jobs:
            try:
                config = self._compose(job)
            except Exception as error:
                handles.append(self._ray.put(to_return(job, Outcome.from_error(error))))
                continue
            state = Singleton.get_state()
            handles.append(self._launch(self._context, self._remote, config, self._task, state))
        return handles

    def _finished(self, handles: Sequence[Any]) -> Sequence[Any]:
        over: list[Any]
        over, _ = self._ray.wait(list(handles), num_returns=len(handles), timeout=0)
        if not over:
            time.sleep(0.1)  # not inside Ray, where SIGTERM would end with exit code 1
        return over

    def _result(self, handle: Any) -> Outcome:
        return Outcome.from_return(self._ray.get(handle))

    def _cancel(self, handles: Sequence[Any]) -> None:
        with suppress(Exception):  # Ray may be gone; else every job saves its checkpoint
            for handle in handles:
                self._ray.cancel(handle, force=False)
            self._ray.wait(list(handles), num_returns=len(handles), timeout=GRACE_SECONDS)
            self._ray.shutdown()
