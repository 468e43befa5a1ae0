"""What the trials of Table 1 will cost on this machine, stacked."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

import torch

from focusing.sweep.cost import kept
from focusing.sweep.table1.records import Pair, train_group
from focusing.sweep.table1.run import groups, pair_of
from focusing.sweep.table1.trials import draw
from focusing.sweep.table1.workers import rough_seconds

TRIED = 3
"""Groups of trials that are really trained: a cheap, a middling and a costly one."""
SHORT, LONGER = 1, 21
"""Epochs, twice: what they have in common is the time beside the steps."""


def stacked_seconds(config: dict[str, Any], *, fresh: bool = False) -> float:
    """Seconds of all trials, one group after the other.

    Args:
        config: of ``experiment=table1``.
        fresh: measure also what an earlier call has measured.
    """
    seed, variant = config["seed"], config["variant"]
    trials = (draw(seed, index, variant) for index in range(config["sweep"]["trials"]))
    pairs = [pair_of(config, trial) for trial in trials]
    everything = sorted(groups(pairs, torch.device("cpu")), key=rough_seconds)
    step = max(1, len(everything) // TRIED)
    tried = everything[step // 2 :: step]
    ratio, rest = kept(["table1", variant, seed], lambda: _really(tried), fresh=fresh)
    return float(ratio * sum(map(rough_seconds, everything)) + rest * len(pairs))


def _really(tried: Sequence[Sequence[Pair]]) -> tuple[float, float]:
    """How much longer epochs take than guessed, and the seconds of a trial beside its epochs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as its workers do
    try:
        _train(tried[:1], SHORT)  # the first is slow
        (guess, few), (longer, more) = (_train(tried, epochs) for epochs in (SHORT, LONGER))
    finally:
        torch.set_num_threads(threads)
    ratio = max(0.0, (more - few) / (longer - guess))
    return ratio, max(0.0, few - ratio * guess) / sum(map(len, tried))


def _train(tried: Sequence[Sequence[Pair]], epochs: int) -> tuple[float, float]:
    """Seconds that groups were guessed to take, and that they took."""
    with TemporaryDirectory() as folder:
        short = [
            [Pair(*(_short(each, epochs, folder) for each in pair)) for pair in group]
            for group in tried
        ]
        began = time.perf_counter()
        for group in short:
            train_group(group, torch.device("cpu"))
        return sum(map(rough_seconds, short)), time.perf_counter() - began


def _short(config: dict[str, Any], epochs: int, folder: str) -> dict[str, Any]:
    short = copy.deepcopy(config)
    short["trainer"]["max_epochs"] = epochs
    short["paths"]["output_dir"] = folder
    return short
