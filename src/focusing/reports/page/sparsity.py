"""How many connections can go, from the pruning curves of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from focusing.reports.names import data_name, edition
from focusing.reports.tables import Unit
from focusing.reports.tables.run_blocks import blocks
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by
from focusing.results.stats import Spread, spread

LOSS = 0.01
"""Accuracy that may be lost: a point."""
RULES = {"curve": "by focus", "magnitude": "by magnitude"}


@dataclass(frozen=True)
class Kept:
    """Share of connections, in percent, that can go while the test accuracy stays.

    Attributes:
        label: experiment, data set, source, options.
        data: name of the data set.
        model: the model.
        size: of the experiment.
        rule: which connections go first.
        gone: mean and so on over runs.
    """

    label: tuple[str, ...]
    data: str
    model: str
    size: str
    rule: str
    gone: Spread

    @property
    def unit(self) -> Unit:
        """Percent."""
        return Unit("accuracy")


def kept(collection: Collection) -> list[Kept]:
    """A row for each setting, model and rule of pruning."""
    having = [run for run in collection.runs if run.measured.get("pruning")]
    groups = group_by(having, lambda run: (run.experiment, run.size, run.variant))
    rows = []
    for key in sorted(groups, key=lambda key: (key[0] != "sparsity", key[0], *edition(*key[1:]))):
        for block in blocks(groups[key]):
            label = (data_name(block.data), block.source, *block.options)
            for model, runs in block.models.items():
                for rule, words in RULES.items():
                    found = spared(runs, rule)
                    if found:
                        gone = spread([100 * each for each in found])
                        rows.append(Kept(label, block.data, model, key[1], words, gone))
    return rows


def spared(runs: Sequence[Run], rule: str) -> list[float]:
    """Largest share of each run before its accuracy has fallen by more than ``LOSS``."""
    curves = [run.measured["pruning"].get(rule) for run in runs if run.metric == "accuracy"]
    return [share for curve in curves if curve and (share := _spared(curve)) is not None]


def _spared(curve: Sequence[Mapping[str, Any]]) -> float | None:
    points = sorted(curve, key=lambda point: point["sparsity"])
    if points[0]["sparsity"] > 0:
        return None  # what was there before is not known
    share = 0.0
    for point in points:
        if point["acc"] < points[0]["acc"] - LOSS:
            break
        share = float(point["sparsity"])
    return share
