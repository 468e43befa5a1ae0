"""Sweeps on this machine: one job after the other, or in a pool (``hydra/launcher=local``)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from focusing.config import AtLeastOne
from focusing.errors import UserError
from focusing.sweep.jobs import Job, OnDone, Outcome
from focusing.sweep.pool import Notify, Pool, Slot
from focusing.sweep.status import SweepStatus
from focusing.sweep.task import JobRunner, Sweep


class SerialSweep(Sweep):
    """Runs the jobs of a sweep in this process, one after the other."""

    def __init__(self, runner: JobRunner) -> None:
        self._runner = runner

    def run(self, jobs: Iterator[Job], status: SweepStatus, on_done: OnDone) -> None:
        """Run all jobs."""
        for job in jobs:
            status.running = 1
            status.refresh()
            outcome = self._runner.execute(job)
            status.running = 0
            on_done(job, outcome)


class LocalSweep(Sweep):
    """Runs the jobs of a sweep in a pool of processes.

    Args:
        runner: runs single jobs.
        workers, gpus, per_gpu, threads, cpus: see :func:`make_slots`.
        jobs_per_worker, growth_mb: see :class:`~focusing.sweep.pool.Pool`.

    Attributes:
        on_start: called with every job that starts to train.
    """

    def __init__(
        self,
        runner: JobRunner,
        *,
        workers: AtLeastOne | None = None,
        gpus: Any = 0,
        per_gpu: AtLeastOne = 1,
        threads: AtLeastOne | None = None,
        cpus: int | None = None,
        jobs_per_worker: AtLeastOne = 200,
        growth_mb: AtLeastOne = 1000,
    ) -> None:
        self._runner = runner
        self._slots = partial(make_slots, workers, gpus, per_gpu, threads, cpus)
        self._slots()  # reports wrong options before the sweep begins
        self._worker_limits = (jobs_per_worker, growth_mb)
        self._pause_file = Path(runner.config.paths.output_dir).expanduser() / ".pause"
        self.on_start: Callable[[Job], None] = lambda job: None

    def run(self, jobs: Iterator[Job], status: SweepStatus, on_done: OnDone) -> None:
        """Run all jobs in a pool of processes."""
        if not status.total:
            return  # saves the seconds that torch takes to load
        slots = self._slots(jobs=status.total)
        _preload(slots[0])

        def execute(job: Job, notify_start: Notify) -> Outcome:
            import torch

            torch.set_num_threads(slots[0].threads)
            self._runner.task.on_start = notify_start
            return self._runner.execute(job)

        def tick() -> None:
            status.running = pool.running
            status.refresh()

        options = (*self._worker_limits, self._pause_file, self.on_start)
        with Pool(slots, execute, status.print, *options) as pool:
            for job, outcome in pool.run(jobs, tick):
                if outcome.crashed:
                    run_dir = self._runner.record_failure(job, str(outcome.error))
                    outcome = replace(outcome, run_dir=run_dir)
                on_done(job, outcome)


def _preload(slot: Slot) -> None:
    """Import torch once for all workers, unless they use GPUs: CUDA does not survive a fork.

    Threads do not survive it either, so this process uses one.
    """
    if not slot.gpu:
        replace(slot, threads=1).occupy()
        import focusing.run  # noqa: F401


def make_slots(
    workers: int | None = None,
    gpus: int | str | Sequence[int] = 0,
    per_gpu: int = 1,
    threads: int | None = None,
    cpus: int | None = None,
    jobs: int | None = None,
) -> list[Slot]:
    """Divide this machine into slots.

    Args:
        workers: number of slots without GPUs; None: one per processor.
        gpus: 0, a number, ``"all"``, or a list of indices of visible GPUs.
        per_gpu: jobs that share a GPU.
        threads: per job; None: an equal share of the processors.
        cpus: number of processors; None: all that this process may use.
        jobs: number of jobs, which is the most slots there can be.
    """
    devices = _devices(gpus)
    if devices and workers is not None:
        raise UserError("hydra.launcher.workers is for a sweep without GPUs: use per_gpu.")
    cpus = cpus or cpu_count()
    count = len(devices) * per_gpu if devices else (cpus if workers is None else workers)
    count = count if jobs is None else max(1, min(count, jobs))
    share = max(1, cpus // count) if threads is None else threads
    # Give every GPU its first job before any gets a second.
    places = devices * per_gpu or [""] * count
    return [Slot(device, share) for device in places[:count]]


def cpu_count() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _devices(gpus: int | str | Sequence[int]) -> list[str]:
    """Return a value of CUDA_VISIBLE_DEVICES for each GPU that the user asks for."""
    if gpus == 0 and not isinstance(gpus, bool):
        return []
    environment = os.environ.get("CUDA_VISIBLE_DEVICES")
    if environment is None:
        visible, why = _installed_gpus(), "nvidia-smi finds {} on this machine"
    else:
        visible = [name.strip() for name in environment.split(",") if name.strip()]
        why = f"CUDA_VISIBLE_DEVICES={environment} names {{}}"
    option = f"hydra.launcher.gpus={gpus}"
    if gpus == "all":
        indices = list(range(len(visible)))
    elif isinstance(gpus, int) and not isinstance(gpus, bool) and gpus > 0:
        indices = list(range(gpus))
    elif isinstance(gpus, Sequence) and not isinstance(gpus, str):
        indices = list(gpus)
        if not indices or len(set(indices)) < len(indices) or not all(map(_is_index, indices)):
            raise UserError(f"{option} must be different numbers from 0, as in [0,3].")
    else:
        raise UserError(f"{option} is neither a number, a list nor all.")
    if not visible or max(indices) >= len(visible):
        raise UserError(f"{option}: {why.format(len(visible) or 'none')}.")
    return [visible[index] for index in indices]


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _installed_gpus() -> list[str]:
    # Do not ask torch: a process that has started CUDA cannot be forked.
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    listing = subprocess.run([command, "-L"], capture_output=True, text=True)  # noqa: S603 - fixed
    lines = [line for line in listing.stdout.splitlines() if line.startswith("GPU ")]
    return [str(index) for index in range(len(lines))]
