"""Groups of trials on all cores: a process each, because small steps do not divide."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext

import torch

from focusing.errors import UserError
from focusing.results.identity import run_folder
from focusing.sweep.failures import leave_failure
from focusing.sweep.launch.board import Board
from focusing.sweep.outcome import Job, Outcome, sentence
from focusing.sweep.table1.records import Pair, train_group
from focusing.sweep.table1.state import state_of

Group = Sequence[Pair]
Errors = dict[int, str]
"""By the numbers of trials."""
Over = tuple[Group, Errors]

DIED = "The process of this trial's stack died twice; is there enough memory?"
WORTHWHILE = 20.0
"""Seconds of work below which starting processes takes longer than it saves."""
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000"}
"""For the C library: do not give memory back after each step, and get it zeroed for the next."""


def train_groups(groups: Sequence[Group], device: torch.device, board: Board) -> dict[int, str]:
    """Train all groups, the longest first; on the CPU in as many processes as torch has threads.

    Args:
        groups: of trials that train together.
        device: where.
        board: shows how it goes.

    Returns:
        The errors of trials that could not be trained.
    """
    costs = [rough_seconds(group) for group in groups]
    order = sorted(range(len(groups)), key=lambda index: costs[index])
    workers = torch.get_num_threads() if device.type == "cpu" else 1
    if sum(costs) < WORTHWHILE or multiprocessing.current_process().daemon:
        workers = 1
    waiting = [groups[index] for index in order]
    found: Errors = {}
    for group, errors in _run(waiting, device, min(workers, len(groups))):
        found |= errors
        for pair in group:
            tell(board, pair, errors.get(number(pair)))
        board.tick()
    return found


def number(pair: Pair) -> int:
    """Which trial it is."""
    return int(pair.focused["sweep"]["trial"])


def tell(board: Board, pair: Pair, error: str | None = None, *, earlier: bool = False) -> None:
    """Show what became of a trial, unless another process has it.

    Args:
        board: where.
        pair: its configs.
        error: why it has no records.
        earlier: it was so before this sweep.
    """
    states = [state_of(config) for config in pair]
    if error is None and any(each.status is None for each in states):
        return
    error = error or next((each.error for each in states if each.status == "failed"), None)
    outcome = Outcome("failed" if error else "done", earlier, error=error)
    board.ended(Job(number(pair), (f"sweep.trial={number(pair)}",)), outcome)


def _run(waiting: list[Group], device: torch.device, workers: int) -> Iterator[Over]:
    """Trains the last first; yields each group that is over, whatever became of it."""
    if workers < 2:
        with _one_thread():
            while waiting:
                group = waiting.pop()
                yield group, attempt(group, device)
        return
    with _environment(OMP_NUM_THREADS="1", **KEEP_MEMORY):
        while waiting:
            suspects = yield from _together(waiting, device, workers)
            while suspects:  # one of them may have been the cause: each once more, alone
                for group in (yield from _together(suspects, device, 1)):
                    yield group, _leave(group, DIED)


def _together(
    waiting: list[Group], device: torch.device, workers: int
) -> Generator[Over, None, list[Group]]:
    """Trains groups in processes; returns those that were in training when one of these died."""
    context = _context()
    running: dict[Future[Errors], Group] = {}
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < workers:
                    running[pool.submit(attempt, waiting[-1], device)] = waiting[-1]
                    waiting.pop()
                for future in wait_for(running, return_when=FIRST_COMPLETED).done:
                    errors = future.result()
                    yield running.pop(future), errors
        except BrokenProcessPool:
            return list(running.values())
        except BaseException:  # also a signal: do not wait for what is running
            for process in multiprocessing.active_children():
                process.kill()
            raise
    return []


def _context() -> BaseContext:
    """How workers begin: forked from a process that has imported torch, which takes seconds.

    Not from this one: a torch that has computed something may hang in a fork.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def attempt(group: Group, device: torch.device) -> Errors:
    """Train a group; if that is not possible, its trials one by one, of which some may fail."""
    try:
        train_group(group, device)
    except Exception as error:
        if len(group) > 1:
            return {k: v for pair in group for k, v in attempt([pair], device).items()}
        trace = None if isinstance(error, UserError) else traceback.format_exc()
        return _leave(group, sentence(error), trace)
    return {}


def _leave(group: Group, error: str, trace: str | None = None) -> Errors:
    """Record that trials failed, but for runs that have a record."""
    for pair in group:
        for config in pair:
            if state_of(config).status is None:
                leave_failure(run_folder(config), config, error, trace)
    return {number(pair): error for pair in group}


@contextmanager
def _one_thread() -> Iterator[None]:
    """In this process too: small steps do not divide."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _begin() -> None:
    """Prepare a worker: one thread, and no life without its parent."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends its workers
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101 - for the type checker

    def follow() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Environment variables for processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def rough_seconds(group: Group) -> float:
    """A rough guess at what a group takes, to begin with the longest."""
    config = group[0].focused
    data, [neurons] = config["data"], config["model"]["hidden"]
    weights = 2 * neurons * (data["informative"] + data["noise"])
    steps = 0.7 * data["n_samples"] / config["optim"]["batch_size"] + 1
    products, activations = weights * data["n_samples"] * 3.4, 2 * neurons * data["n_samples"]
    work = products / 8e10 + (steps * weights + activations) * 4e-9
    return float(config["trainer"]["max_epochs"] * (steps * 1.5e-4 + len(group) * work))
