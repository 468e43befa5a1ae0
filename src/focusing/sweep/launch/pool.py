"""A pool of processes that survives its workers, and whose workers do not survive it."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from focusing.errors import UserError
from focusing.sweep.failures import leave_death
from focusing.sweep.launch.slots import Slot
from focusing.sweep.launch.worker import Began, Ended, Execute, Limits, Pipes, work
from focusing.sweep.outcome import Job, Outcome

GRACE = 60.0
"""Seconds that workers have to save the middle of an epoch when the pool stops."""


class Pool:
    """Runs jobs in slots.

    Workers are forked: they have the whole sweep in memory without anything being pickled. So this
    process must have neither threads nor CUDA.

    Args:
        slots: where jobs run.
        execute: what a worker does with a job.
        limits: when a worker is replaced.
        say: is given every line that workers print.
        pause: while this file exists, workers stand still and no job begins.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        execute: Execute,
        limits: Limits,
        say: Callable[[str], None],
        pause: Path | None = None,
    ) -> None:
        if not hasattr(os, "fork"):
            raise UserError("hydra/launcher=local needs a system with fork, such as Linux.")
        self._execute, self._limits, self._say = execute, limits, say
        self._pause, self.paused = pause, False
        self._free = list(reversed(slots))
        self._workers: list[_Worker] = []
        self._life, self._life_writer = os.pipe()

    @property
    def running(self) -> int:
        """Jobs at work."""
        return sum(each.job is not None for each in self._workers)

    def run(self, jobs: Iterator[Job], tick: Callable[[], None]) -> Iterator[tuple[Job, Outcome]]:
        """Run jobs, and yield each with its outcome when it is over.

        Args:
            jobs: is asked for the next one when a slot is free.
            tick: is called several times per second.
        """
        more = True
        while more or self.running:
            self._obey_pause()
            while more and not self.paused and (self._free or self._idle() is not None):
                job = next(jobs, None)
                more = job is not None
                if job is not None:
                    (self._idle() or self._hire()).begin(job)
            for worker in self._wait(0.25):
                yield from worker.ended()
            tick()

    def _obey_pause(self) -> None:
        """Stop all workers, or let them go on, if the pause file has come or gone."""
        paused = self._pause is not None and self._pause.exists()
        if paused == self.paused:
            return
        self.paused = paused
        self._say(f"Paused, until {self._pause} is removed." if paused else "Going on.")
        for worker in self._workers:
            worker.signal(signal.SIGSTOP if paused else signal.SIGCONT)

    def _idle(self) -> _Worker | None:
        for worker in self._workers:
            if worker.job is None and not worker.leaving:
                return worker
        return None

    def _hire(self) -> _Worker:
        pipes = (self._life, self._life_writer)
        self._workers.append(_Worker(self._free.pop(), pipes, self._execute, self._limits))
        return self._workers[-1]

    def _wait(self, seconds: float) -> list[_Worker]:
        """Hear what workers have to say; gives those with news, and buries the dead."""
        of_interest: dict[Any, _Worker] = {}
        for worker in self._workers:
            of_interest.update(dict.fromkeys(worker.waitable(), worker))
        ready = wait(list(of_interest), seconds)
        heard = list({id(of_interest[each]): of_interest[each] for each in ready}.values())
        for worker in heard:
            worker.listen(self._say)
            if worker.gone:
                self._workers.remove(worker)
                self._free.append(worker.slot)
        return heard

    def close(self) -> None:
        """Stop: idle workers leave, a run saves the middle of its epoch first."""
        for worker in self._workers:
            worker.signal(signal.SIGCONT)  # a paused one could not save anything
            worker.dismiss()
        if self._life_writer >= 0:
            os.close(self._life_writer)
            self._life_writer = -1
        until = time.monotonic() + GRACE
        try:
            while self._workers and time.monotonic() < until:
                self._wait(0.25)
        finally:  # a second Ctrl-C does not wait
            for worker in self._workers:
                worker.kill()
            self._workers.clear()
            if self._life >= 0:
                os.close(self._life)
                self._life = -1


class _Worker:
    """The pool's side of a worker."""

    def __init__(self, slot: Slot, life: tuple[int, int], execute: Execute, limits: Limits) -> None:
        self.slot = slot
        self.job: Job | None = None
        self.gone = False
        self._began: Began | None = None
        self._outcome: Outcome | None = None
        self._exit_code: int | None = None
        self.leaving = False
        fork = mp.get_context("fork")
        ours, theirs = fork.Pipe()
        self._output, output = os.pipe()
        os.set_blocking(self._output, False)
        self._messages: Connection = ours
        self._process = fork.Process(
            target=work, args=(slot, Pipes(theirs, output, *life), execute, limits)
        )
        self._process.start()
        theirs.close()  # the worker's death is to end the pipe
        os.close(output)
        self._half_line = b""

    def begin(self, job: Job) -> None:
        self.job, self._began, self._outcome = job, None, None
        with suppress(OSError):  # it has just died: its end will be noticed
            self._messages.send(job)

    def waitable(self) -> list[Any]:
        return [self._messages, self._output, self._process.sentinel]

    def listen(self, say: Callable[[str], None]) -> None:
        dead = not self._process.is_alive()  # asked first: what it said before is all there
        with suppress(EOFError, OSError):
            while self._messages.poll():
                message = self._messages.recv()
                if isinstance(message, Began):
                    self._began = message
                elif isinstance(message, Ended):
                    self._outcome, self.leaving = message.outcome, message.leaving
        self._print(say)
        if dead:
            self._bury()

    def ended(self) -> Iterator[tuple[Job, Outcome]]:
        """The job and its outcome, if it is over."""
        if self.job is None or (self._outcome is None and not self.gone):
            return
        outcome = self._outcome
        if outcome is None:
            run_dir = self._began.run_dir if self._began else None
            config = self._began.config if self._began else {}
            error = leave_death(run_dir, config, self._exit_code)
            outcome = Outcome("failed", run_dir=str(run_dir) if run_dir else None, error=error)
        job, self.job = self.job, None
        yield job, outcome

    def dismiss(self) -> None:
        with suppress(OSError):
            self._messages.send(None)

    def signal(self, number: int) -> None:
        if self._process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()
        self._bury()

    def _print(self, say: Callable[[str], None]) -> None:
        text = self._half_line
        with suppress(BlockingIOError, OSError):
            while part := os.read(self._output, 65536):
                text += part
        *lines, self._half_line = text.split(b"\n")
        for line in lines:
            say(line.decode(errors="replace"))

    def _bury(self) -> None:
        self._process.join()
        self._exit_code = self._process.exitcode
        self._process.close()
        self._messages.close()
        os.close(self._output)
        self.gone = True
