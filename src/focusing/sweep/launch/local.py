"""A sweep on this machine: the work behind ``hydra/launcher=local``."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from hydra.types import HydraContext
from omegaconf import DictConfig

from focusing.errors import UserError
from focusing.sweep.composition import Composer
from focusing.sweep.execution import execute
from focusing.sweep.jobs import Reporting
from focusing.sweep.launch.board import Board
from focusing.sweep.launch.pool import Pool
from focusing.sweep.launch.slots import Slot, make_slots
from focusing.sweep.launch.worker import Announce, Limits
from focusing.sweep.outcome import Job, Outcome


class LocalSweep:
    """Runs the jobs of a sweep in a pool of processes.

    Args:
        context: Hydra's.
        config: of the sweep.
        task: what a job does.
        workers: processes without a GPU; None: one per processor.
        gpus: 0, a number, ``"all"`` or a list of indices.
        per_gpu: jobs that share a GPU.
        threads: of each job; None: an equal share of the processors.
        jobs_per_worker: after so many a process makes room for a fresh one.
        growth_mb: and after so much growth of its memory.
    """

    def __init__(
        self,
        context: HydraContext,
        config: DictConfig,
        task: Reporting,
        *,
        workers: int | None,
        gpus: int | str | Sequence[int],
        per_gpu: int,
        threads: int | None,
        jobs_per_worker: int,
        growth_mb: int,
    ) -> None:
        self._context, self._task = context, task
        self._compose = Composer(context, config)
        for name, number in (("jobs_per_worker", jobs_per_worker), ("growth_mb", growth_mb)):
            if number < 1:
                raise UserError(f"hydra.launcher.{name}={number} must be at least 1.")
        self._slots = partial(make_slots, workers, gpus, per_gpu, threads)
        self._slots()  # finds fault before the sweep begins
        self._limits = Limits(jobs_per_worker, growth_mb)
        self._pause = Path(config.paths.output_dir).expanduser() / ".pause"

    def run(self, jobs: Iterator[Job], board: Board, done: Callable[[Job, Outcome], None]) -> None:
        """Run all jobs.

        Args:
            jobs: is asked for the next one when a slot is free.
            board: shows how it goes.
            done: is called with each job that is over.
        """
        first = next(jobs, None)
        if first is None:
            return

        def tick() -> None:
            board.running = pool.running
            board.tick()

        slots = self._slots(board.total)
        self._task.threads = slots[0].threads
        self._preload(slots[0])
        pool = Pool(slots, self._execute, self._limits, board.say, self._pause)
        with board:
            try:
                for job, outcome in pool.run(chain([first], jobs), tick):
                    board.ended(job, outcome)
                    done(job, outcome)
            finally:
                pool.close()

    @staticmethod
    def _preload(slot: Slot) -> None:
        """Import torch once, for workers to inherit: it takes seconds.

        Not with GPUs, as CUDA survives no fork; and with one thread, as no other would either.
        """
        if not slot.gpu:
            replace(slot, threads=1).occupy()
            import focusing.callbacks
            import focusing.models
            import focusing.training.trainer  # noqa: F401

            gc.freeze()  # what was imported stays: workers need not look through it, nor copy it

    def _execute(self, job: Job, announce: Announce) -> Outcome:
        """What a worker does with a job."""
        self._task.announce = announce
        return execute(self._context, self._compose, self._task, job)
