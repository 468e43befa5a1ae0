"""Scores of replicates, and their comparison: pairs, tests, Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from focusing.reports.names import model_name
from focusing.reports.tables import (
    Cell,
    Unit,
    between,
    interval_record,
    number,
    p_value,
    signed,
    text,
)
from focusing.results.collect import Run
from focusing.results.frame import replicate_key, resampling_ratio, split_key
from focusing.results.stats import MIN_FOR_INTERVAL, Comparison, ScoreSummary, summarize

ALL_DATA, WITHOUT_VALIDATION = "all", "without the validation split"
SCORES_NOTE = (
    "Test accuracy in percent (MAE: mean absolute error, less is better, MSE: mean squared error "
    "at the same epochs): mean ± standard deviation (ddof=1), 95 % interval of the mean "
    "(Student's t; bootstrap from 20 runs on), number of runs"
)
"""What the cells of scores hold."""


@dataclass(frozen=True)
class Scored:
    """Scores of replicates under a protocol, in print units.

    Attributes:
        values: by what makes a pair with those of another model.
        spread: their mean and so on.
        trained_on: all training data, or without the validation split.
        paired: every replicate has test data of its own, the same for all models.
        overlap: test samples per training sample, if replicates are random splits.
        squared: mean squared errors at the same epochs, where scores are absolute ones.
    """

    values: Mapping[Any, float]
    spread: ScoreSummary
    trained_on: str
    paired: bool = False
    overlap: float | None = None
    squared: ScoreSummary | None = None

    @property
    def mark(self) -> str:
        """The sign of scores that a run of another protocol gave."""
        return "" if self.trained_on == ALL_DATA else "†"

    def cell(self, *more: str, bold: bool = False) -> Cell:
        """Mean, deviation, interval (or the scores, if they are two) and number of runs."""
        squared = "" if self.squared is None else f"MSE {mean_and_deviation(self.squared)}"
        counted = ", ".join([f"n={self.spread.n}", *more])
        return text(
            f"{mean_and_deviation(self.spread)}{self.mark}",
            between(self.spread.interval) or self.points(),
            squared,
            counted,
            bold=bold,
        )

    def points(self) -> str:
        """The scores where there are too few for an interval; a single one is the mean."""
        few = 1 < len(self.values) < MIN_FOR_INTERVAL
        return ", ".join(number(value) for value in self.values.values()) if few else ""

    def record(self) -> dict[str, Any]:
        """The same for a CSV file."""
        spread, interval = self.spread, self.spread.interval
        record = {
            "trained_on": self.trained_on,
            "n": spread.n,
            "mean": spread.mean,
            "std_ddof1": spread.std,
            "best": spread.best,
            **interval_record(interval),
            "interval": interval and interval.method,
        }
        if self.squared:
            record |= {"mse_mean": self.squared.mean, "mse_std_ddof1": self.squared.std}
        return record


def mean_and_deviation(spread: ScoreSummary) -> str:
    """In print; a single value has no deviation."""
    return number(spread.mean) + ("" if spread.std is None else f" ± {number(spread.std)}")


def scored(runs: Sequence[Run], protocol: str) -> Scored | None:
    """Scores under a protocol, one per replicate; None if there are none.

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
    held = protocol != "holdout" and chosen[0].holdout
    return Scored(
        values,
        unit.spread(list(values.values())),
        WITHOUT_VALIDATION if held else ALL_DATA,
        len(set(map(split_key, chosen))) > 1,
        resampling_ratio(chosen),
        _squared(chosen, protocol) if unit.lower_is_better else None,
    )


def comparison_lines(test: Comparison) -> list[str]:
    """A comparison in a cell."""
    difference = f"{signed(test.difference)} {between(test.interval, sign=True)}".rstrip()
    line = f"− {model_name(test.other)}: {difference}"
    return [line] if test.p_holm is None else [line, f"p={p_value(test.p_holm)}"]


def _squared(runs: Sequence[Run], protocol: str) -> ScoreSummary | None:
    values = [errors[protocol] for run in runs if protocol in (errors := squared_errors(run))]
    return summarize(values, lower_is_better=True) if len(values) == len(runs) else None


@lru_cache(maxsize=4096)  # tables, figures and the page ask, and every time the record is read
def squared_errors(run: Run) -> Mapping[str, float]:
    """Mean squared test error at the epoch of the score, by protocol; empty if not recorded."""
    series = run.series().get("test/mse") or []
    return {
        name: series[epoch]
        for name, epoch in run.epochs.items()
        if epoch < len(series) and series[epoch] is not None
    }
