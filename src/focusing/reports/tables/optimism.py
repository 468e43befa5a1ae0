"""How optimistic the paper's protocol is: the best test epoch against an honestly chosen one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from focusing.reports.names import edition, model_name
from focusing.reports.tables import Cell, Column, Row, Table, Unit, between, number, signed, text
from focusing.reports.tables.cells import blocks
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by, replicate_key
from focusing.results.stats import Spread, spread

COLUMNS = (
    Column("experiment"),
    Column("data"),
    Column("model"),
    Column("n", "right"),
    Column("paper", "right"),
    Column("holdout", "right"),
    Column("optimism", "right"),
    Column("most", "right"),
)
NOTES = (
    "Optimism: score of the paper's protocol (best test epoch) − score of holdout (test at the "
    "best validation epoch), both of the same run, in points of accuracy (MAE: less is better, so "
    "the optimism is negative); mean with 95 % interval (Student's t; bootstrap from 20 runs on), "
    "and the most of any run. Runs without a validation split have no part in it.",
)
Pair = tuple[float, float]


def optimism_tables(collection: Collection) -> list[Table]:
    """One table for each size and variant; none without runs that kept a validation split."""
    held = [run for run in collection.runs if {"paper", "holdout"} <= run.scores.keys()]
    tables = []
    groups = group_by(held, lambda run: (run.size, run.variant))
    for size, variant in sorted(groups, key=lambda key: edition(*key)):
        runs = groups[size, variant]
        rows, records = [], []
        for experiment, those in group_by(runs, lambda run: run.experiment).items():
            begins = True
            for block in blocks(those):
                for model, same in block.models.items():
                    pairs, unit = _pairs(same), Unit(same[0].metric)
                    named = (text(experiment) if begins else Cell(), block.head())
                    tags = {"data": block.data, "model": model}
                    cells = (*named, text(model_name(model)), *_cells(pairs, unit))
                    rows.append(Row(cells, tags, begins))
                    about = {
                        "experiment": experiment,
                        "size": size,
                        "variant": variant,
                        "data": block.data,
                        "source": block.source,
                        "options": " ".join(block.options),
                        "model": model,
                    }
                    records.append({**about, **_record(pairs, unit)})
                    begins = False
        accurate = [run for run in runs if run.metric == "accuracy"]
        for source, those in group_by(accurate, lambda run: run.source).items():
            if len(rows) > 1 and source != "fake":
                total = (text("all of these"), text(source), Cell())
                cells = _cells(_pairs(those), Unit("accuracy"))
                rows.append(Row((*total, *cells), {}, begins=True))
                about = {"experiment": "all", "size": size, "variant": variant, "source": source}
                records.append({**about, **_record(_pairs(those), Unit("accuracy"))})
        title = f"Optimism of the paper's protocol (size={size}, variant={variant})"
        name = f"optimism_{size}_{variant}"
        tables.append(Table(name, title, COLUMNS, tuple(rows), NOTES, records=tuple(records)))
    return tables


def _pairs(runs: Sequence[Run]) -> list[Pair]:
    """Both scores of each run, each run once, in print units."""
    once = {(run.experiment, run.config_hash, replicate_key(run)): run for run in runs}
    return [
        (factor * run.scores["paper"], factor * run.scores["holdout"])
        for run in once.values()
        for factor in [Unit(run.metric).factor]
    ]


def _optimism(pairs: Sequence[Pair], unit: Unit) -> Spread:
    gaps = [paper - holdout for paper, holdout in pairs]
    return spread(gaps, lower_is_better=unit.lower_is_better)


def _cells(pairs: Sequence[Pair], unit: Unit) -> tuple[Cell, ...]:
    found = _optimism(pairs, unit)
    return (
        text(str(found.n)),
        text(number(sum(paper for paper, _ in pairs) / found.n)),
        text(number(sum(holdout for _, holdout in pairs) / found.n)),
        text(signed(found.mean), between(found.interval, sign=True)),
        text(signed(found.best)),
    )


def _record(pairs: Sequence[Pair], unit: Unit) -> Mapping[str, Any]:
    found = _optimism(pairs, unit)
    interval = found.interval
    return {
        "unit": unit.name,
        "n": found.n,
        "paper": sum(paper for paper, _ in pairs) / found.n,
        "holdout": sum(holdout for _, holdout in pairs) / found.n,
        "optimism": found.mean,
        "low": interval and interval.low,
        "high": interval and interval.high,
        "interval": interval and interval.method,
        "std_ddof1": found.std,
        "most": found.best,
    }
