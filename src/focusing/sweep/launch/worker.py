"""The process of one slot: it runs jobs one after the other until there are no more."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any

from focusing.sweep.launch.slots import Slot
from focusing.sweep.outcome import Job, Outcome

Announce = Callable[[Path, dict[str, Any]], None]
Execute = Callable[[Job, Announce], Outcome]


@dataclass(frozen=True)
class Limits:
    """When a worker makes room for a fresh one.

    Attributes:
        jobs: that it has run.
        growth_mb: of memory since its first job.
    """

    jobs: int
    growth_mb: int


@dataclass(frozen=True)
class Began:
    """A job has found its folder and begins."""

    run_dir: Path
    config: dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """A job is over; ``leaving``: and so is the worker."""

    outcome: Outcome
    leaving: bool


@dataclass(frozen=True)
class Pipes:
    """A worker's ends of what connects it to the pool.

    Attributes:
        messages: jobs in, :class:`Began` and :class:`Ended` out.
        output: where stdout and stderr go.
        life: ends when the pool stops or dies.
        life_writer: the pool's end of it, to be closed: else it would live as long as we do.
    """

    messages: Connection
    output: int
    life: int
    life_writer: int


def work(slot: Slot, pipes: Pipes, execute: Execute, limits: Limits) -> None:
    """Be the worker of a slot."""
    os.close(pipes.life_writer)
    _detach(pipes)
    slot.occupy()
    messages = pipes.messages
    started_with = None
    for count in range(1, limits.jobs + 1):
        if pipes.life in wait([messages, pipes.life]):
            return
        job: Job | None = messages.recv()
        if job is None:
            return
        outcome = execute(job, lambda run_dir, config: messages.send(Began(run_dir, config)))
        _clean_up(slot)
        memory = _memory_mb()
        started_with = memory if started_with is None else started_with
        leaving = count == limits.jobs or memory - started_with > limits.growth_mb
        messages.send(Ended(outcome, leaving))
        if leaving:
            return


def _detach(pipes: Pipes) -> None:
    """Be stopped by the pool alone, and speak through it."""
    # Ctrl-C, kill and a closed terminal may reach the whole process group. The pool passes them on,
    # once: a second signal would not let a run save its middle.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))
    signal.signal(signal.SIGUSR1, _terminate)
    main = threading.get_ident()

    def stop_with_the_pool() -> None:
        os.read(pipes.life, 1)
        signal.pthread_kill(main, signal.SIGUSR1)  # wakes it if it sleeps

    threading.Thread(target=stop_with_the_pool, daemon=True).start()
    for descriptor in (1, 2):
        os.dup2(pipes.output, descriptor)
    os.close(pipes.output)


def _terminate(signum: int, frame: FrameType | None) -> None:
    """Do what the run, or we ourselves, would do at SIGTERM."""
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler):
        handler(signal.SIGTERM, frame)


def _clean_up(slot: Slot) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and slot.gpu and torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # a neighbour on the same GPU may need it


def _memory_mb() -> float:
    """Resident memory of this process; where that is not told, its maximum."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
