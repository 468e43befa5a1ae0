"""From runs to cells: blocks of runs that may be compared, and their scores under a protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from focusing.reports.names import data_name
from focusing.reports.tables import Cell, Unit, between, number, text
from focusing.reports.tables.overrides import limits, overrides
from focusing.results.collect import Run
from focusing.results.frame import (
    data_versions,
    group_by,
    overlap,
    replicate_key,
    settings,
    show_value,
    split_replicates,
    tested_on,
    varying_options,
)
from focusing.results.stats import Spread, spread

PER_MODEL = ("data.pad",)
"""Options of the data that the author chose for the focused network alone."""
SMALLER = ("short", "quick", "smoke")
"""Sizes that are not the paper's: less data or fewer epochs."""
UNSAID = ("optim.drop_last=",)
"""Options of which the paper says nothing: whatever they are, a run is as published."""
FULL, HELD = "all", "without the validation split"


@dataclass(frozen=True)
class Block:
    """Runs on the same data, source, length of training and so on: what may be compared.

    Attributes:
        data: name of the data set.
        source: where the data came from; empty if there are no runs.
        version: 0, or more if the files changed between runs.
        options: what tells the block from others of its data set, as on the command line.
        models: runs by name of the model.
        as_published: its runs are those of the experiment as the paper has it, nothing changed,
            at full size.
    """

    data: str
    source: str
    version: int
    options: tuple[str, ...]
    models: Mapping[str, list[Run]]
    as_published: bool = True

    @property
    def unit(self) -> Unit:
        """How its scores are written."""
        metrics = [run.metric for runs in self.models.values() for run in runs]
        return Unit(metrics[0] if metrics else "mae" if self.data == "boston" else "accuracy")

    @property
    def epochs(self) -> int:
        """Of the longest run."""
        trainers = [
            run.config.get("trainer") or {} for runs in self.models.values() for run in runs
        ]
        return max((int(trainer.get("max_epochs") or 0) for trainer in trainers), default=0)

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Which block stands for its data set: the one as published, else the longest."""
        return not self.as_published, -self.epochs, len(self.options)

    def head(self) -> Cell:
        """The cell that names it."""
        name = data_name(self.data) + (" (MAE)" if self.unit.lower_is_better else "")
        version = f"data version {self.version + 1}" if self.version else ""
        return text(name, self.source, version, *self.options)


@dataclass(frozen=True)
class Scored:
    """Scores of repeats under a protocol, in print units.

    Attributes:
        values: by what makes a pair with those of another model.
        spread: their mean and so on.
        trained_on: all training data, or that without the validation split.
        paired: each repeat has test data of its own, the same for all models.
        overlap: test samples for each training sample, if repeats are random splits.
        squared: mean squared errors at the same epochs, where scores are absolute ones.
    """

    values: Mapping[Any, float]
    spread: Spread
    trained_on: str
    paired: bool = False
    overlap: float | None = None
    squared: Spread | None = None

    @property
    def mark(self) -> str:
        """Of scores that a run of another protocol gave."""
        return "" if self.trained_on == FULL else "†"


def blocks(runs: Sequence[Run]) -> list[Block]:
    """Divide runs of an experiment, of one size and variant, so that like stands with like."""
    versions = data_versions(runs)
    found = []
    parts = group_by(runs, lambda run: (run.data, run.source, versions[run]))
    for (data, source, version), part in parts.items():
        labels = _labels(part)
        for options, alike in group_by(part, labels.__getitem__).items():
            for mark, same in split_replicates(alike):
                models = group_by(same, lambda run: run.model)
                named = (*options, mark) if mark else options
                changed = [each for each in named if not each.startswith(UNSAID)]
                plain = source != "fake" and not changed and same[0].size not in SMALLER
                found.append(Block(data, source, version, named, models, plain))
    return found


def _labels(runs: Sequence[Run]) -> dict[Run, tuple[str, ...]]:
    """What runs changed of their experiment; if that is not known, what tells them apart."""
    changed = {run: overrides(run) for run in runs}
    foreign = [run for run in runs if changed[run] is None]
    flat = {run: settings(run) for run in foreign}
    shared = [{k: v for k, v in each.items() if k not in PER_MODEL} for each in flat.values()]
    keys = varying_options(shared, prefix="data.") + varying_options(shared, prefix="trainer.")
    keys += varying_options(list(flat.values()), known=["model.name", *keys])
    own = {run: dict.fromkeys((*label(flat[run], keys), *limits(run))) for run in foreign}
    return {run: tuple(own[run]) if run in own else changed[run] or () for run in runs}


def label(flat: Mapping[str, Any], keys: Iterable[str]) -> tuple[str, ...]:
    """Some options as they are typed; those that a model does not have are left out."""
    return tuple(f"{key}={show_value(flat[key])}" for key in keys if key in flat)


def scored(runs: Sequence[Run], protocol: str) -> Scored | None:
    """Scores under a protocol, each repeat once; None if there are none.

    Runs that train on all the training data come first; if there are none, those that kept a
    validation split have these scores, too.
    """
    having = [run for run in runs if protocol in run.scores]
    full = [run for run in having if not run.holdout]
    chosen = full if full and protocol != "holdout" else [run for run in having if run.holdout]
    if not chosen:
        return None
    unit = Unit(chosen[0].metric)
    values = {replicate_key(run): unit.factor * run.scores[protocol] for run in chosen}
    found = spread(list(values.values()), lower_is_better=unit.lower_is_better)
    return Scored(
        values,
        replace(found, interval=unit.possible(found.interval)),
        HELD if protocol != "holdout" and chosen[0].holdout else FULL,
        len(set(map(tested_on, chosen))) > 1,
        overlap(chosen),
        _squared(chosen, protocol) if unit.lower_is_better else None,
    )


def _squared(runs: Sequence[Run], protocol: str) -> Spread | None:
    values = [errors[protocol] for run in runs if protocol in (errors := squared_errors(run))]
    return spread(values, lower_is_better=True) if len(values) == len(runs) else None


@lru_cache(maxsize=4096)  # tables, figures and the page ask, and each time the record is read
def squared_errors(run: Run) -> Mapping[str, float]:
    """Mean squared test error at the epoch of each score, by protocol; empty if not recorded."""
    series = run.series().get("test/mse") or []
    return {
        name: series[epoch]
        for name, epoch in run.epochs.items()
        if epoch < len(series) and series[epoch] is not None
    }


def score_cell(found: Scored, *more: str, bold: bool = False) -> Cell:
    """Mean, deviation, interval and number."""
    spread = found.spread
    mean = f"{_mean(spread)}{found.mark}"
    squared = "" if found.squared is None else f"MSE {_mean(found.squared)}"
    counted = ", ".join([f"n={spread.n}", *more])
    return text(mean, between(spread.interval), squared, counted, bold=bold)


def _mean(spread: Spread) -> str:
    return number(spread.mean) + ("" if spread.std is None else f" ± {number(spread.std)}")


def score_record(found: Scored) -> dict[str, Any]:
    """The same for a CSV file."""
    spread, interval = found.spread, found.spread.interval
    return {
        "trained_on": found.trained_on,
        "n": spread.n,
        "mean": spread.mean,
        "std_ddof1": spread.std,
        "best": spread.best,
        "low": interval and interval.low,
        "high": interval and interval.high,
        "interval": interval and interval.method,
    } | (
        {"mse_mean": found.squared.mean, "mse_std_ddof1": found.squared.std}
        if found.squared
        else {}
    )


def command(
    experiment: str, size: str, variant: str, options: Iterable[str], protocol: str = "paper"
) -> str:
    """What to type to fill cells of an experiment."""
    defaults = {"size": "paper", "variant": "paper", "protocol": "paper"}
    chosen = {"size": size, "variant": variant, "protocol": protocol}
    groups = [f"{k}={v}" for k, v in chosen.items() if v not in (defaults[k], "unstated")]
    typed = [each for each in options if "=" in each or each.startswith("~")]
    quoted = [f"'{each}'" if any(sign in each for sign in "[]() ") else each for each in typed]
    return " ".join(["python train.py", f"experiment={experiment}", *quoted, *groups])
