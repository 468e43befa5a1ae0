"""The settings of an experiment: runs that differ in their seeds only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from focusing.reports.names import MODELS, PROTOCOLS
from focusing.reports.tables import NOTHING
from focusing.reports.tables.cells import Scored, scored
from focusing.results.groups import (
    data_versions,
    group_by,
    settings,
    show_value,
    split_repeats,
    telling,
)
from focusing.results.run import Run
from focusing.results.stats import Spread, spread

MOVEMENT = {
    "inside_first": "foci inside at first",
    "inside_last": "foci inside at last",
    "moved": "foci moved",
    "widened": "foci widened",
}
"""What a record says about the foci of each layer, and its name as a measurement."""


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
        ends = [name.rpartition(".")[2] for name in self.values]
        return {
            end if ends.count(end) == 1 else name: shown(value)
            for end, (name, value) in zip(ends, self.values.items(), strict=True)
        }

    def about(self) -> dict[str, str]:
        """The same for a CSV file, with whole names."""
        named = {"data": self.data[0], "source": self.data[1], "model": self.model}
        return named | {name: shown(value) for name, value in self.values.items()}


def shown(value: Any) -> str:
    """A value, or that there is none."""
    return NOTHING if value is None else show_value(value)


def settings_of(runs: Sequence[Run]) -> list[Setting]:
    """All settings of an experiment, in the order of their values."""
    versions = data_versions(runs)
    flat = {run: {**settings(run), "source": _source(run, versions[run])} for run in runs}
    swept = telling(list(flat.values()), given=["data.name", "model.name", "source"])
    alike = group_by(runs, lambda run: _key(flat[run], swept)).values()
    parts = [part for each in alike for part in split_repeats(each)]
    several = any(mark for mark, _ in parts)
    found = []
    for mark, same in parts:
        first, options = same[0], flat[same[0]]
        values = {name: options.get(name) for name in swept} | ({"config": mark} if several else {})
        scores = {name: scored(same, name) for name in PROTOCOLS}
        known = {name: score for name, score in scores.items() if score is not None}
        data = (first.data, options["source"])
        found.append(Setting(data, first.model, values, known, _measured(same), same))
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


def _measured(runs: Sequence[Run]) -> dict[str, Spread]:
    """All that is a single number, in the record's own units."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for name, value in _numbers(run):
            found.setdefault(name, []).append(value)
    return {name: spread(values) for name, values in found.items()}


def _numbers(run: Run) -> Iterator[tuple[str, float]]:
    yield from _leaves("", run.measured)
    for quantity, name in MOVEMENT.items():
        values = [layer[quantity] for layer in run.focus.values() if quantity in layer]
        if values:
            yield name, sum(values) / len(values)
    if run.seconds is not None:
        yield "seconds", run.seconds


def _leaves(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _leaves(f"{name}.{key}" if name else str(key), below)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)
