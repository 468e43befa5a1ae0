"""Focused against dense networks: differences with intervals, by experiment, noise and sparsity."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from focusing.reports.names import (
    PROTOCOLS,
    SMALL_SIZES,
    data_name,
    data_order,
    dense_twin,
    edition_words,
    option_words,
)
from focusing.reports.paper import published_tables
from focusing.reports.tables import Table, Unit, interval_record
from focusing.reports.tables.paper_tables import Sheet, compute
from focusing.reports.tables.run_blocks import TRIALS_EXPERIMENT, blocks, editions
from focusing.reports.tables.settings import UNCHANGED, comparisons, settings_of, short_labels
from focusing.results.collect import Collection, Run
from focusing.results.stats import Comparison, Spread, spread

SIGNIFICANT = 0.05
WIDTH, EDGE = 200.0, 6.0
"""Of the plot of one difference, in pixels; the edge is for arrows."""


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
        low: of its 95 % interval.
        high: of its 95 % interval.
        p: Holm-corrected.
        count: of runs or pairs, in words.
        shown: it is the one to show if the reader chose no protocol.
        reach: the largest difference of the plot that it is drawn in.
    """

    label: tuple[str, ...]
    data: str
    model: str
    other: str
    protocol: str
    unit: Unit
    value: float
    low: float | None
    high: float | None
    p: float | None
    count: str
    shown: bool = True
    reach: float = 1.0

    @property
    def source(self) -> str:
        """Where the data came from; the second line of a label."""
        return self.label[1] if len(self.label) > 1 else ""

    @property
    def against_dense(self) -> bool:
        """It compares a focused network with a dense one on real data."""
        return self.other != UNCHANGED and self.source != "fake"

    @property
    def verdict(self) -> str:
        """In a word; also for those who cannot see the colour."""
        if self.p is None or self.p >= SIGNIFICANT:
            return "unclear"
        return "better" if (self.value > 0) != self.unit.lower_is_better else "worse"

    def place(self, value: float) -> float:
        """Where a value is drawn, in pixels from the left; what is too far at the edge."""
        inner = WIDTH / 2 - EDGE
        return round(WIDTH / 2 + max(-1.0, min(1.0, value / self.reach)) * inner, 1)

    @property
    def cut(self) -> tuple[str, ...]:
        """Ends of the interval that lie outside the plot: ``left``, ``right``, both or neither."""
        ends = (("left", self.low, -1), ("right", self.high, 1))
        reach = self.reach * 1.0001
        return tuple(name for name, end, sign in ends if end is not None and sign * end > reach)


def scaled(rows: Sequence[Difference]) -> list[Difference]:
    """The same on one scale per unit.

    A single interval can be so wide that all else would be a dot: the scale holds all means, and as
    much of the intervals as is within three times the largest.
    """
    reach = {}
    for unit in {row.unit for row in rows}:
        same = [row for row in rows if row.unit == unit]
        largest = max(abs(row.value) for row in same)
        ends = [abs(end) for row in same for end in (row.low, row.high) if end is not None]
        reach[unit] = max(largest, min(max(ends, default=0.0), 3 * largest)) or 1.0
    return [replace(row, reach=reach[row.unit]) for row in rows]


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


def findings(collection: Collection) -> list[Finding]:
    """Those of the paper's tables first; within an experiment, as published first."""
    published = published_tables()
    order = [*published, *sorted({run.experiment for run in collection.runs})]
    every = editions(run for run in collection.runs if run.trial is None)
    shown = []
    for about, runs in sorted(every, key=lambda part: order.index(part[0]["experiment"])):
        experiment, size, variant = about.values()
        if table := published.get(experiment):
            sheet = compute(table, size, variant, runs)
            title, rows = table.title, sorted(_of_sheet(sheet), key=_place)
        else:
            title, rows = f"Experiment {experiment}", list(_of_settings(runs))
        if rows:
            shown.append(Finding(experiment, title, tuple(scaled(rows)), size, variant))
    return shown


def _difference(comparison: Comparison, **fields: Any) -> Difference:
    """A difference with the numbers of a comparison."""
    low, high = interval_record(comparison.interval).values()
    return Difference(
        value=comparison.difference,
        low=low,
        high=high,
        count=f"{comparison.n[0]} / {comparison.n[1]}",
        **fields,
    )


def _preferred(protocols: Iterable[str]) -> str:
    """The protocol that is shown if the reader chose none: the honest one, where there is one."""
    return min(protocols, key=("holdout", "best_test", "last").index)


def _of_settings(runs: Sequence[Run]) -> Iterator[Difference]:
    """Of an experiment that is no table of the paper, as its own table has them."""
    settings = settings_of(runs)
    labels = short_labels(settings)
    compared = {
        key: against
        for key, against in comparisons(settings, PROTOCOLS).items()
        if against.comparison.p is not None and "focus" in settings[key[0]].model
    }
    for (place, protocol), against in sorted(compared.items(), key=lambda item: item[0][0]):
        setting = settings[place]
        yield _difference(
            against.comparison,
            label=(data_name(setting.data[0]), setting.data[1], *map(option_words, labels[place])),
            data=setting.data[0],
            model=setting.model,
            other=against.other,
            protocol=protocol,
            unit=Unit(setting.runs[0].metric),
            p=against.p,
            shown=protocol == _preferred(name for at, name in compared if at == place),
        )


def _place(row: Difference) -> tuple[object, ...]:
    """Data sets in the order of the paper, their options by value."""
    numbers = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", " ".join(row.label[1:]))
    return data_order(row.data), row.source, list(map(float, numbers)), row.label, row.model


def _of_sheet(sheet: Sheet) -> Iterator[Difference]:
    """Of a table of the paper: focused networks against their dense twins."""
    tested = sheet.tested()
    for (place, model, protocol), comparison in sorted(tested.items(), key=lambda item: item[0][0]):
        block = sheet.blocks[place]
        base = sheet.models(block)[0]
        if base != dense_twin(model) or "focus" not in model:
            continue
        protocols = [name for at, other, name in tested if (at, other) == (place, model)]
        yield _difference(
            comparison,
            label=(data_name(block.data), block.source, *map(option_words, block.options)),
            data=block.data,
            model=model,
            other=base,
            protocol=protocol,
            unit=block.unit,
            p=sheet.corrected[place, model, protocol],
            shown=protocol == _preferred(protocols),
        )


DEFAULTS = {"experiment": TRIALS_EXPERIMENT, "size": "full", "variant": "text"}
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
        records = [
            record
            for record in table.records
            if record.get("position") == "all" and record.get("pairs")
        ]
        if not records:
            continue
        preferred = _preferred(record["protocol"] for record in records)
        rows = [
            Difference(
                label=(NOISE_WORDS.get(record["noise"], str(record["noise"])),),
                data="synthetic",
                model=record["model"],
                other=record["other"],
                protocol=record["protocol"],
                unit=Unit("accuracy"),
                value=record["difference"],
                low=record["low"],
                high=record["high"],
                p=record["p_paired_holm"],
                count=f"{record['pairs']} pairs",
                shown=record["protocol"] == preferred,
            )
            for record in records
        ]
        about = {name: str(records[0].get(name, default)) for name, default in DEFAULTS.items()}
        title = ", ".join(["Random trials", *edition_words(about["size"], about["variant"])])
        shown.append(
            Finding(
                about["experiment"], title, tuple(scaled(rows)), about["size"], about["variant"]
            )
        )
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
    gone: Spread


def kept(collection: Collection) -> list[Kept]:
    """A row per setting, model and rule of pruning."""
    pruned = [run for run in collection.runs if run.measured.get("pruning")]
    sparsity_first = sorted(editions(pruned), key=lambda part: part[0]["experiment"] != "sparsity")
    rows = []
    for about, members in sparsity_first:
        for block in blocks(members):
            label = (data_name(block.data), block.source, *map(option_words, block.options))
            for model, runs in block.models.items():
                for rule, words in RULES.items():
                    shares = [100 * share for share in spared(runs, rule)]
                    if shares:
                        gone = spread(shares)
                        gone = replace(gone, interval=Unit("accuracy").possible(gone.interval))
                        where = label, block.data, model, about["experiment"], about["size"]
                        rows.append(Kept(*where, words, gone))
    return rows


def spared(runs: Sequence[Run], rule: str) -> list[float]:
    """Largest share, by run, before its accuracy has fallen by more than ``LOSS``."""
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
