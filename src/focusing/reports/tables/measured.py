"""What callbacks measured in an experiment: times, sparsity, movement of the foci."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from focusing.reports.names import data_name, model_name
from focusing.reports.tables import NOTHING, Cell, Column, Row, Table, text
from focusing.reports.tables.labels import option_columns
from focusing.reports.tables.quantities import EXPLAINED
from focusing.reports.tables.settings import Setting, varied_note
from focusing.results.frame import SECONDS
from focusing.results.stats import Spread

SHOWN = 8
"""Columns of measurements; the CSV file has all."""
NOTE = "Means over runs with 95 % interval (Student's t; bootstrap from 20 runs on)."


def measured_tables(
    name: str, title: str, about: Mapping[str, str], found: Sequence[Setting]
) -> list[Table]:
    """One table, or none where nothing was measured.

    Args:
        name: of its files.
        title: in print.
        about: what all records have in common.
        found: the settings.
    """
    subject = f"{about['experiment']}."
    names = sorted(
        dict.fromkeys(each for setting in found for each in setting.measured),
        key=lambda each: _preference(each, subject),
    )
    if names in ([], [SECONDS]):  # every run takes time
        return []
    equal = {each: value for each in names if (value := _everywhere(found, each)) is not None}
    shown = [each for each in names if each not in equal][:SHOWN]
    rows = []
    heads, swept = option_columns(found)
    for place, each in enumerate(found):
        begins = place == 0 or each.data != found[place - 1].data
        cells = [
            text(data_name(each.data[0]), each.data[1]) if begins else Cell(),
            text(model_name(each.model)),
            *swept[place],
            text(str(len(each.runs))),
            *(_cell(each.measured.get(quantity)) for quantity in shown),
        ]
        rows.append(Row(tuple(cells), {"data": each.data[0], "model": each.model}, begins))
    notes = [NOTE, *varied_note(found), *_explained(found, names)]
    if equal:
        pairs = [f"{quantity} = {_digits(value)}" for quantity, value in equal.items()]
        notes.append(f"Equal in all runs: {', '.join(pairs)}.")
    left = len(names) - len(equal) - len(shown)
    if left:
        notes.append(f"{left} more quantities are in {name}.csv.")
    columns = (
        Column("data"),
        Column("model"),
        *heads,
        Column("runs", "right"),
        *(Column(_words(each.removeprefix(subject)), "right") for each in shown),
    )
    records = [
        {**about, **setting.about(), "quantity": quantity, **_record(spread)}
        for setting in found
        for quantity, spread in setting.measured.items()
    ]
    return [Table(name, title, columns, tuple(rows), tuple(notes), records=tuple(records))]


def _preference(name: str, subject: str) -> tuple[bool, ...]:
    """What the experiment is about comes first, of that ratios; then foci; time comes last."""
    about = name.startswith(subject)
    return name == SECONDS, not about, "ratio" not in name, not name.startswith("foci")


def _explained(found: Sequence[Setting], names: Sequence[str]) -> list[str]:
    """What the names mean, and which columns are informative if that is the same in all runs."""
    told = [
        meaning
        for start, meaning in EXPLAINED.items()
        if any(each.startswith(start) for each in names)
    ]
    if not told:
        return []
    sizes = [run.sizes for each in found for run in each.runs]
    regions = {(*(each.get("informative") or ()), each.get("inputs")) for each in sizes}
    if len(regions) == 1 and len(region := regions.pop()) == 3:
        told[0] += f" (columns {region[0] + 1} to {region[1]} of {region[2]})"
    return [f"{'; '.join(told).capitalize()}."]


def _everywhere(found: Sequence[Setting], quantity: str) -> float | None:
    """The value that a quantity has in all runs, if it is the same in all."""
    spreads = [setting.measured.get(quantity) for setting in found]
    if len(found) < 2 or any(each is None or _differs(each) for each in spreads):
        return None
    values = {each.mean for each in spreads if each is not None}
    return values.pop() if len(values) == 1 else None


def _differs(spread: Spread) -> bool:
    return (spread.std or 0.0) > 1e-12 * abs(spread.mean)  # equal numbers may have a tiny one


def _words(quantity: str) -> str:
    return quantity.replace(".", " ").replace("_", " ")  # so that a head can have several lines


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


def _record(spread: Spread) -> Mapping[str, object]:
    interval = spread.interval
    return {
        "n": spread.n,
        "mean": spread.mean,
        "std_ddof1": spread.std,
        "low": interval and interval.low,
        "high": interval and interval.high,
    }
