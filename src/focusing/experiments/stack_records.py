"""Trains groups of trials, and writes the same records as single runs do."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import torch
import yaml

from focusing.callbacks import Throughput
from focusing.callbacks.focus_trajectory import Trajectory
from focusing.clock import running_seconds
from focusing.data import DataSet, Split
from focusing.errors import BusyError, UserError
from focusing.experiments.stack import History, Stack, fit_stack, trial_bytes
from focusing.models import Network
from focusing.results.collect import find_published
from focusing.results.identity import run_folder
from focusing.results.record import finish_record, start_record
from focusing.results.store import (
    FinishedError,
    atomic_write,
    claim,
    finished_record,
    load_record,
    write_record,
)
from focusing.sweep.jobs import describe_error, record_failure
from focusing.training.checkpoint import chosen_checkpoint, encode
from focusing.training.metrics import detailed_metrics
from focusing.training.trainer import build_net, load_data, split_data
from focusing.validation import format_bytes

DTYPES = {"32-true": torch.float32, "64-true": torch.float64}
MAX_VALUES = {"cpu": 2**17, "cuda": 2**24}
"""Most weights or activations of a stack; on a CPU, more would not fit into the cache."""
MAX_TRIALS = 64
"""Most trials of a stack."""


class Pair(NamedTuple):
    """The configs of the two runs of a trial, which differ only in the model."""

    dense: dict[str, Any]
    focused: dict[str, Any]

    @property
    def trial(self) -> int:
        """The number of the trial."""
        return int(self.focused["sweep"]["trial"])


Group = Sequence[Pair]


def group_trials(pairs: Sequence[Pair], device: torch.device) -> Iterator[list[Pair]]:
    """Group trials of equal shapes to train together, as many as pay off and fit into memory."""
    max_values = MAX_VALUES.get(device.type, MAX_VALUES["cuda"])
    for (inputs, neurons, samples, batch), same in groupby(sorted(pairs, key=_shape), _shape):
        members = list(same)
        classes = max(pair.focused["data"]["classes"] for pair in members)
        itemsize = DTYPES[members[0].focused["trainer"]["precision"]].itemsize
        needed = trial_bytes(inputs, neurons, classes, samples, batch, itemsize)
        budget = _budget(members[0].focused, device)
        if needed > budget:
            raise UserError(
                f"Trial {members[0].trial} takes {format_bytes(needed)} of {device}: "
                f"sweep.stack_mb must be at least {math.ceil(needed / 2**20)}."
            )
        size = min(max(1, max_values // (2 * neurons * max(inputs, batch))), MAX_TRIALS)
        size = int(min(size, budget // needed))
        for first in range(0, len(members), size):
            yield members[first : first + size]


def _budget(config: Mapping[str, Any], device: torch.device) -> float:
    """Return how many bytes a stack may take on its device."""
    if config["sweep"]["stack_mb"] is not None:
        return float(config["sweep"]["stack_mb"] * 2**20)
    if device.type == "cuda" and torch.cuda.is_available():
        return torch.cuda.mem_get_info(device)[0] / 2
    return math.inf  # a cluster job checks on its own machine


def _shape(pair: Pair) -> tuple[int, int, int, int]:
    """Return inputs, neurons, samples and batch size."""
    data, [neurons] = pair.focused["data"], pair.focused["model"]["hidden"]
    noise = 0 if data["noise_position"] == "none" else data["noise"]
    inputs, batch = data["informative"] + noise, pair.focused["optim"]["batch_size"]
    return inputs, neurons, data["n_samples"], batch


def estimate_seconds(group: Group) -> float:
    """Guess the training time of a group, so that the longest can start first."""
    inputs, neurons, samples, batch = _shape(group[0])
    weights, steps = 2 * neurons * inputs, 0.7 * samples / batch + 1
    products, activations = weights * samples * 3.4, 2 * neurons * samples
    work = products / 8e10 + (steps * weights + activations) * 4e-9
    epochs = group[0].focused["trainer"]["max_epochs"]
    return float(epochs * (steps * 1.5e-4 + len(group) * work))


def find_record(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a run, from its folder or the archive; empty if there is none.

    A record of another version counts as a failure.
    """
    try:
        record = load_record(run_folder(config))
    except UserError as error:
        return {"status": "failed", "error": f"{error} Delete it to run this again."}
    if record is None:
        archived = find_published(config)
        return archived.record() if archived else {}
    return record


@dataclass
class _Run:
    """One run of a group, which is one row of its stack."""

    config: dict[str, Any]
    net: Network
    start: dict[str, Any]  # the part of its record that is known before training
    trajectory: Trajectory  # of the foci; empty for a dense network


def train_or_record_failures(group: Sequence[Pair], device: torch.device) -> dict[int, str]:
    """Train a group, or if that fails its trials one by one; returns trial -> error."""
    try:
        train_group(group, device)
    except Exception as error:
        if len(group) > 1:
            errors = (train_or_record_failures([pair], device) for pair in group)
            return {trial: text for failed in errors for trial, text in failed.items()}
        [pair], text = group, describe_error(error)
        trace = None if isinstance(error, UserError) else traceback.format_exc()
        record_trial_failure(pair, text, trace)
        return {pair.trial: text}
    return {}


def record_trial_failure(pair: Pair, error: str, trace: str | None = None) -> None:
    """Record that a trial failed, except for runs that have a record."""
    for config in pair:
        if not find_record(config):
            record_failure(run_folder(config), config, error, trace)


def train_group(pairs: Sequence[Pair], device: torch.device) -> int:
    """Train trials of equal shapes together, and write a record of every run.

    Trials that another process runs are skipped, and finished runs keep their records unless
    ``force=true``. Returns the number of trials that were trained.
    """
    claimed: list[Pair] = []
    with ExitStack() as claims:
        for pair in pairs:
            with suppress(BusyError):
                if _claim(claims, pair):
                    claimed.append(pair)
        if claimed:
            torch.set_flush_denormal(True)  # a denormal costs as much as a hundred other numbers
            try:
                _train(claimed, device)
            finally:
                torch.set_flush_denormal(False)
    return len(claimed)


def _claim(claims: ExitStack, pair: Pair) -> bool:
    """Claim the runs of a trial that need a record; returns whether there are any."""
    needed = 0
    with ExitStack() as own:
        for config in pair:
            with suppress(FinishedError):
                again = bool(config["force"])
                own.enter_context(claim(run_folder(config), resume=False, again=again))
                needed += 1
        claims.push(own.pop_all())
    return needed > 0


def _train(pairs: Sequence[Pair], device: torch.device) -> None:
    began, cpu_began = running_seconds(), time.process_time()
    runs: list[_Run] = []
    splits: list[dict[str, Split]] = []
    for pair in pairs:
        data = load_data(pair.dense)
        splits.append(split_data(pair.dense, data))
        runs += [_prepare(config, data, splits[-1]) for config in pair]
    dtype = DTYPES[runs[0].config["trainer"]["precision"]]
    stacked = {
        name: Split(
            torch.stack([trial[name].inputs for trial in splits]).to(device, dtype),
            torch.stack([trial[name].targets for trial in splits]).to(device),
        )
        for name in splits[0]
    }
    del splits
    stack = Stack(
        [run.net.to(dtype) for run in runs[0::2]],
        [run.net.to(dtype) for run in runs[1::2]],
        [run.config["optim"] for run in runs[1::2]],
        device,
    )
    history = fit_stack(stack, stacked.pop("train"), stacked, runs[0].config)
    seconds = (running_seconds() - began) / len(runs)
    measured = {
        "wall_seconds": seconds,
        "cpu_seconds": (time.process_time() - cpu_began) / len(runs),
        "steps_per_second": stack.steps / seconds,
        "measured": {"stacked": {"trials": stack.trials}},
    }
    for row, run in enumerate(runs):
        if not finished_record(run_folder(run.config)):
            run.net.load_state_dict(stack.state(row))
            _write_run(run, history, row, measured, stacked["test"].targets[row // 2].cpu())


def _prepare(config: dict[str, Any], data: DataSet, splits: dict[str, Split]) -> _Run:
    net = build_net(config, data)
    trajectory = Trajectory()
    trajectory.record(0, net.focused_layers())
    return _Run(config, net, start_record(config, data, splits, net), trajectory)


def _write_run(
    run: _Run, history: History, row: int, measured: Mapping[str, Any], targets: torch.Tensor
) -> None:
    """Write what a single run writes at its end; ``targets`` are those of the test split."""
    run_dir, config = run_folder(run.config), run.config
    series, error = _series(history, row)
    more = {**measured, "peak_memory_bytes": Throughput().peak_memory_bytes}
    if history.test_outputs is not None and not error:
        classes = len(run.net.get_parameter("output.bias"))
        more["test_metrics"] = detailed_metrics(
            [history.test_outputs[row, :classes].t()], [targets]
        )
    layers, options = run.net.focused_layers(), config["callbacks"].get("trajectory")
    if layers and options:
        _fill_trajectory(run.trajectory, history, row // 2, options["every"])
        run.trajectory.save(run_dir / "focus.npz", layers)
    if options:
        more["focus"] = run.trajectory.movement(run.start["data"], layers)
    text = yaml.safe_dump(config, sort_keys=False)
    atomic_write(run_dir / "config.yaml", text.encode(), sync=False)  # the record has it too
    state = history.best[row][1] or run.net.state_dict()
    weights = {"state_dict": {f"net.{name}": value for name, value in state.items()}}
    atomic_write(run_dir / "checkpoints" / chosen_checkpoint(config), encode(weights), sync=False)
    status = "failed" if error else "done"
    write_record(run_dir, finish_record(run.start, series, status=status, error=error, **more))


def _series(history: History, row: int) -> tuple[dict[str, list[float]], str | None]:
    """Return the series of a run, up to the epoch where it diverged, and an error if it did."""
    series: dict[str, list[float]] = {}
    for name, values in history.series.items():
        if name != "focus/sigma_mean":
            series[name] = [epoch[row].item() for epoch in values]
        elif row % 2:
            series[name] = [epoch[row // 2].item() for epoch in values]
    for epoch, scores in enumerate(zip(*series.values(), strict=True)):
        for name, value in zip(series, scores, strict=True):
            if not math.isfinite(value):
                error = f"{name} is {value} after epoch {epoch}: try a smaller optim.lr."
                return {name: values[:epoch] for name, values in series.items()}, error
    return series, None


def _fill_trajectory(path: Trajectory, history: History, trial: int, every: int) -> None:
    """Add all later epochs to a trajectory that holds the start."""
    last = len(history.foci) - 1
    epochs = sorted({0, *range(every, last, every), last})
    state = path.state_dict()
    [layer] = state["foci"]
    foci = torch.stack([history.foci[epoch][:, trial] for epoch in epochs])
    path.load_state_dict({**state, "epochs": epochs, "foci": {layer: foci}})
