"""What pruning does to accuracy: at the paper's threshold, and how much can go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from focusing.reports.names import dense_twin, edition, model_name
from focusing.reports.tables import NOTHING, Column, Row, Table, number, text
from focusing.reports.tables.cells import blocks
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by

PAPER_THRESHOLD = 1.0
"""At which the paper found a higher accuracy than without pruning."""
TOLERANCE = 0.1
"""Points of accuracy that count as none: ten of ten thousand images."""
COLUMNS = (
    Column("data"),
    Column("model"),
    Column("runs", "right"),
    Column("unpruned (%)", "right"),
    Column("phi < 1: pruned (%)", "right"),
    Column("accuracy (%)", "right"),
    Column("as good as unpruned, up to (%)", "right"),
    Column("at t", "right"),
    Column("by magnitude, up to (%)", "right"),
    Column("as good as dense, up to (%)", "right"),
)
SHOWN = ("unpruned", "paper_pruned", "paper_accuracy", "keeps", "keeps_threshold",
         "keeps_magnitude", "as_dense")  # fmt: skip
"""What the columns after the number of runs hold."""
NOTE = (
    "Means over runs, after the last epoch, without training afterwards. Pruned: share of the "
    "connections that were dropped. Phi < t: connections with a small coefficient go, as in the "
    "paper; by magnitude: those with a small weight. As good as: the largest share up to which the "
    "accuracy is less than a tenth of a point below that of the unpruned network, or the dense one."
)


def pruning_tables(collection: Collection) -> list[Table]:
    """One for each experiment, size and variant in which pruning was measured."""
    having = [
        run for run in collection.runs if (run.measured.get("pruning") or {}).get("magnitude")
    ]
    groups = group_by(having, lambda run: (run.experiment, run.size, run.variant))
    tables = []
    for key in sorted(groups, key=lambda key: (key[0], *edition(*key[1:]))):
        rows: list[Row] = []
        records: list[dict[str, Any]] = []
        for block in blocks(groups[key]):
            for model, runs in block.models.items():
                dense = block.models.get(dense_twin(model), [])
                record = _record(runs, dense if model != dense_twin(model) else [])
                if record is None:
                    continue
                about = dict(zip(("experiment", "size", "variant"), key, strict=True))
                about |= {"data": block.data, "options": " ".join(block.options), "model": model}
                records.append({**about, "epochs": block.epochs, **record})
                shown = (text(_show(name, record.get(name))) for name in SHOWN)
                cells = (block.head(), text(model_name(model)), text(str(record["n"])), *shown)
                rows.append(Row(cells, {"data": block.data, "model": model}, begins=not rows))
        if rows:
            title = f"Pruning (experiment {key[0]}, size={key[1]}, variant={key[2]})"
            name = "_".join(("pruning", *key))
            table = Table(name, title, COLUMNS, tuple(rows), (NOTE,), records=tuple(records))
            tables.append(table)
    return tables


def _record(runs: Sequence[Run], dense: Sequence[Run]) -> dict[str, Any] | None:
    by_phi, by_size = _curve(runs, "curve"), _curve(runs, "magnitude")
    if not by_size or by_size[0]["sparsity"] > 0 or "acc" not in by_size[0]:
        return None
    unpruned = by_size[0]["acc"]
    record = {"n": len(runs), "unpruned": unpruned}
    record["keeps_magnitude"] = _keeps(by_size, unpruned)["sparsity"]
    if by_phi:
        paper = min(by_phi, key=lambda point: abs(point["threshold"] - PAPER_THRESHOLD))
        keeps = _keeps(by_phi, unpruned)
        record |= {
            "paper_threshold": paper["threshold"],
            "paper_pruned": paper["sparsity"],
            "paper_accuracy": paper["acc"],
            "keeps": keeps["sparsity"],
            "keeps_threshold": keeps["threshold"],
            "best_accuracy": max(point["acc"] for point in by_phi),
        }
    base = _curve(dense, "magnitude")
    if by_phi and base:
        record["as_dense"] = _keeps(by_phi, base[0]["acc"])["sparsity"]
        record["dense"] = base[0]["acc"]
    return record


def _curve(runs: Sequence[Run], rule: str) -> list[dict[str, float]]:
    """Means over runs, point by point, in percent."""
    curves = [curve for run in runs if (curve := run.measured["pruning"].get(rule))]
    return [
        {
            name: float(np.mean([point[name] for point in points])) * factor
            for name, factor in (("threshold", 1), ("sparsity", 100), ("acc", 100))
            if name in points[0]
        }
        for points in zip(*curves, strict=False)
    ]


def _keeps(curve: Sequence[dict[str, float]], accuracy: float) -> dict[str, float]:
    """The last point before the accuracy falls below this one."""
    good = curve[0]
    for point in curve:
        if point["acc"] < accuracy - TOLERANCE - 1e-9:
            break
        good = point
    return good


def _show(name: str, value: float | None) -> str:
    return NOTHING if value is None else number(value, 1 if name.startswith("keeps") else 2)
