"""Differences between focused and dense networks, with intervals, and what pruning can drop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median_low

from focusing.reports.names import SMALL_SIZES, data_name, data_order, edition_words, option_words
from focusing.reports.paper import published_tables
from focusing.reports.plans import UNCHANGED, short_labels
from focusing.reports.settings import Edition, editions, editions_of
from focusing.reports.tables import SIGNIFICANT, Table, Unit
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by
from focusing.results.stats import Interval, ScoreSummary

JUDGED_MODELS = ("focus", "dynamic")
"""Parts of the names of models whose foci learn; the page does not judge other models."""
NOISE_WORDS = {
    "all": "all trials",
    "0": "no noise columns",
    "0.5": "half as many noise columns as informative ones",
    "1": "as many noise columns as informative ones",
}
MAX_ACCURACY_LOSS = 0.01
"""Accuracy that pruning may lose: one point."""
PRUNING_RULES = {"curve": "by focus", "magnitude": "by magnitude"}


@dataclass(frozen=True)
class Difference:
    """Score of a model minus that of another, under one protocol.

    Attributes:
        label: lines that name the data set, its source and options.
        data: name of the data set.
        model: the model.
        other: the model that it is compared with, or ``UNCHANGED``.
        protocol: of both.
        unit: of the difference.
        value: difference of the means.
        interval: its 95 % interval.
        p: Holm-corrected; of the resampled test, where splits overlap, if that is larger; None if
            there are too few runs for a test.
        n: numbers of runs of both models, or of pairs.
        shown: whether to show it if the reader chose no protocol.
    """

    label: tuple[str, ...]
    data: str
    model: str
    other: str
    protocol: str
    unit: Unit
    value: float
    interval: Interval | None
    p: float | None
    n: tuple[int, ...]
    shown: bool = True

    @property
    def count(self) -> str:
        """Numbers of runs or pairs, in words."""
        return " / ".join(map(str, self.n)) if len(self.n) > 1 else f"{self.n[0]} pairs"

    @property
    def source(self) -> str:
        """Source of the data: the second line of the label."""
        return self.label[1] if len(self.label) > 1 else ""

    @property
    def against_dense(self) -> bool:
        """Whether it compares a focused network with a dense one on real data."""
        return self.other != UNCHANGED and not self.source.startswith("fake")

    @property
    def verdict(self) -> str:
        """``better``, ``worse`` or ``unclear``."""
        if self.p is None or self.p >= SIGNIFICANT:
            return "unclear"
        return "better" if (self.value > 0) != self.unit.lower_is_better else "worse"


@dataclass(frozen=True)
class Finding:
    """Differences of one edition; ``title`` is the printed name of its experiment."""

    experiment: str
    title: str
    rows: tuple[Difference, ...]
    size: str = "full"
    variant: str = "text"

    @property
    def edition(self) -> str:
        """Size and variant in words; empty for the paper's own."""
        return ", ".join(edition_words(self.size, self.variant))

    @property
    def minor(self) -> bool:
        """Whether it belongs in the appendix."""
        return self.size in SMALL_SIZES

    def reach(self, unit: Unit) -> float:
        """Largest difference that the plot of a unit holds.

        The plot holds all means, and most intervals. A single one can be so wide that all else
        would look like a dot, so intervals are cut at three times the largest mean, or further out
        where that would cut more than half of them.
        """
        rows = [row for row in self.rows if row.unit == unit]
        largest = max(abs(row.value) for row in rows)
        intervals = [row.interval for row in rows if row.interval]
        ends = [max(abs(interval.low), abs(interval.high)) for interval in intervals] or [0.0]
        cut = max(3 * largest, median_low(ends))
        return max(largest, min(max(ends), cut)) or 1.0


def findings(collection: Collection) -> list[Finding]:
    """Differences that the page judges: of models that learn to focus, with runs for a test."""
    judged = []
    for finding in all_differences(collection):
        tested = [row for row in finding.rows if row.p is not None]
        rows = tuple(row for row in tested if any(part in row.model for part in JUDGED_MODELS))
        judged += [replace(finding, rows=rows)] if rows else []
    return judged


def all_differences(collection: Collection) -> list[Finding]:
    """Differences of every edition: the paper's tables first, then by experiment."""
    tables = published_tables()
    order = [*tables, *sorted({run.experiment for run in collection.runs})]
    shown = []
    for edition in sorted(editions(collection), key=lambda one: order.index(one.experiment)):
        rows = list(_differences(edition))
        if edition.experiment in tables:
            rows.sort(key=_data_and_options)
        where = edition.size, edition.variant
        shown.append(Finding(edition.experiment, edition.title, tuple(rows), *where))
    return shown


def _differences(edition: Edition) -> Iterator[Difference]:
    labels = dict(zip(edition.settings, short_labels(edition.settings), strict=True))
    for setting, keys in group_by(edition.tests, lambda key: key[0]).items():
        options = setting.overrides if setting.of_paper else labels[setting]
        tests = {protocol: edition.tests[setting, protocol] for _, protocol in keys}
        judged = [protocol for protocol, test in tests.items() if test.p_holm is not None]
        preferred = _preferred(judged or tests)
        for protocol, test in tests.items():
            yield Difference(
                label=(data_name(setting.data), setting.source, *map(option_words, options)),
                data=setting.data,
                model=setting.model,
                other=test.other,
                protocol=protocol,
                unit=setting.unit,
                value=test.difference,
                interval=test.interval,
                p=test.p_decisive,
                n=test.n,
                shown=protocol == preferred,
            )


def _preferred(protocols: Iterable[str]) -> str:
    """The protocol to show if the reader chose none: the honest one, if possible."""
    return min(protocols, key=("holdout", "best_test", "last").index)


def _data_and_options(row: Difference) -> tuple[object, ...]:
    """Sort key: data sets in the paper's order, then the numbers in their options."""
    numbers = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", " ".join(row.label[1:]))
    return data_order(row.data), row.source, list(map(float, numbers)), row.label, row.model


def noise_differences(tables: Sequence[Table]) -> list[Finding]:
    """Differences by level of noise, one finding per table of random trials with pairs."""
    shown = []
    for table in tables:
        records = [r for r in table.records if r.get("position") == "all" and r.get("pairs")]
        if not records:
            continue
        preferred = _preferred(record["protocol"] for record in records)
        rows = [
            Difference(
                label=(NOISE_WORDS[record["noise"]],),
                data="synthetic",
                model=record["model"],
                other=record["other"],
                protocol=record["protocol"],
                unit=Unit("accuracy"),
                value=record["difference"],
                interval=None
                if record["low"] is None
                else Interval(record["low"], record["high"], ""),
                p=record["p_paired_holm"],
                n=(record["pairs"],),
                shown=record["protocol"] == preferred,
            )
            for record in records
        ]
        experiment, size, variant = (records[0][key] for key in ("experiment", "size", "variant"))
        title = ", ".join(["Random trials", *edition_words(size, variant)])
        shown.append(Finding(experiment, title, tuple(rows), size, variant))
    return shown


@dataclass(frozen=True)
class PruningResult:
    """Share of connections that pruning can drop while the test accuracy stays.

    Attributes:
        label: data set, source, size and variant if not the paper's, options.
        data: name of the data set.
        model: the model.
        experiment: that measured it.
        size: of the experiment.
        rule: which connections go first.
        dropped: statistics of the share over runs, in percent.
    """

    label: tuple[str, ...]
    data: str
    model: str
    experiment: str
    size: str
    rule: str
    dropped: ScoreSummary


def pruning_results(collection: Collection) -> list[PruningResult]:
    """What can be pruned, by setting and rule; the experiment ``sparsity`` comes first."""
    pruned = [run for run in collection.runs if run.measured.get("pruning")]
    results = []
    for edition in sorted(editions_of(pruned), key=lambda one: one.experiment != "sparsity"):
        for setting in edition.settings:
            changed = map(option_words, setting.overrides)
            words = edition_words(edition.size, edition.variant)
            label = (data_name(setting.data), setting.source, *words, *changed)
            where = label, setting.data, setting.model, edition.experiment, edition.size
            for rule, called in PRUNING_RULES.items():
                if shares := _prunable_shares(setting.runs, rule):
                    dropped = Unit("accuracy").summarize(shares)
                    results.append(PruningResult(*where, called, dropped))
    return results


def _prunable_shares(runs: Sequence[Run], rule: str) -> list[float]:
    """Percent that can be dropped from each run before it loses ``MAX_ACCURACY_LOSS``."""
    shares = []
    for run in runs:
        curve = run.measured["pruning"].get(rule) if run.metric == "accuracy" else None
        points = sorted(curve or [], key=lambda point: point["sparsity"])
        if not points or points[0]["sparsity"] > 0:
            continue  # the accuracy without pruning is unknown
        good = [point["acc"] >= points[0]["acc"] - MAX_ACCURACY_LOSS for point in points]
        last = good.index(False) - 1 if False in good else -1
        shares.append(100 * float(points[last]["sparsity"]))
    return shares
