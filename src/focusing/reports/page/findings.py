"""Focused against dense networks: differences with intervals, by experiment, noise and sparsity."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from focusing.reports.names import DATA, PROTOCOLS, data_name, dense_twin, edition
from focusing.reports.page.exhibits import short_title
from focusing.reports.paper import published_tables
from focusing.reports.tables import Table, Unit
from focusing.reports.tables.paper_tables import Sheet, compute
from focusing.reports.tables.run_blocks import blocks
from focusing.reports.tables.settings import comparisons, settings_of, short_labels
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by
from focusing.results.stats import Spread, spread

SIGNIFICANT = 0.05
WIDTH, EDGE = 200.0, 6.0
"""Of the plot of one difference, in pixels; the edge is for arrows."""


@dataclass(frozen=True)
class Plot:
    """Where to draw, in pixels from the left: zero, the mean and the ends of the interval.

    Attributes:
        cut: ends that lie outside the plot: ``left``, ``right``, both or neither.
    """

    zero: float
    mean: float
    low: float | None
    high: float | None
    cut: tuple[str, ...] = ()


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
        plot: where to draw it.
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
    plot: Plot | None = None

    @property
    def source(self) -> str:
        """Where the data came from; the second line of a label."""
        return self.label[1] if len(self.label) > 1 else ""

    @property
    def verdict(self) -> str:
        """In a word; also for those who cannot see the colour."""
        if self.p is None or self.p >= SIGNIFICANT:
            return "unclear"
        return "better" if (self.value > 0) != self.unit.lower_is_better else "worse"


def placed(rows: Sequence[Difference]) -> list[Difference]:
    """The same with plots, on one scale for each unit.

    The interval of two runs can be so wide that all else would be a dot: the scale holds all means,
    and as much of the intervals as is within three times the largest.
    """
    reach = {}
    for unit in {row.unit for row in rows}:
        same = [row for row in rows if row.unit == unit]
        largest = max(abs(row.value) for row in same)
        ends = [abs(end) for row in same for end in (row.low, row.high) if end is not None]
        reach[unit] = max(largest, min(max(ends, default=0.0), 3 * largest)) or 1.0
    return [replace(row, plot=_plot(row, reach[row.unit])) for row in rows]


def _plot(row: Difference, reach: float) -> Plot:
    def place(value: float) -> float:
        inner = WIDTH / 2 - EDGE
        return round(WIDTH / 2 + max(-1.0, min(1.0, value / reach)) * inner, 1)

    ends = (row.low, row.high)
    cut = [
        name
        for name, end, sign in zip(("left", "right"), ends, (-1, 1), strict=True)
        if end is not None and sign * end > reach * 1.0001
    ]
    low, high = (None if end is None else place(end) for end in ends)
    return Plot(WIDTH / 2, place(row.value), low, high, tuple(cut))


PREFERRED = ("holdout", "paper", "last")
"""Which protocol is shown if the reader chose none: the honest one, where there is one."""


@dataclass(frozen=True)
class Finding:
    """Differences of one experiment at one size and in one variant.

    Attributes:
        experiment: its name.
        title: in print.
        size: ``paper``, ``short``, ``quick`` or ``smoke``.
        variant: ``paper``, ``author`` or ``author2018``.
        rows: the differences.
    """

    experiment: str
    title: str
    size: str
    variant: str
    rows: tuple[Difference, ...]

    @property
    def edition(self) -> str:
        """What tells it from the paper's own settings; empty if nothing does."""
        size = "" if self.size == "paper" else f"size {self.size}"
        variant = "" if self.variant == "paper" else f"variant {self.variant}"
        return ", ".join(filter(None, (size, variant)))


def findings(collection: Collection) -> list[Finding]:
    """Those of the paper's tables first; within each experiment, as published first."""
    runs = [run for run in collection.runs if run.trial is None]
    groups = group_by(runs, lambda run: (run.experiment, run.size, run.variant))
    published = published_tables()
    found = []
    for key in sorted(groups, key=lambda key: _order(key, list(published))):
        table = published.get(key[0])
        if table is None:
            title, rows = f"Experiment {key[0]}", list(_of_settings(groups[key]))
        else:
            sheet = compute(table, key[1], key[2], groups[key])
            title, rows = table.title, sorted(_differences(sheet), key=_place)
        if rows:
            found.append(Finding(key[0], title, key[1], key[2], tuple(placed(rows))))
    return found


def _of_settings(runs: Sequence[Run]) -> Iterator[Difference]:
    """Of an experiment that is no table of the paper, as its own table has them."""
    found = settings_of(runs)
    told = short_labels(found)
    compared = {
        key: each
        for key, each in comparisons(found, PROTOCOLS).items()
        if each.comparison.p is not None and "focus" in found[key[0]].model
    }
    for (place, protocol), against in sorted(compared.items(), key=lambda each: each[0][0]):
        each, result = found[place], against.comparison
        first = next(name for name in PREFERRED if (place, name) in compared)
        yield Difference(
            label=(data_name(each.data[0]), each.data[1], *told[place]),
            data=each.data[0],
            model=each.model,
            other=against.other,
            protocol=protocol,
            unit=Unit(each.runs[0].metric),
            value=result.difference,
            low=result.interval.low if result.interval else None,
            high=result.interval.high if result.interval else None,
            p=against.p,
            count=f"{result.n[0]} / {result.n[1]}",
            shown=protocol == first,
        )


def _order(key: tuple[str, str, str], published: Sequence[str]) -> tuple[object, ...]:
    place = published.index(key[0]) if key[0] in published else len(published)
    return place, key[0], *edition(*key[1:])


def _place(row: Difference) -> tuple[object, ...]:
    """Data sets in the order of the paper, the options of each by their values."""
    order = [*DATA, row.data]
    numbers = [
        float(each) for each in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", " ".join(row.label[1:]))
    ]
    return order.index(row.data), row.data, row.label[1], numbers, row.label, row.model


def _differences(sheet: Sheet) -> Iterator[Difference]:
    tested = sheet.tested()
    given = {(place, model): set[str]() for place, model, _ in tested}
    for place, model, protocol in tested:
        given[place, model].add(protocol)
    for (place, model, protocol), found in sorted(tested.items(), key=lambda each: each[0][0]):
        block = sheet.blocks[place]
        base = sheet.models(block)[0]
        if base != dense_twin(model) or "focus" not in model:
            continue
        first = next(name for name in PREFERRED if name in given[place, model])
        yield Difference(
            label=(data_name(block.data), block.source, *block.options),
            data=block.data,
            model=model,
            other=base,
            protocol=protocol,
            unit=block.unit,
            value=found.difference,
            low=found.interval.low if found.interval else None,
            high=found.interval.high if found.interval else None,
            p=sheet.corrected[place, model, protocol],
            count=f"{found.n[0]} / {found.n[1]}",
            shown=protocol == first,
        )


WORDS = {
    "all": "all trials",
    "0": "no noise columns",
    "0.5": "half as many noise columns as informative ones",
    "1": "as many noise columns as informative ones",
}


@dataclass(frozen=True)
class Trials:
    """Differences of the trials of one table."""

    title: str
    rows: tuple[Difference, ...]


def noise_differences(tables: Sequence[Table]) -> list[Trials]:
    """One entry for each table of random trials that has pairs."""
    found = []
    for table in tables:
        records = [
            each for each in table.records if each.get("position") == "all" and each.get("pairs")
        ]
        given = {each["protocol"] for each in records}
        first = next((name for name in PREFERRED if name in given), "")
        rows = [
            Difference(
                label=(WORDS.get(each["noise"], str(each["noise"])),),
                data="synthetic",
                model=each["model"],
                other=each["other"],
                protocol=each["protocol"],
                unit=Unit("accuracy"),
                value=each["difference"],
                low=each["low"],
                high=each["high"],
                p=each["p_paired_holm"],
                count=f"{each['pairs']} pairs",
                shown=each["protocol"] == first,
            )
            for each in records
        ]
        if rows:
            found.append(Trials(short_title(table.title), tuple(placed(rows))))
    return found


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
