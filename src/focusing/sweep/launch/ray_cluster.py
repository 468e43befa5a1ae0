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
from focusing.sweep.composition import Composer
from focusing.sweep.jobs import Reporting
from focusing.sweep.outcome import Job, Outcome, failure, outcome_of, returned

GRACE = 60.0
"""Seconds that jobs have to save the middle of an epoch."""


class Ray:
    """Hands jobs to Ray as the published launcher does, but looks at each job by itself.

    Args:
        context: Hydra's.
        config: of the sweep.
        task: what a job does.
        address: of the cluster; ``"local"`` starts one on this machine.
        init: more options of ``ray.init``.
        remote: options of ``ray.remote``: what a job needs.
    """

    batch = 1

    def __init__(
        self,
        context: HydraContext,
        config: DictConfig,
        task: Reporting,
        *,
        address: str,
        init: Mapping[str, Any],
        remote: Mapping[str, Any],
    ) -> None:
        if address == "local":  # no reports, and no token in the user's home
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        try:
            ray: Any = import_module("ray")
            launchers: Any = import_module("hydra_plugins.hydra_ray_launcher._launcher_util")
        except ImportError:
            raise UserError("hydra/launcher=ray needs: pip install 'focusing[ray]'") from None
        self._ray, self._launch = ray, launchers.launch_job_on_ray
        self._context, self._task = context, task
        self._compose = Composer(context, config)
        self._remote = OmegaConf.create(dict(remote))
        terminate = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=address, **init)
        except (ConnectionError, ValueError) as error:
            raise UserError(f"hydra.launcher.address={address}: {error}") from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, terminate)  # Ray's would leave with exit code 1
        for name, needed, has in self._needs():
            if needed > has:
                text = f"hydra.launcher.{name}={needed:g}, but the cluster has {has:g}"
                if address == "local":
                    ray.shutdown()
                    raise UserError(f"{text}.")
                warnings.warn(f"{text}: jobs wait until it grows.", stacklevel=2)

    @property
    def jobs_at_once(self) -> int:
        """How many jobs keep the cluster busy, and some to follow."""
        fit = [has // needed for _, needed, has in self._needs() if needed]
        return int(2 * max(1, min(fit, default=1)))

    def _needs(self) -> list[tuple[str, float, float]]:
        """What a job needs, and what the cluster has now."""
        has = self._ray.cluster_resources()
        return [
            ("cpus", self._remote.num_cpus, has.get("CPU", 0)),
            ("gpus", self._remote.num_gpus, has.get("GPU", 0)),
        ]

    def submit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        """Hand jobs over."""
        tickets = []
        for job in jobs:
            try:
                config = self._compose(job)
            except Exception as error:
                tickets.append(self._ray.put(returned(job, failure(error))))
                continue
            state = Singleton.get_state()
            tickets.append(self._launch(self._context, self._remote, config, self._task, state))
        return tickets

    def finished(self, tickets: Sequence[Any]) -> Sequence[Any]:
        """Those whose jobs are over."""
        found: list[Any]
        found, _ = self._ray.wait(list(tickets), num_returns=len(tickets), timeout=0)
        if not found:
            time.sleep(0.1)  # not in Ray, where SIGTERM would end in exit code 1
        return found

    def result(self, ticket: Any) -> Outcome:
        """What became of the job."""
        return outcome_of(self._ray.get(ticket))

    def log(self, ticket: Any) -> str | None:
        """Ray shows it meanwhile."""
        return None

    def cancel(self, tickets: Sequence[Any]) -> None:
        """Let each job save its middle."""
        with suppress(Exception):  # Ray may be gone
            for ticket in tickets:
                self._ray.cancel(ticket, force=False)
            self._ray.wait(list(tickets), num_returns=len(tickets), timeout=GRACE)
            self._ray.shutdown()
