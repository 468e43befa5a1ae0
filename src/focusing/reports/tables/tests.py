"""The t-tests of a table, beside the paper's."""

from __future__ import annotations

from focusing.reports.names import model_name
from focusing.reports.paper import PublishedTest
from focusing.reports.tables import Cell, Column, Row, Table, between, number, p_value, signed, text
from focusing.reports.tables.sheet import SIGNIFICANT, Sheet

COLUMNS = (
    Column("data"),
    Column("comparison"),
    Column("difference", "right"),
    Column("Student", "right"),
    Column("Welch", "right"),
    Column("paired", "right"),
    Column("resampled", "right"),
    Column("g", "right"),
    Column("P(better)", "right"),
    Column("published", "right"),
)
NOTES = (
    "Difference of means with 95 % interval, in points or units of the MAE. Two-sided t-tests: "
    "Student's with equal variances, as in the paper; Welch's; paired. Where repeats are folds or "
    "splits of the data and all pair up, the paired test counts, else Welch's: the interval is "
    "that test's, and its p is also given after Holm's correction over the tests of this table "
    "under the same protocol (bold: below 0.05), in which a data set counts once, whatever its "
    "lengths. Resampled: the paired test corrected for random splits, whose test sets overlap "
    "(Nadeau and Bengio), with the same correction. Intervals are not corrected. Fake data are a "
    "family of their own. g: Hedges' g. P(better): probability that a run of the "
    "first model beats one of the second, over all pairs, a tie counting half. The signs of "
    "published t are those of the comparison.",
)


def tests_table(sheet: Sheet) -> Table:
    """The tests of a table of the paper: each model against the first of its block."""
    rows, records = [], []
    last = None
    for place, found in sorted(sheet.tested().items(), key=lambda each: each[0][0]):
        block, model, protocol = sheet.blocks[place[0]], *place[1:]
        base, holm = sheet.models(block)[0], sheet.corrected[place]
        printed = sheet.published.tests.get(block.data)
        same = block.as_published and protocol == "paper"
        if not same or printed is None or printed.models != (base, model):
            printed = None
        begins, last = block is not last, block
        rows.append(
            Row(
                (
                    block.head() if begins else Cell(),
                    text(
                        f"{model_name(model)} − {model_name(base)}",
                        f"{protocol}, n={found.n[0]}/{found.n[1]}",
                    ),
                    text(signed(found.difference), between(found.interval, sign=True)),
                    text(f"t={number(found.t)}", f"p={p_value(found.p_student)}"),
                    _tested(found.p_welch, holm if found.test == "Welch" else None),
                    _tested(found.p_paired, holm if found.test == "paired" else None),
                    _resampled(found.p_resampled, sheet.resampled.get(place)),
                    text(number(found.g)),
                    text(number(found.improvement)),
                    _printed(printed),
                ),
                {"data": block.data, "model": model, "protocol": protocol},
                begins,
            )
        )
        interval = found.interval
        records.append(
            {
                "data": block.data,
                "source": block.source,
                "options": " ".join(block.options),
                "model": model,
                "other": base,
                "protocol": protocol,
                "n_model": found.n[0],
                "n_other": found.n[1],
                "pairs": found.pairs,
                "difference": found.difference,
                "low": interval and interval.low,
                "high": interval and interval.high,
                "interval": interval and interval.method,
                "t_student": found.t,
                "p_student": found.p_student,
                "p_welch": found.p_welch,
                "p_paired": found.p_paired,
                "p_resampled": found.p_resampled,
                "p_resampled_holm": sheet.resampled.get(place),
                "test": found.test,
                "p": found.p,
                "p_holm": holm,
                "hedges_g": found.g,
                "probability_of_improvement": found.improvement,
                "published_t": printed and -printed.t,
                "published_p": printed and printed.p,
            }
        )
    title = f"{sheet.title}: t-tests"
    return Table(f"{sheet.name}_tests", title, COLUMNS, tuple(rows), NOTES, records=tuple(records))


def _tested(p: float | None, holm: float | None) -> Cell:
    corrected = "" if holm is None else f"Holm {p_value(holm)}"
    return text(corrected, f"p={p_value(p)}", bold=holm is not None and holm < SIGNIFICANT)


def _resampled(p: float | None, holm: float | None) -> Cell:
    return Cell() if p is None else _tested(p, holm)


def _printed(test: PublishedTest | None) -> Cell:
    if test is None:
        return Cell()
    t = -test.t  # the paper subtracts the other way round
    return text(f"t={number(t, 2 if abs(t) >= 0.01 else 3)}", f"p={p_value(test.p)}")
