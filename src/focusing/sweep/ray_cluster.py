"""Sweeps on a Ray cluster (``hydra/launcher=ray``)."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from focusing.config import AtLeastOne, NonNegative
from focusing.errors import UserError
from focusing.sweep.allocation import Allocation
from focusing.sweep.clusters import ClusterSweep, State, SubmittedJob, cause_of
from focusing.sweep.pool import GRACE_SECONDS
from focusing.sweep.task import JobRunner

CONNECT_SECONDS = 30
INIT_DEFAULTS = {"include_dashboard": False, "logging_level": "warning", "log_to_driver": False}


class Ray(ClusterSweep):
    """Runs jobs as Ray tasks, each of which starts a process with its own pool.

    The pool cannot run in a Ray worker, whose threads do not survive a fork.

    Args:
        runner, runs_per_job, per_gpu: as in :class:`ClusterSweep`.
        address: of the cluster; ``"local"`` starts one on this machine.
        cpus, gpus: per job; with 0.5, two jobs share a GPU.
        init: more options of ``ray.init``.
        remote: more options of ``ray.remote``.
    """

    cluster = "ray"
    max_batch = 1

    def __init__(
        self,
        runner: JobRunner,
        *,
        address: str,
        cpus: AtLeastOne,
        gpus: NonNegative,
        runs_per_job: AtLeastOne,
        per_gpu: AtLeastOne,
        init: dict[str, Any] | None = None,
        remote: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(runner, runs_per_job, cpus, gpus, per_gpu)
        if address == "local":  # send no usage reports, and put no token into the user's home
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise UserError("hydra/launcher=ray needs: pip install 'focusing[ray]'") from None
        self._ray = ray
        terminate = signal.getsignal(signal.SIGTERM)
        _check_reachable(address)
        try:
            ray.init(address=address, **{**INIT_DEFAULTS, **(init or {})})
        except (ConnectionError, ValueError) as error:
            raise UserError(f"hydra.launcher.address={address}: {error}") from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, terminate)  # Ray's handler exits with code 1
        options = {"max_retries": 20, **(remote or {})}  # spot machines come and go
        self._run = ray.remote(num_cpus=self._cpus, num_gpus=self.gpus, **options)(run_in_process)
        for name, needed, available in self._resources():
            if needed > available:
                text = f"hydra.launcher.{name}={needed:g}, but the cluster has {available:g}"
                if address == "local":
                    ray.shutdown()
                    raise UserError(f"{text}.")
                warnings.warn(f"{text}: jobs wait until it grows.", stacklevel=2)

    def _capacity(self, search: bool) -> int:
        fit = [available // needed for _, needed, available in self._resources() if needed]
        parallel = int(max(1, min(fit, default=1)))
        # Queue twice as many jobs as fit, so that the cluster never waits for the next one.
        return parallel if search else 2 * parallel

    def _resources(self) -> list[tuple[str, float, float]]:
        """Return name, need per job and present total of each resource."""
        available = self._ray.cluster_resources()
        needs = (("cpus", self._cpus, "CPU"), ("gpus", self.gpus, "GPU"))
        return [(name, needed, available.get(kind, 0)) for name, needed, kind in needs]

    def _submit(self, allocations: Sequence[Allocation]) -> Sequence[Any]:
        path = os.pathsep.join(filter(None, sys.path))
        return [
            self._run.remote(pickle.dumps(allocation), self._log_of(allocation), path)
            for allocation in allocations
        ]

    def _query_states(self, submitted: Sequence[SubmittedJob]) -> Sequence[State]:
        handles = [job.handle for job in submitted]
        ended, _ = self._ray.wait(handles, num_returns=len(handles), timeout=0)
        return [
            self._final_state(job.handle)
            if job.handle in ended
            else State("RUNNING" if job.allocation.journal_path.exists() else "PENDING")
            for job in submitted
        ]

    def _final_state(self, handle: Any) -> State:
        try:
            self._ray.get(handle)
        except self._ray.exceptions.RayTaskError as error:
            return State("FAILED", cause_of(error))
        except Exception as error:  # its worker or machine died more often than Ray retries
            return State("NODE_FAIL", cause_of(error))
        return State("COMPLETED")

    def _log_of(self, allocation: Allocation) -> str:
        return str(allocation.journal_path.with_suffix(".log"))

    def _log(self, submitted: SubmittedJob) -> str:
        return self._log_of(submitted.allocation)

    def _cancel(self, handles: Sequence[Any]) -> None:
        with suppress(Exception):  # Ray may be gone
            for handle in handles:
                self._ray.cancel(handle, force=False)  # its runs save their checkpoints
            self._ray.wait(list(handles), num_returns=len(handles), timeout=GRACE_SECONDS)
            self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Refuse an address that does not answer; Ray would try for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not port.isdigit():
        return  # local and auto
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        reason = error.strerror or f"no answer after {CONNECT_SECONDS} s"
        raise UserError(f"hydra.launcher.address={address} cannot be reached: {reason}.") from None


def run_in_process(description: bytes, log: str, path: str) -> None:
    """Run an allocation in a new process, and stop it if the Ray task is cancelled.

    Args:
        description: the pickled allocation.
        log: file for the output of the process.
        path: its PYTHONPATH.
    """
    command = [sys.executable, "-u", "-m", "focusing.sweep.allocation"]
    with Path(log).open("ab") as file:
        process = subprocess.Popen(  # noqa: S603 - our own module
            command,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            env={**os.environ, "PYTHONPATH": path},
        )
    assert process.stdin is not None  # noqa: S101 - for the type checker
    process.stdin.write(b"%d\n%b" % (len(description), description))
    process.stdin.flush()
    try:
        while process.poll() is None:  # wait() would not notice a cancellation by Ray
            time.sleep(0.1)
    finally:
        process.stdin.close()  # the process saves its runs and exits
        code = process.wait(GRACE_SECONDS)
    if code:
        raise RuntimeError(f"the process of the job ended with exit code {code}")
