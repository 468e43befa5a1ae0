"""Scores of replicate runs under one protocol, in print units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from focusing.reports.names import model_name
from focusing.reports.tables import (
    Cell,
    Unit,
    format_interval,
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
"""Table note on the cells of :meth:`ReplicateScores.cell`."""


@dataclass(frozen=True)
class ReplicateScores:
    """Scores of replicate runs under one protocol.

    Attributes:
        values: scores by replicate key, which pairs them with those of another model.
        spread: their statistics.
        trained_on: all training data, or without the validation split.
        paired: replicates have different test data, the same for all models.
        overlap: test samples per training sample, if replicates are random splits.
        squared: mean squared errors at the same epochs, where scores are absolute errors.
    """

    values: Mapping[Any, float]
    spread: ScoreSummary
    trained_on: str
    paired: bool = False
    overlap: float | None = None
    squared: ScoreSummary | None = None

    @property
    def mark(self) -> str:
        """Mark of scores from runs that held out a validation split."""
        return "" if self.trained_on == ALL_DATA else "†"

    def cell(self, *more: str, bold: bool = False) -> Cell:
        """Table cell: mean, deviation, interval (or both scores of two runs), number of runs."""
        squared = "" if self.squared is None else f"MSE {mean_and_deviation(self.squared)}"
        return text(
            f"{mean_and_deviation(self.spread)}{self.mark}",
            format_interval(self.spread.interval) or self.points(),
            squared,
            ", ".join([f"n={self.spread.n}", *more]),
            bold=bold,
        )

    def points(self) -> str:
        """The scores, if there are several but too few for an interval."""
        few = 1 < len(self.values) < MIN_FOR_INTERVAL
        return ", ".join(map(number, self.values.values())) if few else ""

    def record(self) -> dict[str, Any]:
        """CSV columns of the scores."""
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
    """Format ``mean ± deviation``; a single value has no deviation."""
    return number(spread.mean) + ("" if spread.std is None else f" ± {number(spread.std)}")


def replicate_scores(runs: Sequence[Run], protocol: str) -> ReplicateScores | None:
    """Scores under a protocol, one per replicate; None if there are none.

    Except for ``holdout``, runs on all training data are preferred to runs that held out a
    validation split.
    """
    with_score = [run for run in runs if protocol in run.scores]
    full = [run for run in with_score if not run.holdout]
    chosen = full if full and protocol != "holdout" else [run for run in with_score if run.holdout]
    if not chosen:
        return None
    unit = Unit(chosen[0].metric)
    values = {replicate_key(run): unit.factor * run.scores[protocol] for run in chosen}
    reduced = protocol != "holdout" and chosen[0].holdout
    return ReplicateScores(
        values,
        unit.summarize(list(values.values())),
        WITHOUT_VALIDATION if reduced else ALL_DATA,
        len(set(map(split_key, chosen))) > 1,
        resampling_ratio(chosen),
        _squared(chosen, protocol) if unit.lower_is_better else None,
    )


def comparison_lines(test: Comparison) -> list[str]:
    """Lines of a table cell with a comparison."""
    difference = f"{signed(test.difference)} {format_interval(test.interval, sign=True)}".rstrip()
    line = f"− {model_name(test.other)}: {difference}"
    return [line, *p_lines(test)]


def p_lines(test: Comparison | None) -> Iterator[str]:
    """Lines of a table cell with the p-values of a comparison, after Holm's correction."""
    if test and test.p_holm is not None:
        yield f"p={p_value(test.p_holm)}"
    if test and test.p_resampled_holm is not None:
        yield f"resampled {p_value(test.p_resampled_holm)}"


def _squared(runs: Sequence[Run], protocol: str) -> ScoreSummary | None:
    values = [errors[protocol] for run in runs if protocol in (errors := squared_errors(run))]
    return summarize(values, lower_is_better=True) if len(values) == len(runs) else None


@lru_cache(maxsize=4096)  # it reads the record, and every table and figure asks
def squared_errors(run: Run) -> Mapping[str, float]:
    """Mean squared test error at the epoch of the score, by protocol, as far as recorded."""
    series = run.series().get("test/mse") or []
    return {
        name: series[epoch]
        for name, epoch in run.epochs.items()
        if epoch < len(series) and series[epoch] is not None
    }
