"""A pool of processes that survives the death of its workers; they do not survive the pool.

It runs the jobs of a local sweep, the runs of a cluster job, and the stacks of Table 1.
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

from focusing.clock import share_suspension
from focusing.errors import UserError
from focusing.sweep.jobs import Job, Outcome, Result

Notify = Callable[[], None]
Execute = Callable[[Job, Notify], Outcome]
"""What a worker does with a job; it calls its second argument if the job starts to train."""

THREAD_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
GRACE_SECONDS = 60.0
"""Time that workers have to save a checkpoint when the pool stops."""
POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Slot:
    """A place for one job at a time.

    Attributes:
        gpu: the value of CUDA_VISIBLE_DEVICES; empty for none.
        threads: number of CPU threads.
    """

    gpu: str
    threads: int

    def occupy(self) -> None:
        """Limit this process to the slot; call it before torch is imported."""
        os.environ["CUDA_VISIBLE_DEVICES"] = self.gpu
        os.environ.update(dict.fromkeys(THREAD_COUNTS, str(self.threads)))


class Pool:
    """Runs jobs in slots. A context manager, which stops the workers when it exits.

    Workers are forked, so they share the sweep in memory and nothing has to be pickled. Therefore
    this process must not use CUDA, nor threads that a worker would need.

    Args:
        slots: where jobs run.
        execute: what a worker does with a job.
        print_line: called with every line that workers print.
        jobs_per_worker: a new process replaces a worker after so many jobs.
        growth_mb: or when its memory has grown by more than this since its first job.
        pause_file: while this file exists, workers are suspended and no job starts.
        on_start: called with every job that starts to train.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        execute: Execute,
        print_line: Callable[[str], None],
        jobs_per_worker: int,
        growth_mb: int,
        pause_file: Path | None = None,
        on_start: Callable[[Job], None] = lambda job: None,
    ) -> None:
        if not hasattr(os, "fork"):
            raise UserError("hydra/launcher=local needs a system with fork, such as Linux.")
        self._execute, self._print_line, self._on_start = execute, print_line, on_start
        self._worker_limits = (jobs_per_worker, growth_mb)
        self._pause_file, self.paused = pause_file, False
        self._suspended, self._paused_at = share_suspension(), 0.0
        self._free = list(reversed(slots))
        self._workers: list[_Worker] = []
        self._life = os.pipe()  # its write end closes with this process, however that ends

    @property
    def running(self) -> int:
        """Number of jobs that are running."""
        return sum(worker.job is not None for worker in self._workers)

    def run(self, jobs: Iterator[Job], tick: Callable[[], None]) -> Iterator[Result]:
        """Run jobs, and yield each with its outcome as it ends.

        Args:
            jobs: the next one is taken when a slot is free.
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
        """Suspend or continue all workers when the pause file appears or disappears."""
        paused = self._pause_file is not None and self._pause_file.exists()
        if paused != self.paused:
            text = f"Paused until {self._pause_file} is removed." if paused else "Resumed."
            self._print_line(text)
            self._set_paused(paused)

    def _set_paused(self, paused: bool) -> None:
        self.paused, now = paused, time.perf_counter()
        if paused:
            self._paused_at = now
        else:  # before the workers continue, so that they never see the pause
            self._suspended.value += now - self._paused_at
        for worker in self._workers:
            worker.set_paused(paused)

    def _idle(self) -> _Worker | None:
        idle = (w for w in self._workers if w.job is None and not w.leaving)
        return next(idle, None)

    def _start_worker(self) -> _Worker:
        worker = _Worker(self._free.pop(), self._life, self._execute, *self._worker_limits)
        self._workers.append(worker)
        return worker

    def _poll(self) -> list[_Worker]:
        """Wait briefly for messages; returns the workers that sent some, and removes dead ones."""
        sources = {source: worker for worker in self._workers for source in worker.sources()}
        ready = wait(list(sources), POLL_SECONDS)
        active = list(dict.fromkeys(sources[source] for source in ready))
        for worker in active:
            if worker.receive(self._print_line) and worker.job is not None:
                self._on_start(worker.job)
            if worker.gone:
                self._workers.remove(worker)
                self._free.append(worker.slot)
        return active

    def __enter__(self) -> Pool:
        """Return the pool; workers start with the first jobs."""
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the workers: idle ones leave at once, others save a checkpoint first."""
        if self.paused:  # a suspended process could not save anything
            self._set_paused(False)
        for worker in self._workers:
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

    def __init__(
        self, slot: Slot, life: tuple[int, int], execute: Execute, max_jobs: int, growth_mb: int
    ) -> None:
        self.slot = slot
        self.job: Job | None = None
        self.gone = self.leaving = False
        self._max_jobs, self._growth_mb = max_jobs, growth_mb
        self._jobs, self._initial_mb = 0, math.inf
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
        theirs.close()  # or the pipe would stay open when the worker dies
        os.close(output)

    def begin(self, job: Job) -> None:
        self.job, self._outcome = job, None
        with suppress(OSError):  # it has just died, which the next poll notices
            self._messages.send(job)

    def sources(self) -> list[Any]:
        """Return what to wait for: messages, output, and the end of the process."""
        return [self._messages, self._output, self._process.sentinel]

    def receive(self, print_line: Callable[[str], None]) -> bool:
        """Read messages and output; returns whether the job has started to train."""
        started = False
        dead = not self._process.is_alive()  # checked first, so that no last message is lost
        with suppress(EOFError, OSError):
            while self._messages.poll():
                message = self._messages.recv()
                if message is None:
                    started = True
                else:
                    self._outcome, memory_mb = message
                    self._retire_if_due(memory_mb)
        self._print(print_line)
        if dead:
            self._join()
        return started

    def _retire_if_due(self, memory_mb: float) -> None:
        self._jobs += 1
        self._initial_mb = min(self._initial_mb, memory_mb)
        if self._jobs == self._max_jobs or memory_mb - self._initial_mb > self._growth_mb:
            self.dismiss()

    def ended(self) -> Iterator[Result]:
        """Yield the job and its outcome, if it has ended."""
        if self.job is None or (self._outcome is None and not self.gone):
            return
        job, self.job = self.job, None
        yield job, self._outcome or Outcome("failed", error=self._cause_of_death(), crashed=True)

    def _cause_of_death(self) -> str:
        if self._exit_code is None or self._exit_code >= 0:
            return f"The process of this job ended with exit code {self._exit_code}."
        name = signal.Signals(-self._exit_code).name
        hint = "; is there enough memory?" if name == "SIGKILL" else "."
        return f"The process of this job was killed by {name}{hint}"

    def dismiss(self) -> None:
        """Tell the worker to exit after its job."""
        self.leaving = True
        with suppress(OSError):
            self._messages.send(None)

    def set_paused(self, paused: bool) -> None:
        """Suspend or continue the worker and its own processes, such as those of Table 1."""
        family = [] if self._process.pid is None else [self._process.pid]
        for pid in family:
            _send(pid, signal.SIGSTOP)  # from now on it has no more children
            family += _children(pid)
        if not paused:
            for pid in family:
                _send(pid, signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._join()

    def _print(self, print_line: Callable[[str], None]) -> None:
        text = self._unfinished_line
        with suppress(BlockingIOError, OSError):
            while chunk := os.read(self._output, 65536):
                text += chunk
        *lines, self._unfinished_line = text.split(b"\n")
        for line in lines:
            print_line(line.decode(errors="replace"))

    def _join(self) -> None:
        self._process.join()
        self._exit_code = self._process.exitcode
        self._process.close()
        self._messages.close()
        os.close(self._output)
        self.gone = True


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _children(pid: int) -> list[int]:
    """Child processes of a process; none where the system does not list them."""
    children: list[int] = []
    with suppress(OSError):  # the process has ended
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):  # the thread has ended
                children += map(int, file.read_text().split())
    return children


def _work(
    slot: Slot, messages: Connection, output: int, pool_life: tuple[int, int], execute: Execute
) -> None:
    """Run jobs one after the other; the main function of a worker process.

    Args:
        slot: what it may use.
        messages: receives jobs. Sends None when a job starts to train, and at its end the outcome
            with the memory of this process.
        output: file descriptor for stdout and stderr.
        pool_life: a pipe that closes when the pool stops or dies.
        execute: what to do with a job.
    """
    life, writer = pool_life
    os.close(writer)  # or the pipe would never close
    _detach(output, life)
    slot.occupy()
    gc.freeze()  # inherited objects are never freed: scanning them would only copy their pages
    while life not in wait([messages, life]):
        job: Job | None = messages.recv()
        if job is None:
            return
        outcome = execute(job, lambda: messages.send(None))
        _clean_up(slot)
        messages.send((outcome, _memory_mb()))


def _detach(output: int, life: int) -> None:
    """Let only the pool stop this process, and print through the pool."""
    # Ctrl-C, kill and a closed terminal may signal the whole process group. The pool passes such a
    # signal on once: a second one would interrupt a run that is saving. SLURM warns with USR2.
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
    """Call the current handler of SIGTERM: that of the run, or the worker's between two runs."""
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
    """Return the resident memory of this process, or its peak where only that is known."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
