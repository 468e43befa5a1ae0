"""A group of trials from its configs to its records: those that single runs would leave."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml

from focusing.callbacks import Throughput
from focusing.config import drops_rest
from focusing.data import DataSet, Split
from focusing.errors import BusyError
from focusing.models import Network
from focusing.results.identity import run_folder
from focusing.results.record import describe_end, describe_start
from focusing.results.store import FinishedError, atomic_write, claim, write_record
from focusing.sweep.table1.fit import Course, fit_stack
from focusing.sweep.table1.stack import Rates, Stack
from focusing.training.checkpoint import chosen_checkpoint, encode
from focusing.training.trainer import build_net, load_data, split_data
from focusing.training.trajectory import Trajectory

CHOOSES = {"paper": "test/acc", "holdout": "val/acc", "last": None}
DTYPES = {"32-true": torch.float32, "64-true": torch.float64}


class Pair(NamedTuple):
    """The runs of a trial: their configs, which differ in the model alone."""

    dense: dict[str, Any]
    focused: dict[str, Any]


@dataclass
class Member:
    """One run of a group: row of its stack.

    Attributes:
        config: plain containers.
        net: its network, trained or not.
        start: the first half of its record.
        path: where the foci have been; empty for a dense network.
        wanted: its record is not there yet.
    """

    config: dict[str, Any]
    net: Network
    start: dict[str, Any]
    path: Trajectory
    wanted: bool


def train_group(pairs: Sequence[Pair], device: torch.device) -> int:
    """Train trials of equal shapes together and leave a record of every run.

    A trial of which another process has a run is left alone, and so are records of finished runs,
    unless ``force=true``.

    Args:
        pairs: the configs of each trial.
        device: where to train.

    Returns:
        The number of trials that were trained.
    """
    with ExitStack() as claims:
        claimed = {index: _claim(claims, pair) for index, pair in enumerate(pairs)}
        free = {index: wanted for index, wanted in claimed.items() if wanted}
        if free:
            torch.set_flush_denormal(True)  # each would take as long as a hundred other numbers
            try:
                _train([pairs[index] for index in free], list(free.values()), device)
            finally:
                torch.set_flush_denormal(False)
    return len(free)


def _claim(claims: ExitStack, pair: Pair) -> list[bool]:
    """Which runs of a trial are to be recorded; none if it is done, or another process's."""
    wanted = []
    with ExitStack() as own:
        for config in pair:
            try:
                own.enter_context(
                    claim(run_folder(config), resume=False, again=bool(config["force"]))
                )
            except FinishedError:
                wanted.append(False)
            except BusyError:
                return []
            else:
                wanted.append(True)
        claims.push(own.pop_all())
    return wanted if any(wanted) else []


def _train(pairs: Sequence[Pair], wanted: Sequence[Sequence[bool]], device: torch.device) -> None:
    began, cpu_began = time.perf_counter(), time.process_time()
    members: list[Member] = []
    splits: list[dict[str, Split]] = []
    for pair, both in zip(pairs, wanted, strict=True):
        data = load_data(pair.dense)
        splits.append(split_data(pair.dense, data))
        members += [_member(*each, data, splits[-1]) for each in zip(pair, both, strict=True)]
    config = members[0].config
    optim, dtype = config["optim"], DTYPES[config["trainer"]["precision"]]
    together = {
        name: Split(
            torch.stack([each[name].inputs for each in splits]).to(device, dtype),
            torch.stack([each[name].targets for each in splits]).to(device),
        )
        for name in splits[0]
    }
    samples = len(splits[0]["train"].targets)
    drop_last = drops_rest(optim["drop_last"], samples, optim["batch_size"], batch_norm=True)
    del splits
    stack = Stack(
        [each.net.to(dtype) for each in members[0::2]],
        [each.net.to(dtype) for each in members[1::2]],
        [Rates(*(each.config["optim"][name] for name in Rates._fields)) for each in members[1::2]],
        optim["momentum"],
        device,
    )
    course = fit_stack(
        stack,
        together.pop("train"),
        together,
        epochs=config["trainer"]["max_epochs"],
        batch_size=optim["batch_size"],
        seed=config["seed"] if optim["shuffle"] else None,
        limit=config["trainer"]["limit_batches"],
        drop_last=drop_last,
        chooses=CHOOSES[config["protocol"]["name"]],
    )
    seconds = (time.perf_counter() - began) / len(members)
    cpu_seconds = (time.process_time() - cpu_began) / len(members)
    for row, member in enumerate(members):
        if member.wanted:
            member.net.load_state_dict(stack.state(row // 2, focused=bool(row % 2)))
            _leave(member, course, row, (seconds, cpu_seconds), stack)


def _member(
    config: dict[str, Any], wanted: bool, data: DataSet, splits: dict[str, Split]
) -> Member:
    net = build_net(config, data)
    path = Trajectory()
    path.record(0, net.focused_layers())
    return Member(config, net, describe_start(config, data, splits, net), path, wanted)


def _leave(
    member: Member, course: Course, row: int, times: tuple[float, float], stack: Stack
) -> None:
    """Write what a single run writes last; its times are those of the clock and of the CPU."""
    seconds, cpu_seconds = times
    run_dir, config = run_folder(member.config), member.config
    series, error = _series(course, row)
    more: dict[str, Any] = {
        "wall_seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "steps_per_second": stack.steps / seconds,
        "peak_memory_bytes": Throughput().peak_memory_bytes,
        "measured": {"stacked": {"trials": stack.trials}},
    }
    layers, options = member.net.focused_layers(), config["callbacks"].get("trajectory")
    if layers and options:
        _retrace(member.path, course, row // 2, options["every"])
        member.path.save(run_dir / "focus.npz", layers)
    if options:
        more["focus"] = member.path.movement(member.start["data"], layers)
    text = yaml.safe_dump(config, sort_keys=False)
    atomic_write(run_dir / "config.yaml", text.encode(), sync=False)  # the record has it too
    state = course.best[row][1] or member.net.state_dict()
    _write_state(run_dir / "checkpoints" / chosen_checkpoint(config), state)
    status = "failed" if error else "done"
    write_record(run_dir, describe_end(member.start, series, status=status, error=error, **more))


def _series(course: Course, row: int) -> tuple[dict[str, list[float]], str | None]:
    """The series of one run until it diverged, if it did, and a sentence about that."""
    own: dict[str, list[float]] = {}
    for name, values in course.series.items():
        if name != "focus/sigma_mean":
            own[name] = [each[row].item() for each in values]
        elif row % 2:
            own[name] = [each[row // 2].item() for each in values]
    for epoch, found in enumerate(zip(*own.values(), strict=True)):
        for name, value in zip(own, found, strict=True):
            if not math.isfinite(value):
                error = f"{name} is {value} after epoch {epoch}: try a smaller optim.lr."
                return {each: own[each][:epoch] for each in own}, error
    return own, None


def _retrace(path: Trajectory, course: Course, trial: int, every: int) -> None:
    """Give a trajectory, which has its start, the rest."""
    last = len(course.foci) - 1
    epochs = sorted({0, *range(every, last, every), last})
    state = path.state_dict()
    [layer] = state["foci"]
    foci = torch.stack([course.foci[epoch][:, trial] for epoch in epochs])
    path.load_state_dict({**state, "epochs": epochs, "foci": {layer: foci}})


def _write_state(path: Path, state: dict[str, torch.Tensor]) -> None:
    """Leave the weights where evaluation and export look for them."""
    prefixed = {f"net.{name}": value for name, value in state.items()}
    atomic_write(path, encode({"state_dict": prefixed}), sync=False)
