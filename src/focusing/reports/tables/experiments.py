"""Tables of any experiment that is not the paper's: scores and measurements of every setting."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from focusing.reports.names import PROTOCOLS, data_name, model_name
from focusing.reports.paper import published_tables, width_mean
from focusing.reports.tables import (
    NOTHING,
    Cell,
    Column,
    Row,
    Table,
    file_name,
    interval_record,
    number,
    text,
)
from focusing.reports.tables.run_blocks import editions, limits
from focusing.reports.tables.scores import mean_and_deviation
from focusing.reports.tables.settings import (
    UNCHANGED,
    Setting,
    comparisons,
    option_columns,
    settings_of,
    varied_note,
)
from focusing.results.collect import Collection, Run
from focusing.results.frame import SECONDS
from focusing.results.stats import Spread

MAX_QUANTITIES = 8
"""Columns of measurements; the CSV file has all."""
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
NOTE_SWEEP = (
    "Test accuracy in percent, or mean absolute error: mean ± standard deviation. Differences with "
    "95 % interval and p (Holm-corrected) from three runs on."
)
NOTE_NO_TWIN = "No dense network of the same settings is among these runs: there is no difference."
NOTE_AUTHOR = "Author: means of five repeats in the author's scripts, where the paper has a figure."
NOTE_HELD = "† from runs that kept part of the training data for validation."
NOTE_MEASURED = "Means over runs with 95 % interval (Student's t; bootstrap from 20 runs on)."
MEANINGS = {
    "foci inside": "foci inside: centres among the informative columns",
    "foci moved": "moved: mean distance of centres from their start (inputs lie between 0 and 1)",
    "foci widened": "widened: the aperture grew",
    "foci stuck": "stuck: went nowhere in the last epochs, and the output says nothing about the "
    "targets",
    "seconds": "seconds: of training; without a GPU, of processor time",
}
"""How the name of a measurement begins -> what it means."""


def experiment_tables(collection: Collection) -> list[Table]:
    """Tables for every experiment, size and variant that has none of its own."""
    own = set(published_tables())
    runs = [run for run in collection.runs if run.experiment not in own and run.trial is None]
    tables = []
    for about, members in editions(runs):
        settings = settings_of(members)
        name = file_name("experiment", *about.values())
        title = "Experiment {experiment} (size={size}, variant={variant})".format(**about)
        tables.append(_scores(name, title, about, settings))
        tables += _measured(f"{name}_measured", f"{title}: measurements", about, settings)
    return tables


def sweep_tables(runs: Sequence[Run], protocol: str) -> list[Table]:
    """What a sweep ends with: every setting, and its difference to the dense network.

    Args:
        runs: of the sweep.
        protocol: whose scores are shown.
    """
    tables = []
    for about, members in editions(runs):
        settings = [setting for setting in settings_of(members) if protocol in setting.scores]
        if not settings:
            continue
        compared = comparisons(settings, [protocol])
        cells = []
        for place, setting in enumerate(settings):
            score, against = setting.scores[protocol], compared.get((place, protocol))
            difference = against.lines() if against else [""]
            mean = text(mean_and_deviation(score.spread), score.points())
            cells.append([text(str(score.spread.n)), mean, text(*difference)])
        name = "{experiment} (size={size}, variant={variant})".format(**about)
        others = {against.other for against in compared.values()}
        columns = _columns(
            settings, Column("n", "right"), Column(f"score ({protocol})"), Column("difference")
        )
        notes = [NOTE_SWEEP] + [NOTE_NO_TWIN] * (not others)
        tables.append(Table(name, name, columns, _rows(settings, cells), tuple(notes)))
    return tables


def _rows(settings: Sequence[Setting], cells: Sequence[Sequence[Cell]]) -> tuple[Row, ...]:
    """Rows that begin with data, model and what was swept, and end with some cells."""
    rows = []
    swept = option_columns(settings)[1]
    for place, setting in enumerate(settings):
        begins = place == 0 or setting.data != settings[place - 1].data
        head = text(data_name(setting.data[0]), setting.data[1]) if begins else Cell()
        named = (head, text(model_name(setting.model)), *swept[place])
        tags = {"data": setting.data[0], "model": setting.model}
        rows.append(Row((*named, *cells[place]), tags, begins))
    return tuple(rows)


def _columns(settings: Sequence[Setting], *more: Column) -> tuple[Column, ...]:
    return Column("data"), Column("model"), *option_columns(settings)[0], *more


def _scores(name: str, title: str, about: Mapping[str, str], settings: Sequence[Setting]) -> Table:
    protocols = [name for name in PROTOCOLS if any(name in setting.scores for setting in settings)]
    compared = comparisons(settings, protocols)
    author = [author_mean(setting) for setting in settings]
    known = any(mean is not None for mean in author)
    cells: list[list[Cell]] = []
    records: list[Mapping[str, Any]] = []
    for place, setting in enumerate(settings):
        cells.append([text(number(author[place]))] if known else [])
        named = {**about, **setting.about()} | ({"author": author[place]} if known else {})
        for protocol in protocols:
            score, against = setting.scores.get(protocol), compared.get((place, protocol))
            if score is None:
                cells[-1].append(Cell())
                continue
            cell, more = score.cell(), against.lines() if against else []
            cells[-1].append(text(*cell.lines, *more))
            difference = against.record() if against else {}
            records.append({**named, "protocol": protocol, **score.record(), **difference})
    others = {against.other for against in compared.values()}
    held = any(score.mark for setting in settings for score in setting.scores.values())
    notes = {
        NOTE: True,
        NOTE_DENSE: bool(others - {UNCHANGED}),
        NOTE_UNCHANGED: UNCHANGED in others,
        **dict.fromkeys((*varied_note(settings), *limited_note(settings)), True),
        NOTE_AUTHOR: known,
        NOTE_HELD: held,
    }
    return Table(
        name,
        title,
        _columns(settings, *[Column("author", "right")] * known, *map(Column, protocols)),
        _rows(settings, cells),
        tuple(note for note, applies in notes.items() if applies),
        records=tuple(records),
    )


def limited_note(settings: Sequence[Setting]) -> list[str]:
    """Which runs had a part of the data only: a sentence, or none."""
    fewer = sorted({f"{one.data[0]}: {limit}" for one in settings for limit in _limits(one)})
    return [f"Runs on a part of the data: {', '.join(fewer)}."] if fewer else []


def _limits(setting: Setting) -> set[str]:
    return {limit for run in setting.runs for limit in limits(run)}


def author_mean(setting: Setting) -> float | None:
    """The author's number for a setting, if it is one of the author's in full; else None."""
    first = setting.runs[0]
    if first.experiment != "n_hidden" or first.size != "full" or _limits(setting):
        return None
    return width_mean(setting.data[0], setting.model, setting.values.get("model.hidden"))


def _measured(
    name: str, title: str, about: Mapping[str, str], settings: Sequence[Setting]
) -> list[Table]:
    """One table of measurements, or none where nothing was measured."""
    subject = f"{about['experiment']}."
    quantities = sorted(
        dict.fromkeys(quantity for setting in settings for quantity in setting.measured),
        key=lambda quantity: _preference(quantity, subject),
    )
    if quantities in ([], [SECONDS]):  # every run takes time
        return []
    constant = {
        quantity: value
        for quantity in quantities
        if (value := _constant(settings, quantity)) is not None
    }
    varying = [quantity for quantity in quantities if quantity not in constant]
    shown, hidden = varying[:MAX_QUANTITIES], varying[MAX_QUANTITIES:]
    cells = [
        [text(str(len(setting.runs))), *(_cell(setting.measured.get(one)) for one in shown)]
        for setting in settings
    ]
    notes = [NOTE_MEASURED, *varied_note(settings), *_meanings(settings, quantities)]
    if constant:
        pairs = [f"{quantity} = {_digits(value)}" for quantity, value in constant.items()]
        notes.append(f"Equal in all runs: {', '.join(pairs)}.")
    if hidden:
        notes.append(f"{len(hidden)} more quantities are in {name}.csv.")
    heads = ["runs", *(re.sub("[._]", " ", name.removeprefix(subject)) for name in shown)]
    columns = _columns(settings, *(Column(head, "right") for head in heads))
    records = [
        {
            **about,
            **setting.about(),
            "quantity": quantity,
            "n": spread.n,
            "mean": spread.mean,
            "std_ddof1": spread.std,
            **interval_record(spread.interval),
        }
        for setting in settings
        for quantity, spread in setting.measured.items()
    ]
    rows = _rows(settings, cells)
    return [Table(name, title, columns, rows, tuple(notes), records=tuple(records))]


def _preference(quantity: str, subject: str) -> tuple[bool, ...]:
    """What the experiment is about comes first, of that ratios; then foci; time comes last."""
    about = quantity.startswith(subject)
    return quantity == SECONDS, not about, "ratio" not in quantity, not quantity.startswith("foci")


def _meanings(settings: Sequence[Setting], quantities: Sequence[str]) -> list[str]:
    """What the names mean, and which columns are informative if that is the same in all runs."""
    meanings = [
        meaning
        for start, meaning in MEANINGS.items()
        if any(quantity.startswith(start) for quantity in quantities)
    ]
    if not meanings:
        return []
    sizes = [run.sizes for setting in settings for run in setting.runs]
    regions = {(*(size.get("informative") or ()), size.get("inputs")) for size in sizes}
    if len(regions) == 1 and len(region := regions.pop()) == 3:
        meanings[0] += f" (columns {region[0] + 1} to {region[1]} of {region[2]})"
    return [f"{'; '.join(meanings).capitalize()}."]


def _constant(settings: Sequence[Setting], quantity: str) -> float | None:
    """The value that a quantity has in all runs, if it is the same in all."""
    spreads = [setting.measured.get(quantity) for setting in settings]
    means = {spread.mean for spread in spreads if spread and not _differs(spread)}
    complete = all(spread is not None and not _differs(spread) for spread in spreads)
    return means.pop() if len(settings) > 1 and complete and len(means) == 1 else None


def _differs(spread: Spread) -> bool:
    return (spread.std or 0.0) > 1e-12 * abs(spread.mean)  # equal numbers may have a tiny one


def _cell(spread: Spread | None) -> Cell:
    if spread is None:
        return text(NOTHING)
    interval = spread.interval
    if interval is None or interval.method == "constant":
        return text(_digits(spread.mean))
    return text(_digits(spread.mean), f"[{_digits(interval.low)}, {_digits(interval.high)}]")


def _digits(value: float) -> str:
    """Three significant ones."""
    return (f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}").replace("-", "−")
