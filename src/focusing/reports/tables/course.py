"""The course of training in the paper's tables: overfitting, losses that explode, apertures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from focusing.reports.names import data_order, edition, model_name
from focusing.reports.paper import published_tables
from focusing.reports.tables import NOTHING, Cell, Column, Row, Table, number, text
from focusing.reports.tables.cells import blocks
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by

COLUMNS = (
    Column("data"),
    Column("model"),
    Column("runs", "right"),
    Column("least test loss at epoch", "right"),
    Column("least", "right"),
    Column("last", "right"),
    Column("highest", "right"),
    Column("training loss, last", "right"),
    Column("σ at first", "right"),
    Column("σ at last", "right"),
)
NOTE = (
    "Means over runs that train on all training data. Test loss: its least value, the epoch of "
    "that, its value after the last epoch, and the highest of any epoch and run. A network that "
    "overfits has a last test loss far above its least one. σ: mean aperture of each focused layer."
)


def course_tables(collection: Collection) -> list[Table]:
    """One for each table of the paper, size and variant."""
    tables = []
    for experiment, published in published_tables().items():
        groups = group_by(collection.of(experiment), lambda run: (run.size, run.variant))
        for size, variant in sorted(groups, key=lambda key: edition(*key)):
            title = f"{published.title}: course of training (size={size}, variant={variant})"
            records = list(_records(groups[size, variant]))
            about = {"experiment": experiment, "size": size, "variant": variant}
            tables.append(
                Table(
                    f"course_{experiment}_{size}_{variant}",
                    title,
                    COLUMNS,
                    tuple(map(_row, records)),
                    (NOTE,),
                    records=tuple(about | _plain(record) for record in records),
                )
            )
    return [table for table in tables if table.rows]


def _records(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    for block in sorted(blocks(runs), key=lambda block: data_order(block.data)):
        head = block.head()
        for model, same in block.models.items():
            full = [run for run in same if not run.holdout]
            courses = [course for run in full if (course := _course(run))]
            if not courses:
                continue
            record = {
                "head": head,
                "data": block.data,
                "options": " ".join(block.options),
                "model": model,
                "epochs": block.epochs,
                "n": len(courses),
                **{name: _mean([each[name] for each in courses]) for name in courses[0]},
                "highest": max(each["highest"] for each in courses),
                **_apertures(full),
            }
            yield record
            head = Cell()


def _course(run: Run) -> dict[str, float]:
    series = run.series()
    test = [math.inf if loss is None else loss for loss in series.get("test/loss") or []]
    train = [loss for loss in series.get("train/loss") or [] if loss is not None]
    if not test or not train:
        return {}
    least = min(test)
    return {
        "least_epoch": test.index(least) + 1.0,
        "least": least,
        "last": test[-1],
        "highest": max(test),
        "train_last": train[-1],
    }


def _apertures(runs: Sequence[Run]) -> dict[str, float]:
    """Mean aperture of each focused layer, at the start and at the end."""
    return {
        f"sigma_{when}_{place + 1}": _mean([run.focus[layer][f"sigma_{when}"] for run in runs])
        for when in ("first", "last")
        for place, layer in enumerate(runs[0].focus)
        if all(f"sigma_{when}" in run.focus.get(layer, {}) for run in runs)
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "head"}


def _row(record: Mapping[str, Any]) -> Row:
    return Row(
        (
            record["head"],
            text(model_name(record["model"])),
            text(str(record["n"])),
            text(number(record["least_epoch"], 0)),
            *(text(number(record[name], 3)) for name in ("least", "last")),
            text(number(record["highest"], 1)),
            text(number(record["train_last"], 4)),
            *(text(_sigmas(record, when)) for when in ("first", "last")),
        ),
        {"data": record["data"], "model": record["model"]},
        begins=record["head"].lines != ("",),
    )


def _sigmas(record: Mapping[str, Any], when: str) -> str:
    values = [value for name, value in record.items() if name.startswith(f"sigma_{when}_")]
    return " / ".join(number(value, 3) for value in values) or NOTHING
