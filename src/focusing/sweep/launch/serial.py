"""A sweep one job after the other in this process: what happens without a launcher."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from hydra.types import HydraContext
from omegaconf import DictConfig

from focusing.sweep.composition import Composer
from focusing.sweep.execution import execute
from focusing.sweep.expansion import is_stack
from focusing.sweep.jobs import Reporting
from focusing.sweep.launch.board import Board
from focusing.sweep.outcome import Job, Outcome


class SerialSweep:
    """Runs the jobs of a sweep in this process.

    Args:
        context: Hydra's.
        config: of the sweep.
        task: what a job does.
    """

    def __init__(self, context: HydraContext, config: DictConfig, task: Reporting) -> None:
        self._context, self._config, self._task = context, config, task
        self._compose = Composer(context, config)

    def run(self, jobs: Iterator[Job], board: Board, done: Callable[[Job, Outcome], None]) -> None:
        """Run all jobs.

        Args:
            jobs: is asked for the next one when the last is over.
            board: shows how it goes.
            done: is called with each job that is over.
        """
        first = next(jobs, None)
        if first is None:
            return
        board.bar = False  # a run has a bar of its own
        board.quiet = board.total == 1 and is_stack(
            self._config, first.overrides
        )  # and a stack a board
        with board:
            for job in chain([first], jobs):
                outcome = execute(self._context, self._compose, self._task, job)
                board.ended(job, outcome)
                done(job, outcome)
                if sum(board.counts.values()) < board.total:  # the end is told once
                    board.tick()
