"""Table 1: a dense and a focused network on each of many random data sets, trained in stacks."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from rich.console import Console

from focusing.checks import check
from focusing.compose import prepare_hydra
from focusing.config import DenseModel
from focusing.errors import UserError
from focusing.results.identity import run_folder
from focusing.results.record import read_record
from focusing.sweep.table1.records import Pair
from focusing.sweep.table1.stackable import check_stackable
from focusing.sweep.table1.summary import Comparison, summary
from focusing.sweep.table1.trials import Trial, draw, options_given
from focusing.sweep.table1.workers import train_groups
from focusing.training.session import build_trainer

MOST_VALUES = {"cpu": 2**17, "cuda": 2**24}
"""Weights or activations of a stack: more than the CPU's cache holds would slow it down."""
MOST_TRIALS = 64
PATIENCE = 1.0
"""Seconds between two looks at trials that another process runs."""


def run_stacked(cfg: DictConfig) -> float | None:
    """Run the trials of a config, those of equal shapes together, and print what came out.

    Finished runs are not run again, failed ones only with ``sweep.retry_failed=true``. A kill
    loses the groups that are being trained.

    Args:
        cfg: as composed from conf/train.yaml with ``experiment=table1``.

    Returns:
        The mean score of the focused networks minus that of the dense ones.
    """
    prepare_hydra()
    config = check(cfg)
    check_stackable(config)
    device = build_trainer(config["trainer"], Path()).strategy.root_device
    trials = [
        draw(config["seed"], index, config["variant"]) for index in range(config["sweep"]["trials"])
    ]
    given = options_given()
    pairs = [pair_of(config, trial, given) for trial in trials]
    left = [pair for pair in pairs if config["force"] or not _settled(pair)]
    while left:
        train_groups(list(groups(left, device)), device, len(pairs) - len(left))
        left = [] if config["force"] else [pair for pair in left if not _settled(pair, again=False)]
        if left:
            time.sleep(PATIENCE)
    compared = Comparison(config["protocol"]["name"])
    for trial, pair in zip(trials, pairs, strict=True):
        compared.add(trial, *(read_record(run_folder(each)) for each in pair))
    Console(soft_wrap=True).print(summary(compared))
    if compared.failed:
        raise UserError(
            f"{len(compared.failed)} of {2 * len(pairs)} runs failed, the first is "
            f"{run_folder(compared.failed[0])}; sweep.retry_failed=true runs them again."
        )
    return compared.difference()


def pair_of(config: dict[str, Any], trial: Trial, given: Collection[str] = ()) -> Pair:
    """The configs of a trial's runs.

    Args:
        config: of the sweep, with its focused network.
        trial: what to write into it.
        given: options that the command line sets, and that stay.
    """
    focused = copy.deepcopy(config)
    for name, value in trial.settings().items():
        if name not in given:
            group, _, option = name.partition(".")
            focused[group][option] = value
    dense = copy.deepcopy(focused)
    shared = {each.name for each in fields(DenseModel)}
    dense["model"] = {name: value for name, value in dense["model"].items() if name in shared}
    dense["model"] |= {"_target_": DenseModel._target_, "name": "dense"}
    return Pair(dense, focused)


def groups(pairs: Sequence[Pair], device: torch.device) -> Iterator[list[Pair]]:
    """Trials that train together: of equal shapes, and no more than pay."""
    most = MOST_VALUES.get(device.type, MOST_VALUES["cuda"])
    for (inputs, neurons, _, batch), same in groupby(sorted(pairs, key=_shape), _shape):
        size = most // (2 * neurons * max(inputs, batch))
        members, size = list(same), min(max(1, size), MOST_TRIALS)
        for first in range(0, len(members), size):
            yield members[first : first + size]


def _shape(pair: Pair) -> tuple[int, int, int, int]:
    """Inputs, neurons, samples and batch size."""
    data, [neurons] = pair.focused["data"], pair.focused["model"]["hidden"]
    noise = 0 if data["noise_position"] == "none" else data["noise"]
    inputs, batch = data["informative"] + noise, pair.focused["optim"]["batch_size"]
    return inputs, neurons, data["n_samples"], batch


def _settled(pair: Pair, again: bool = True) -> bool:
    """Whether there is nothing to run for a trial."""
    for config in pair:
        record = read_record(run_folder(config)) or {}
        retry = again and config["sweep"]["retry_failed"]
        if record.get("status") not in (("done",) if retry else ("done", "failed")):
            return False
    return True
