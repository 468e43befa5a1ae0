"""Groups of trials on all cores: a process each, because small steps do not divide."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from focusing.errors import UserError
from focusing.sweep.table1.records import Pair, train_group

Group = Sequence[Pair]

WORTHWHILE = 20.0
"""Seconds of work below which starting processes takes longer than it saves."""
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000"}
"""For the C library: do not give memory back after each step, and get it zeroed for the next."""


def train_groups(groups: Sequence[Group], device: torch.device, done: int) -> None:
    """Train all groups, the longest first; on the CPU in as many processes as torch has threads.

    Args:
        groups: of trials that train together.
        device: where.
        done: number of trials that were done before.
    """
    costs = [rough_seconds(group) for group in groups]
    order = sorted(range(len(groups)), key=lambda index: -costs[index])
    workers = torch.get_num_threads() if device.type == "cpu" else 1
    if sum(costs) < WORTHWHILE or multiprocessing.current_process().daemon:
        workers = 1
    columns = (TextColumn("trials"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        total = done + sum(len(group) for group in groups)
        task = progress.add_task("trials", total=total, completed=done)
        for count in _run([groups[index] for index in order], device, min(workers, len(groups))):
            progress.advance(task, count)


def _run(groups: Sequence[Group], device: torch.device, workers: int) -> Iterator[int]:
    """Yields the number of trials of each group that is done."""
    if workers < 2:
        for group in groups:
            train_group(group, device)
            yield len(group)
        return
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    with (
        _environment(OMP_NUM_THREADS="1", **KEEP_MEMORY),
        ProcessPoolExecutor(workers, mp_context=context, initializer=_begin) as pool,
    ):
        futures = {pool.submit(train_group, group, device): len(group) for group in groups}
        try:
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        except BrokenProcessPool:
            raise UserError(
                "A process of the stack died; is there enough memory? The same command goes on."
            ) from None
        except BaseException:  # also a signal: do not wait for what is running
            for process in multiprocessing.active_children():
                process.kill()
            raise


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
