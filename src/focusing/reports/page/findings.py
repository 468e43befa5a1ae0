"""The headline: focused against dense networks, data set by data set, experiment by experiment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from focusing.reports.names import DATA, PROTOCOLS, data_name, dense_twin, edition
from focusing.reports.page.difference import Difference, placed
from focusing.reports.paper import published_tables
from focusing.reports.tables import Unit
from focusing.reports.tables.paper_tables import Sheet, compute
from focusing.reports.tables.settings import comparisons, settings_of, short_labels
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by

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
