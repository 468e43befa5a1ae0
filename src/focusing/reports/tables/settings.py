"""The settings of an experiment: runs that differ in their seeds only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from focusing.reports.names import MODELS, PROTOCOLS
from focusing.reports.tables import NOTHING
from focusing.reports.tables.cells import Scored, scored
from focusing.reports.tables.quantities import quantities
from focusing.results.collect import Run
from focusing.results.frame import (
    DATA_SEED,
    data_versions,
    group_by,
    settings,
    show_value,
    split_replicates,
    varying_options,
    with_varied_data,
)
from focusing.results.stats import Spread


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seeds only.

    Attributes:
        data: name of the data set, and where it came from.
        model: name of the model.
        values: what was swept besides; None if the model does not have the option.
        scores: by protocol.
        measured: what callbacks measured, all that is a single number.
        runs: the runs.
    """

    data: tuple[str, str]
    model: str
    values: Mapping[str, Any]
    scores: Mapping[str, Scored]
    measured: Mapping[str, Spread]
    runs: Sequence[Run] = ()

    @property
    def options(self) -> dict[str, str]:
        """What was swept, in print: by the last part of its name, if that is enough."""
        ends = ["seed", *(name.rpartition(".")[2] for name in self.values)]  # that of the run
        return {
            end if ends.count(end) == 1 else name: shown(value)
            for end, (name, value) in zip(ends[1:], self.values.items(), strict=True)
        }

    @property
    def varied(self) -> bool:
        """Each run has generated data of its own."""
        return len({(run.config.get("data") or {}).get("seed") for run in self.runs}) > 1

    def label(self) -> tuple[str, ...]:
        """The same, as it is typed."""
        return tuple(f"{name}={value}" for name, value in self.options.items() if value != NOTHING)

    def about(self) -> dict[str, str]:
        """The same for a CSV file, with whole names."""
        named = {"data": self.data[0], "source": self.data[1], "model": self.model}
        return named | {name: shown(value) for name, value in self.values.items()}


def shown(value: Any) -> str:
    """A value, or that there is none."""
    return NOTHING if value is None else show_value(value)


def varied_note(found: Sequence[Setting]) -> list[str]:
    """What repeats are where they are no repeats on the same data: a sentence, or none."""
    seeds = sorted({run.seed for each in found if each.varied for run in each.runs})
    if not seeds:
        return []
    network = f"the network's seed is {', '.join(map(str, seeds))}"
    return [
        f"{DATA_SEED} varied: each run has data of its own, the same for all models; {network}."
    ]


def settings_of(runs: Sequence[Run]) -> list[Setting]:
    """All settings of an experiment, in the order of their values."""
    versions = data_versions(runs)
    flat = {run: {**settings(run), "source": _source(run, versions[run])} for run in runs}
    items = with_varied_data(runs, flat)
    swept = varying_options(
        [each for _, each in items], known=["data.name", "model.name", "source"]
    )
    alike = group_by(items, lambda item: _key(item[1], swept)).values()
    parts = [
        (each[0][1], mark, same)
        for each in alike
        for mark, same in split_replicates([run for run, _ in each])
    ]
    several = any(mark for _, mark, _ in parts)
    found = []
    for options, mark, same in parts:
        first = same[0]
        values = {name: options.get(name) for name in swept} | ({"config": mark} if several else {})
        scores = {name: scored(same, name) for name in PROTOCOLS}
        known = {name: score for name, score in scores.items() if score is not None}
        data = (first.data, options["source"])
        found.append(Setting(data, first.model, values, known, quantities(same), same))
    return sorted(found, key=_order)


def _source(run: Run, version: int) -> str:
    return f"{run.source}, data version {version + 1}" if version else run.source


def _key(flat: Mapping[str, Any], swept: Sequence[str]) -> tuple[str, ...]:
    names = ("data.name", "model.name", "source", *swept)
    return tuple(show_value(flat.get(name)) for name in names)


def _order(setting: Setting) -> tuple[Any, ...]:
    models = [*MODELS, setting.model]
    options = map(_comparable, setting.values.values())
    return *setting.data, *options, models.index(setting.model)


def _comparable(value: Any) -> tuple[Any, ...]:
    """Numbers by value, lists by their elements, before all else."""
    elements = value if isinstance(value, list) else [value]
    numeric = all(isinstance(each, int | float) for each in elements)
    return (0, *elements) if numeric else (1, show_value(value))
