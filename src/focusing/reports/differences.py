"""Focused against dense networks: differences with intervals, by experiment, noise and sparsity."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from focusing.reports.names import (
    SMALL_SIZES,
    data_name,
    data_order,
    edition_words,
    option_words,
)
from focusing.reports.paper import published_tables
from focusing.reports.plans import UNCHANGED, short_labels
from focusing.reports.settings import Edition, editions, editions_of
from focusing.reports.tables import Table, Unit
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by
from focusing.results.stats import Interval, ScoreSummary

SIGNIFICANT = 0.05
JUDGED = ("focus", "dynamic")
"""Parts of the names of networks whose foci learn; fixed ones and other rivals are not judged."""


@dataclass(frozen=True)
class Difference:
    """A model minus another, under a protocol.

    Attributes:
        label: lines that say where: data set, source, options.
        data: name of the data set, for filters.
        model: the model.
        other: what it is compared with.
        protocol: of both.
        unit: of the difference.
        value: of the means.
        interval: 95 %, of the difference.
        p: Holm-corrected; None if there are too few runs for a test.
        n: numbers of runs of both, or of pairs.
        shown: it is the one to show if the reader chose no protocol.
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
        """Where the data came from; the second line of a label."""
        return self.label[1] if len(self.label) > 1 else ""

    @property
    def against_dense(self) -> bool:
        """It compares a focused network with a dense one on real data."""
        return self.other != UNCHANGED and not self.source.startswith("fake")

    @property
    def verdict(self) -> str:
        """In a word; also for those who cannot see the colour."""
        if self.p is None or self.p >= SIGNIFICANT:
            return "unclear"
        return "better" if (self.value > 0) != self.unit.lower_is_better else "worse"


@dataclass(frozen=True)
class Finding:
    """Differences of one experiment at one size and in one variant.

    Attributes:
        experiment: its name.
        title: in print.
        rows: the differences.
        size: ``full``, ``short``, ``quick`` or ``smoke``.
        variant: ``text``, ``author`` or ``author2018``.
    """

    experiment: str
    title: str
    rows: tuple[Difference, ...]
    size: str = "full"
    variant: str = "text"

    @property
    def edition(self) -> str:
        """What distinguishes it from the paper's own settings; empty if nothing does."""
        return ", ".join(edition_words(self.size, self.variant))

    @property
    def minor(self) -> bool:
        """It belongs into the appendix."""
        return self.size in SMALL_SIZES

    def reach(self, unit: Unit) -> float:
        """The largest difference that a plot of those of a unit holds.

        A single interval can be so wide that all else would be a dot: the plot holds all means, and
        as much of the intervals as is within three times the largest.
        """
        rows = [row for row in self.rows if row.unit == unit]
        largest = max(abs(row.value) for row in rows)
        intervals = [row.interval for row in rows if row.interval]
        ends = [abs(end) for interval in intervals for end in (interval.low, interval.high)]
        return max(largest, min(max(ends, default=0.0), 3 * largest)) or 1.0


def findings(collection: Collection) -> list[Finding]:
    """Focused networks with enough runs for a test: what the page judges."""
    judged = []
    for finding in all_differences(collection):
        tested = [row for row in finding.rows if row.p is not None]
        rows = tuple(row for row in tested if any(part in row.model for part in JUDGED))
        judged += [replace(finding, rows=rows)] if rows else []
    return judged


def all_differences(collection: Collection) -> list[Finding]:
    """Those of the paper's tables first; within an experiment, as published first."""
    tables = published_tables()
    order = [*tables, *sorted({run.experiment for run in collection.runs})]
    shown = []
    for edition in sorted(editions(collection), key=lambda one: order.index(one.experiment)):
        rows = list(_differences(edition))
        if edition.experiment in tables:
            rows.sort(key=_place)
        about = edition.size, edition.variant
        shown.append(Finding(edition.experiment, edition.title, tuple(rows), *about))
    return shown


def _differences(edition: Edition) -> Iterator[Difference]:
    """Settings against their dense twins, or against what they are without a change."""
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
                p=test.p_holm,
                n=test.n,
                shown=protocol == preferred,
            )


def _preferred(protocols: Iterable[str]) -> str:
    """The protocol that is shown if the reader chose none: the honest one, where there is one."""
    return min(protocols, key=("holdout", "best_test", "last").index)


def _place(row: Difference) -> tuple[object, ...]:
    """Data sets in the order of the paper, their options by value."""
    numbers = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", " ".join(row.label[1:]))
    return data_order(row.data), row.source, list(map(float, numbers)), row.label, row.model


NOISE_WORDS = {
    "all": "all trials",
    "0": "no noise columns",
    "0.5": "half as many noise columns as informative ones",
    "1": "as many noise columns as informative ones",
}


def noise_differences(tables: Sequence[Table]) -> list[Finding]:
    """One finding per table of random trials that has pairs."""
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
        experiment: that measured it.
        size: of the experiment.
        rule: which connections go first.
        gone: mean and so on over runs.
    """

    label: tuple[str, ...]
    data: str
    model: str
    experiment: str
    size: str
    rule: str
    gone: ScoreSummary


def kept(collection: Collection) -> list[Kept]:
    """A row per setting and rule of pruning."""
    pruned = [run for run in collection.runs if run.measured.get("pruning")]
    rows = []
    for edition in sorted(editions_of(pruned), key=lambda one: one.experiment != "sparsity"):
        for setting in edition.settings:
            label = (data_name(setting.data), setting.source, *map(option_words, setting.overrides))
            for rule, words in RULES.items():
                shares = [100 * share for share in spared(setting.runs, rule)]
                if shares:
                    where = label, setting.data, setting.model, edition.experiment, edition.size
                    rows.append(Kept(*where, words, Unit("accuracy").spread(shares)))
    return rows


def spared(runs: Sequence[Run], rule: str) -> list[float]:
    """Largest share, by run, before its accuracy has fallen by more than ``LOSS``."""
    curves = [run.measured["pruning"].get(rule) for run in runs if run.metric == "accuracy"]
    return [share for curve in curves if curve and (share := _spared(curve)) is not None]


def _spared(curve: Sequence[Mapping[str, Any]]) -> float | None:
    points = sorted(curve, key=lambda point: point["sparsity"])
    if points[0]["sparsity"] > 0:
        return None  # what was there before is not known
    good = takewhile(lambda point: point["acc"] >= points[0]["acc"] - LOSS, points)
    return float(list(good)[-1]["sparsity"])
