"""A pool of processes that survives its workers, and whose workers do not survive it.

The pool knows nothing of Hydra: a caller says what a worker does with a job. It runs the jobs of a
local sweep and the stacks of Table 1, and works as well inside an allocation of a cluster.
"""

from __future__ import annotations

import gc
import math
import multiprocessing as mp
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any

from focusing.errors import UserError
from focusing.sweep.jobs import Job, Outcome, Result

Announce = Callable[[], None]
Execute = Callable[[Job, Announce], Outcome]
"""What a worker does with a job; it announces that the job is not skipped but begins."""

THREAD_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
GRACE_SECONDS = 60.0
"""Time that workers have to save a checkpoint in mid-epoch when the pool stops."""
POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Slot:
    """A place for one job at a time.

    Attributes:
        gpu: the value of CUDA_VISIBLE_DEVICES; empty: none.
        threads: of the processor.
    """

    gpu: str
    threads: int

    def occupy(self) -> None:
        """Limit this process to the slot; call it before torch is imported."""
        os.environ["CUDA_VISIBLE_DEVICES"] = self.gpu
        os.environ.update(dict.fromkeys(THREAD_COUNTS, str(self.threads)))


@dataclass(frozen=True)
class Limits:
    """When a fresh process replaces a worker.

    Attributes:
        jobs: after so many jobs.
        growth_mb: after its memory has grown so much since its first job.
    """

    jobs: int
    growth_mb: int


class Pool:
    """Runs jobs in slots; a context manager, which stops the workers at its end.

    Workers are forked: they have the whole sweep in memory, and nothing has to be pickled. So this
    process must have no CUDA, and no threads that a worker would need.

    Args:
        slots: where jobs run.
        execute: what a worker does with a job.
        limits: when a worker is replaced.
        say: called with every line that workers print.
        pause: while this file exists, workers are stopped and no job begins.
        began: called with every job that a worker announces.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        execute: Execute,
        limits: Limits,
        say: Callable[[str], None],
        pause: Path | None = None,
        began: Callable[[Job], None] = lambda job: None,
    ) -> None:
        if not hasattr(os, "fork"):
            raise UserError("hydra/launcher=local needs a system with fork, such as Linux.")
        self._execute, self._limits, self._say, self._notify = execute, limits, say, began
        self._pause, self.paused = pause, False
        self._free = list(reversed(slots))
        self._workers: list[_Worker] = []
        self._life = os.pipe()  # its write end closes with this process, however that ends

    @property
    def running(self) -> int:
        """Number of jobs that are running."""
        return sum(worker.job is not None for worker in self._workers)

    def run(self, jobs: Iterator[Job], tick: Callable[[], None]) -> Iterator[Result]:
        """Run jobs, and yield each with its outcome when it is over.

        Args:
            jobs: asked for the next job when a slot is free.
            tick: called several times per second.
        """
        more = True
        while more or self.running:
            self._obey_pause()
            while more and not self.paused and (self._free or self._idle() is not None):
                job = next(jobs, None)
                more = job is not None
                if job is not None:
                    (self._idle() or self._start_worker()).begin(job)
            for worker in self._poll():
                yield from worker.ended()
            tick()

    def _obey_pause(self) -> None:
        """Stop or continue all workers when the pause file has come or gone."""
        paused = self._pause is not None and self._pause.exists()
        if paused == self.paused:
            return
        self.paused = paused
        self._say(f"Paused, until {self._pause} is removed." if paused else "Going on.")
        for worker in self._workers:
            worker.signal(signal.SIGSTOP if paused else signal.SIGCONT)

    def _idle(self) -> _Worker | None:
        idle = (w for w in self._workers if w.job is None and not w.leaving)
        return next(idle, None)

    def _start_worker(self) -> _Worker:
        worker = _Worker(self._free.pop(), self._life, self._execute, self._limits)
        self._workers.append(worker)
        return worker

    def _poll(self) -> list[_Worker]:
        """Wait a moment for messages; returns the workers with news and removes dead ones."""
        sources: dict[Any, _Worker] = {}
        for worker in self._workers:
            sources.update(dict.fromkeys(worker.sources(), worker))
        ready = wait(list(sources), POLL_SECONDS)
        heard = list(dict.fromkeys(sources[source] for source in ready))
        for worker in heard:
            if worker.receive(self._say) and worker.job is not None:
                self._notify(worker.job)
            if worker.gone:
                self._workers.remove(worker)
                self._free.append(worker.slot)
        return heard

    def __enter__(self) -> Pool:
        """Workers are started when there are jobs."""
        return self

    def __exit__(self, *error: object) -> None:
        """Stop: idle workers leave at once, a run saves a checkpoint first."""
        for worker in self._workers:
            worker.signal(signal.SIGCONT)  # a stopped process could not save anything
            worker.dismiss()
        read_end, write_end = self._life
        os.close(write_end)
        deadline = time.monotonic() + GRACE_SECONDS
        try:
            while self._workers and time.monotonic() < deadline:
                self._poll()
        finally:  # a second Ctrl-C does not wait
            for worker in self._workers:
                worker.kill()
            self._workers.clear()
            os.close(read_end)


class _Worker:
    """The pool's side of a worker."""

    def __init__(self, slot: Slot, life: tuple[int, int], execute: Execute, limits: Limits) -> None:
        self.slot = slot
        self.job: Job | None = None
        self.gone = self.leaving = False
        self._limits, self._jobs, self._initial_mb = limits, 0, math.inf
        self._outcome: Outcome | None = None
        self._exit_code: int | None = None
        self._unfinished_line = b""
        fork = mp.get_context("fork")
        self._messages, theirs = fork.Pipe()
        self._output, output = os.pipe()
        os.set_blocking(self._output, False)
        arguments = (slot, theirs, output, life, execute)
        self._process = fork.Process(target=_work, args=arguments)
        self._process.start()
        theirs.close()  # or the worker's death would not end the pipe
        os.close(output)

    def begin(self, job: Job) -> None:
        self.job, self._outcome = job, None
        with suppress(OSError):  # it has just died: the next poll notices
            self._messages.send(job)

    def sources(self) -> list[Any]:
        """What tells that there is news."""
        return [self._messages, self._output, self._process.sentinel]

    def receive(self, say: Callable[[str], None]) -> bool:
        """Read what the worker has to say; returns whether its job has begun since."""
        began = False
        dead = not self._process.is_alive()  # asked first, so that no last message is lost
        with suppress(EOFError, OSError):
            while self._messages.poll():
                message = self._messages.recv()
                if message is None:
                    began = True
                else:
                    self._outcome, memory_mb = message
                    self._dismiss_if_worn(memory_mb)
        self._print(say)
        if dead:
            self._join()
        return began

    def _dismiss_if_worn(self, memory_mb: float) -> None:
        self._jobs += 1
        self._initial_mb = min(self._initial_mb, memory_mb)
        if self._jobs == self._limits.jobs or memory_mb - self._initial_mb > self._limits.growth_mb:
            self.dismiss()

    def ended(self) -> Iterator[Result]:
        """The job and its outcome, if it is over."""
        if self.job is None or (self._outcome is None and not self.gone):
            return
        job, self.job = self.job, None
        yield job, self._outcome or Outcome("failed", error=self._cause_of_death(), crashed=True)

    def _cause_of_death(self) -> str:
        if self._exit_code is None or self._exit_code >= 0:
            return f"The process of this job ended with exit code {self._exit_code}."
        name = signal.Signals(-self._exit_code).name
        hint = "; is there enough memory?" if name == "SIGKILL" else "."
        return f"The process of this job was ended by {name}{hint}"

    def dismiss(self) -> None:
        """Tell the worker to leave when it has no job."""
        self.leaving = True
        with suppress(OSError):
            self._messages.send(None)

    def signal(self, number: int) -> None:
        if self._process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()
        self._join()

    def _print(self, say: Callable[[str], None]) -> None:
        text = self._unfinished_line
        with suppress(BlockingIOError, OSError):
            while chunk := os.read(self._output, 65536):
                text += chunk
        *lines, self._unfinished_line = text.split(b"\n")
        for line in lines:
            say(line.decode(errors="replace"))

    def _join(self) -> None:
        self._process.join()
        self._exit_code = self._process.exitcode
        self._process.close()
        self._messages.close()
        os.close(self._output)
        self.gone = True


def _work(
    slot: Slot, messages: Connection, output: int, pool_life: tuple[int, int], execute: Execute
) -> None:
    """Run jobs one after the other: the process of one slot.

    Args:
        slot: what it may use.
        messages: jobs in; out comes None if a job begins, and its outcome with the memory of this
            process.
        output: where stdout and stderr go.
        pool_life: a pipe that ends when the pool stops or dies.
        execute: what to do with a job.
    """
    life, writer = pool_life
    os.close(writer)  # or the pipe would never end
    _detach(output, life)
    slot.occupy()
    gc.freeze()  # nothing inherited is ever freed: do not look through it, nor copy it
    while life not in wait([messages, life]):
        job: Job | None = messages.recv()
        if job is None:
            return
        outcome = execute(job, lambda: messages.send(None))
        _clean_up(slot)
        messages.send((outcome, _memory_mb()))


def _detach(output: int, life: int) -> None:
    """Let only the pool stop this process, and print through the pool."""
    # Ctrl-C, kill and a closed terminal may reach the whole process group. The pool passes them on,
    # once: a second signal would interrupt a run that saves its checkpoint. SLURM warns with USR2.
    passed_on = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))
    signal.signal(signal.SIGUSR1, _terminate)
    main = threading.get_ident()

    def stop_with_the_pool() -> None:
        os.read(life, 1)
        signal.pthread_kill(main, signal.SIGUSR1)  # also wakes a sleeping process

    threading.Thread(target=stop_with_the_pool, daemon=True).start()
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)


def _terminate(signum: int, frame: FrameType | None) -> None:
    """Do what the run, or the worker between two runs, does on SIGTERM."""
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler):
        handler(signal.SIGTERM, frame)


def _clean_up(slot: Slot) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and slot.gpu and torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # another job on the same GPU may need the memory


def _memory_mb() -> float:
    """Resident memory of this process; its peak where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
