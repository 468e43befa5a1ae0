"""Any other experiment: a row for each setting that was swept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from focusing.reports.names import PROTOCOLS, data_name, edition, model_name
from focusing.reports.paper import published_tables, width_mean
from focusing.reports.tables import (
    Cell,
    Column,
    Row,
    Table,
    file_name,
    number,
    text,
    with_lines,
)
from focusing.reports.tables.against import Against, comparisons
from focusing.reports.tables.cells import score_cell, score_record
from focusing.reports.tables.labels import UNCHANGED, option_columns
from focusing.reports.tables.measured import measured_tables
from focusing.reports.tables.overrides import limits
from focusing.reports.tables.settings import Setting, settings_of, varied_note
from focusing.results.collect import Collection
from focusing.results.frame import group_by

NOTE = (
    "Test accuracy in percent (MAE: mean absolute error, less is better, MSE: mean squared error "
    "at the same epochs): mean ± standard deviation (ddof=1), 95 % interval of the mean "
    "(Student's t; bootstrap from 20 runs on), "
    "number of runs."
)
NOTE_DENSE = (
    "− Dense: difference to the dense network of the same setting with its 95 % interval, and p, "
    "Holm-corrected over this table under the same protocol: of the paired t-test where repeats "
    "are folds, splits or data sets, which have test data of their own, else of Welch's."
)
NOTE_UNCHANGED = (
    "− unchanged: difference to the experiment as it is without these options with its 95 % "
    "interval, and p, Holm-corrected over this table under the same protocol: of the paired t-test "
    "(runs of the same seed begin with the same weights), or of Welch's while not all pair up."
)
NOTE_AUTHOR = "Author: means of five repeats in the author's scripts, where the paper has a figure."
NOTE_HELD = "† from runs that kept part of the training data for validation."


def experiment_tables(collection: Collection) -> list[Table]:
    """Tables for each experiment, size and variant that has none of its own."""
    own = set(published_tables())
    runs = [run for run in collection.runs if run.experiment not in own and run.trial is None]
    groups = group_by(runs, lambda run: (run.experiment, run.size, run.variant))
    tables = []
    for key in sorted(groups, key=lambda key: (key[0], *edition(*key[1:]))):
        found = settings_of(groups[key])
        name = file_name("experiment", *key)
        title = f"Experiment {key[0]} (size={key[1]}, variant={key[2]})"
        about = dict(zip(("experiment", "size", "variant"), key, strict=True))
        tables.append(_table(name, title, about, found))
        tables += measured_tables(f"{name}_measured", f"{title}: measurements", about, found)
    return tables


def _table(name: str, title: str, about: Mapping[str, str], found: Sequence[Setting]) -> Table:
    given = [name for name in PROTOCOLS if any(name in each.scores for each in found)]
    compared = comparisons(found, given)
    author = [author_mean(each) for each in found]
    known = any(mean is not None for mean in author)
    rows: list[Row] = []
    records: list[Mapping[str, Any]] = []
    heads, swept = option_columns(found)
    for place, each in enumerate(found):
        begins = place == 0 or each.data != found[place - 1].data
        cells = [
            text(data_name(each.data[0]), each.data[1]) if begins else Cell(),
            text(model_name(each.model)),
            *swept[place],
            *([text(number(author[place]))] if known else []),
        ]
        for protocol in given:
            against = compared.get((place, protocol))
            more = [] if against is None else against.lines()
            score = each.scores.get(protocol)
            cells.append(Cell() if score is None else with_lines(score_cell(score), *more))
        rows.append(Row(tuple(cells), {"data": each.data[0], "model": each.model}, begins))
        named = {**about, **each.about()} | ({"author": author[place]} if known else {})
        records += _records(named, each, place, compared)
    others = {each.other for each in compared.values()}
    held = any(score.mark for each in found for score in each.scores.values())
    return Table(
        name,
        title,
        columns=(
            Column("data"),
            Column("model"),
            *heads,
            *([Column("author", "right")] if known else []),
            *(Column(protocol) for protocol in given),
        ),
        rows=tuple(rows),
        notes=(
            NOTE,
            *([NOTE_DENSE] if others - {UNCHANGED} else []),
            *([NOTE_UNCHANGED] if UNCHANGED in others else []),
            *varied_note(found),
            *limited_note(found),
            *([NOTE_AUTHOR] if known else []),
            *([NOTE_HELD] if held else []),
        ),
        records=tuple(records),
    )


def limited_note(found: Sequence[Setting]) -> list[str]:
    """Which runs had a part of the data only: a sentence, or none."""
    fewer = sorted({f"{each.data[0]}: {limit}" for each in found for limit in _limits(each)})
    return [f"Runs on a part of the data: {', '.join(fewer)}."] if fewer else []


def _limits(each: Setting) -> set[str]:
    return {limit for run in each.runs for limit in limits(run)}


def author_mean(each: Setting) -> float | None:
    """The author's number for a setting, if it is one of the author's in full; else None."""
    first = each.runs[0]
    if first.experiment != "n_hidden" or first.size != "paper" or _limits(each):
        return None
    return width_mean(each.data[0], each.model, each.values.get("model.hidden"))


def _records(
    about: Mapping[str, Any],
    each: Setting,
    place: int,
    compared: Mapping[tuple[int, str], Against],
) -> Iterator[Mapping[str, Any]]:
    for name, score in each.scores.items():
        against = compared.get((place, name))
        more = {} if against is None else against.record()
        yield {**about, "protocol": name, **score_record(score), **more}
