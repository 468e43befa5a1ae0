"""A sweep on this machine: the work behind ``hydra/launcher=local``."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from hydra.core.utils import run_job, setup_globals
from hydra.types import HydraContext
from omegaconf import DictConfig, open_dict

from focusing.sweep.jobs import Reporting
from focusing.sweep.launch.board import Board
from focusing.sweep.launch.pool import Pool
from focusing.sweep.launch.slots import make_slots
from focusing.sweep.launch.worker import Announce, Limits
from focusing.sweep.outcome import Job, Outcome, outcome_of, sentence


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
        self._context, self._config, self._task = context, config, task
        self.slots = make_slots(workers, gpus, per_gpu, threads)
        task.threads = self.slots[0].threads
        self._limits = Limits(jobs_per_worker, growth_mb)

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
        Path(str(self._config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)

        def tick() -> None:
            board.running = pool.running
            board.tick()

        self._preload()
        pool = Pool(self.slots, self._execute, self._limits, board.say)
        with board:
            try:
                for job, outcome in pool.run(chain([first], jobs), tick):
                    board.ended(job, outcome)
                    done(job, outcome)
            finally:
                pool.close()

    def _preload(self) -> None:
        """Import torch once, for workers to inherit: it takes seconds.

        Not with GPUs, as CUDA survives no fork; and with one thread, as no other would either.
        """
        if not self.slots[0].gpu:
            replace(self.slots[0], threads=1).occupy()
            import focusing.callbacks
            import focusing.models
            import focusing.training.session  # noqa: F401

            gc.freeze()  # what was imported stays: workers need not look through it, nor copy it

    def _execute(self, job: Job, announce: Announce) -> Outcome:
        """What a worker does with a job."""
        self._task.announce = announce
        setup_globals()
        try:
            config = compose_job(self._context, self._config, job)
        except Exception as error:
            return Outcome("failed", error=sentence(error))
        returned = run_job(
            hydra_context=self._context,
            task_function=self._task,
            config=config,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )
        return outcome_of(returned)


def compose_job(context: HydraContext, config: DictConfig, job: Job) -> Any:
    """The config of a job."""
    composed = context.config_loader.load_sweep_config(config, list(job.overrides))
    with open_dict(composed):
        composed.hydra.job.id = composed.hydra.job.num = job.index
    return composed
