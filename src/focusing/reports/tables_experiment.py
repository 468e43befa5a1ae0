"""Any other experiment: a row for each setting that was swept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from focusing.reports.names import MODELS, PROTOCOLS, data_name, edition, model_name
from focusing.reports.paper import published_tables
from focusing.reports.tables import Cell, Column, Row, Table, number, p_value, text
from focusing.reports.tables_cells import Scored, score_cell, score_record, scored
from focusing.results.collect import Collection
from focusing.results.groups import (
    data_versions,
    group_by,
    settings,
    show_value,
    telling,
    trial,
)
from focusing.results.run import Run
from focusing.results.stats import compare, holm

SHOWN = 6
"""Columns of measurements; the CSV file has all."""
NOTES = (
    "Test accuracy in percent (MAE: mean absolute error, less is better): mean ± standard "
    "deviation (ddof=1), 95 % interval of the mean (Student's t; bootstrap from 20 runs on), "
    "number of runs, and p of Welch's t-test against the dense network of the same setting, "
    "Holm-corrected over this table. Other columns are means.",
)
NOTE_HELD = "† from runs that kept part of the training data for validation."


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seeds only."""

    runs: list[Run]
    values: Mapping[str, Any]
    scores: Mapping[str, Scored]
    measured: Mapping[str, float]

    @property
    def model(self) -> str:
        """Name of its model."""
        return self.runs[0].model


def experiment_tables(collection: Collection) -> list[Table]:
    """A table for each experiment, size and variant that has no table of its own."""
    own = set(published_tables())
    runs = [run for run in collection.runs if run.experiment not in own and trial(run) is None]
    groups = group_by(runs, lambda run: (run.experiment, run.size, run.variant))
    ordered = sorted(groups, key=lambda key: (key[0], *edition(*key[1:])))
    return [_table(*key, groups[key]) for key in ordered]


def _table(experiment: str, size: str, variant: str, runs: Sequence[Run]) -> Table:
    found = _settings(runs)
    swept = [name for name in found[0].values if name not in ("data", "model", "source")]
    given = [name for name in PROTOCOLS if any(name in each.scores for each in found)]
    measured = list(dict.fromkeys(name for each in found for name in each.measured))
    corrected = _tests(found, given)
    rows: list[Row] = []
    records: list[Mapping[str, Any]] = []
    last: tuple[str, str] | None = None
    for place, each in enumerate(found):
        data = (each.values["data"], each.values["source"])
        begins, last = data != last, data
        cells = [
            text(data_name(data[0]), data[1]) if begins else Cell(),
            text(model_name(each.model)),
            *(text(_shown(each.values[name])) for name in swept),
        ]
        for name in given:
            p = corrected.get((place, name))
            more = [] if p is None else [f"p={p_value(p)}"]
            cells.append(score_cell(each.scores[name], *more) if name in each.scores else Cell())
        cells += [text(_significant(each.measured.get(name))) for name in measured[:SHOWN]]
        rows.append(Row(tuple(cells), {"data": data[0], "model": each.model}, begins))
        records += _records(experiment, size, variant, each, place, corrected)
    held = any(score.mark for each in found for score in each.scores.values())
    return Table(
        name=f"experiment_{experiment}_{size}_{variant}",
        title=f"Experiment {experiment} (size={size}, variant={variant})",
        columns=(
            Column("data"),
            Column("model"),
            *(Column(name, "right") for name in swept),
            *(Column(name) for name in given),
            *(Column(name, "right") for name in measured[:SHOWN]),
        ),
        rows=tuple(rows),
        notes=(*NOTES, *([NOTE_HELD] if held else [])),
        records=tuple(records),
    )


def _settings(runs: Sequence[Run]) -> list[Setting]:
    versions = data_versions(runs)
    flat = {run: {**settings(run), "source": _source(run, versions[run])} for run in runs}
    swept = telling(list(flat.values()), given=["data.name", "model.name", "source"])
    found = []
    for same in group_by(runs, lambda run: _key(flat[run], swept)).values():
        options = flat[same[0]]
        values = {"data": same[0].data, "source": options["source"], "model": same[0].model}
        values.update({name: options.get(name) for name in swept})
        scores = {name: scored(same, name) for name in PROTOCOLS}
        known = {name: score for name, score in scores.items() if score is not None}
        found.append(Setting(same, values, known, _measured(same)))
    return sorted(found, key=lambda each: _order(each.values, swept))


def _source(run: Run, version: int) -> str:
    return f"{run.source}, data version {version + 1}" if version else run.source


def _key(flat: Mapping[str, Any], swept: Sequence[str]) -> tuple[str, ...]:
    names = ("data.name", "model.name", "source", *swept)
    return tuple(show_value(flat.get(name)) for name in names)


def _order(values: Mapping[str, Any], swept: Sequence[str]) -> tuple[Any, ...]:
    models = [*MODELS, values["model"]]
    options = tuple(_comparable(values[name]) for name in swept)
    return values["data"], values["source"], *options, models.index(values["model"])


def _comparable(value: Any) -> tuple[Any, ...]:
    """Numbers by value, lists by their elements, before all else."""
    elements = value if isinstance(value, list) else [value]
    numeric = all(isinstance(each, int | float) for each in elements)
    return (0, *elements) if numeric else (1, show_value(value))


def _tests(found: Sequence[Setting], given: Sequence[str]) -> dict[tuple[int, str], float | None]:
    """Corrected p of each setting against its dense twin, by place and protocol."""
    corrected: dict[tuple[int, str], float | None] = {}
    for name in given:
        tested = {}
        for place, each in enumerate(found):
            base = next((other for other in found if _is_twin(other, each)), None)
            if base is None or name not in each.scores or name not in base.scores:
                continue
            ours, theirs = each.scores[name], base.scores[name]
            if ours.trained_on == theirs.trained_on:
                tested[place, name] = compare(ours.values, theirs.values).p_welch
        corrected.update(zip(tested, holm(list(tested.values())), strict=True))
    return corrected


def _is_twin(dense: Setting, other: Setting) -> bool:
    if "dense" not in dense.model or "dense" in other.model:
        return False
    return all(
        value is None or value == other.values[name]  # the dense network does not have the option
        for name, value in dense.values.items()
        if name != "model"
    )


def _measured(runs: Sequence[Run]) -> dict[str, float]:
    """Means of all that is a single number, in the record's own units."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for name, value in _numbers(run):
            found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}


def _numbers(run: Run) -> Iterator[tuple[str, float]]:
    moved = [layer["moved"] for layer in run.focus.values() if layer.get("moved") is not None]
    if moved:
        yield "foci moved", sum(moved) / len(moved)
    yield from _leaves("", run.measured)
    if run.seconds is not None:
        yield "seconds", run.seconds


def _leaves(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _leaves(f"{name}.{key}" if name else str(key), below)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)


def _shown(value: Any) -> str:
    return "–" if value is None else show_value(value)


def _significant(value: float | None) -> str:
    if value is None:
        return "–"
    return number(value, 0) if abs(value) >= 1000 else f"{value:.3g}".replace("-", "−")


def _records(
    experiment: str,
    size: str,
    variant: str,
    each: Setting,
    place: int,
    corrected: Mapping[tuple[int, str], float | None],
) -> Iterator[Mapping[str, Any]]:
    about = {"experiment": experiment, "size": size, "variant": variant}
    about |= {name: _shown(value) for name, value in each.values.items()}
    for name, score in each.scores.items():
        p = {"p_welch_holm": corrected.get((place, name))}
        yield {**about, "protocol": name, **score_record(score), **p, **each.measured}
