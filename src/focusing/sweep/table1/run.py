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
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig
from rich.console import Console

from focusing.compose import check, prepare_hydra
from focusing.config import group_schemas
from focusing.results.identity import run_folder
from focusing.sweep.failures import print_failures
from focusing.sweep.launch.board import Board
from focusing.sweep.outcome import Job, Outcome, RunsFailedError
from focusing.sweep.table1.records import Pair
from focusing.sweep.table1.stackable import check_stackable
from focusing.sweep.table1.state import state_of
from focusing.sweep.table1.summary import Comparison, summary
from focusing.sweep.table1.trials import Trial, draw, options_given
from focusing.sweep.table1.workers import number, tell, train_groups
from focusing.training.trainer import build_trainer

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
    seed, variant, given = config["seed"], config["variant"], options_given(cfg)
    numbers = range(config["sweep"]["trials"])
    trials = [draw(seed, index, variant, given) for index in numbers]
    pairs = [pair_of(config, trial, given) for trial in trials]
    left = [pair for pair in pairs if config["force"] or not _settled(pair)]
    begun, errors = {number(pair) for pair in left}, dict[int, str]()
    console = Console(stderr=True, soft_wrap=True)
    with Board(
        (), console=console, total=len(pairs), options=("sweep.trial",), noun="trials"
    ) as board:
        for pair in pairs:
            if number(pair) not in begun:
                tell(board, pair, earlier=True)
        while left:
            board.tick()
            errors |= train_groups(list(groups(left, device)), device, board)
            left = [each for each in left if number(each) not in errors]
            left = [each for each in left if not (config["force"] or _settled(each, again=False))]
            if left:
                time.sleep(PATIENCE)
    compared = Comparison(config["protocol"]["name"])
    failed: list[tuple[Job, Outcome]] = []
    for trial, pair in zip(trials, pairs, strict=True):
        compared.add(trial, *(state_of(each).record for each in pair))
        failed += _failures(pair, errors.get(trial.index), earlier=trial.index not in begun)
    Console(soft_wrap=True).print(summary(compared))
    if failed:
        text = f"{len(failed)} of {2 * len(pairs)} runs failed"
        if not _in_a_sweep():  # which tells them
            print_failures(failed)
        raise RunsFailedError(text, tuple(failed))
    return compared.difference()


def _failures(pair: Pair, error: str | None, *, earlier: bool) -> list[tuple[Job, Outcome]]:
    """The runs of a trial that failed.

    Args:
        pair: their configs.
        error: why, of a trial that may have no records.
        earlier: they were not tried this time.
    """
    found = []
    for config in pair:
        state, where = state_of(config), str(run_folder(config))
        if state.status == "failed" or (state.status is None and error):
            names = (f"sweep.trial={number(pair)}", f"model={config['model']['name']}")
            outcome = Outcome("failed", earlier, run_dir=where, error=state.error or error)
            found.append((Job(number(pair), names), outcome))
    return found


def _in_a_sweep() -> bool:
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


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
    shared = {option.name for option in fields(group_schemas()["model"]["dense"])}
    dense["model"] = {name: value for name, value in dense["model"].items() if name in shared}
    dense["model"] |= {"_target_": "focusing.models.dense_mlp", "name": "dense"}
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
        retry = again and config["sweep"]["retry_failed"]
        if state_of(config).status not in (("done",) if retry else ("done", "failed")):
            return False
    return True
