"""Runs that failed, and records that cannot be read."""

from __future__ import annotations

from pathlib import Path

from focusing.errors import printable
from focusing.reports.names import data_name, model_name
from focusing.reports.tables import Column, Row, Table, text
from focusing.results.collect import Collection

COLUMNS = tuple(map(Column, ("experiment", "data", "model", "seed", "error", "folder")))


def failed_tables(collection: Collection) -> list[Table]:
    """One table, or none."""
    rows, records = [], []
    for run in collection.failed:
        told = (run.error or "").splitlines()[:1]
        named = (run.experiment, data_name(run.data), model_name(run.model), str(run.seed))
        cells = (*named, *(told or ["–"]), _short(run.path))
        rows.append(Row(tuple(map(text, cells)), {"data": run.data, "model": run.model}))
        whole = (run.experiment, run.data, run.model, run.seed, run.error, cells[-1])
        records.append(dict(zip([each.title for each in COLUMNS], whole, strict=True)))
    if not rows:
        return []
    notes = ("No number of these runs is in any other table.",)
    return [
        Table("failed", "Failed runs", COLUMNS, tuple(rows), notes, records=tuple(records)),
    ]


def unreadable_tables(collection: Collection) -> list[Table]:
    """One table, or none."""
    told = [(_short(path), reason) for path, reason in collection.unreadable]
    if not told:
        return []
    titles = ("file", "reason")
    return [
        Table(
            "unreadable",
            "Unreadable records",
            tuple(map(Column, titles)),
            tuple(Row((text(file), text(reason))) for file, reason in told),
            ("These files are not as a run or focusing archive leaves them.",),
            records=tuple(dict(zip(titles, each, strict=True)) for each in told),
        )
    ]


def _short(path: Path) -> str:
    """The part that is the same wherever the folder of all results is."""
    return printable("/".join(path.parts[-4 if path.suffix else -3 :]))
