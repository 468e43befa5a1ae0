"""Tables beyond scores: optimism, course of training, pruning, failed runs, unreadable records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from focusing.errors import printable
from focusing.reports.names import data_name, data_order, edition_order
from focusing.reports.paper import published_tables
from focusing.reports.settings import Edition, Setting, editions, editions_of
from focusing.reports.tables import (
    BLOCK_HEAD,
    DATA_HEAD,
    MODEL,
    NOTHING,
    Column,
    Record,
    Table,
    Unit,
    format_interval,
    interval_record,
    make_table,
    number,
    signed,
    text,
)
from focusing.results.collect import Collection, Run
from focusing.results.frame import frame, group_by, replicate_key
from focusing.results.stats import summarize

PAPER_THRESHOLD = 1.0
"""Pruning threshold at which the paper reports a higher accuracy than without pruning."""
TOLERANCE = 0.1
"""Loss in points of accuracy that is ignored: ten of ten thousand images."""
NOTE_OPTIMISM = (
    "Optimism: score of the paper's protocol (best test epoch) − score of holdout (test at the "
    "best validation epoch), both of the same run, in points of accuracy (MAE: less is better, so "
    "the optimism is negative); mean with 95 % interval (Student's t; bootstrap from 20 runs on), "
    "and the most of any run. Runs without a validation split have no part in it."
)
NOTE_COURSE = (
    "Means over runs that train on all training data. Test loss: its least value, the epoch of "
    "that, its value after the last epoch, and the highest of any epoch and run. A network that "
    "overfits has a last test loss far above its least one. σ: mean aperture of each focused layer."
)
NOTE_PRUNING = (
    "Means over runs, after the last epoch, without training afterwards. Pruned: share of the "
    "connections that were dropped. Phi < t: connections with a small coefficient go, as in the "
    "paper; by magnitude: those with a small weight. As good as unpruned: the largest share up to "
    "which at most a tenth of a point of accuracy is lost. As good as dense: the largest share up "
    "to which the accuracy is at least that of the unpruned dense network."
)


OPTIMISM_COLUMNS = (
    Column("experiment", show="_experiment", once=True),
    DATA_HEAD,
    MODEL,
    Column("n", "right", "n"),
    Column("best_test", "right", "best_test"),
    Column("holdout", "right", "holdout"),
    Column(
        "optimism",
        "right",
        lambda r: text(signed(r["optimism"]), format_interval(r["_interval"], sign=True)),
    ),
    Column("most", "right", lambda record: signed(record["most"])),
)


def optimism_tables(collection: Collection) -> list[Table]:
    """Optimism of the paper's protocol: one table per size and variant."""
    held = [run for run in collection.runs if {"best_test", "holdout"} <= run.scores.keys()]
    groups = group_by(held, lambda run: (run.size, run.variant))
    tables = []
    for size, variant in sorted(groups, key=lambda key: edition_order(*key)):
        records = list(_optimism_records(groups[size, variant]))
        title = f"Optimism of the paper's protocol (size={size}, variant={variant})"
        name = f"optimism_{size}_{variant}"
        tables.append(make_table(name, title, OPTIMISM_COLUMNS, records, [NOTE_OPTIMISM]))
    return tables


def _optimism_records(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """A record per setting, and one for all runs of each real data source."""
    settings = [(edition, setting) for edition in editions_of(runs) for setting in edition.settings]
    for edition, setting in settings:
        yield {
            **edition.columns,
            **setting.block_columns(),
            "model": setting.model,
            **_optimism(setting.runs),
            "_experiment": edition.experiment,
            "_head": setting.head(),
            "_block": edition.experiment,
        }
    accurate = [run for run in runs if run.metric == "accuracy" and run.source != "fake"]
    totals = group_by(accurate, lambda run: run.source) if len(settings) > 1 else {}
    for source, members in totals.items():
        yield {
            **settings[0][0].columns,
            "experiment": "all",
            "source": source,
            **_optimism(members),
            "_experiment": "all of these",
            "_head": source,
            "_block": ("all", source),
        }


def _optimism(runs: Sequence[Run]) -> dict[str, Any]:
    """Both scores of the same runs, in print units; every run counts once."""
    once = {(run.experiment, run.config_hash, replicate_key(run)): run for run in runs}
    unit = Unit(runs[0].metric)
    scores = unit.factor * frame(list(once.values()))["score"]
    gaps = (scores["best_test"] - scores["holdout"]).tolist()
    optimism = summarize(gaps, lower_is_better=unit.lower_is_better)
    return {
        "unit": unit.name,
        "n": optimism.n,
        "best_test": float(scores["best_test"].mean()),
        "holdout": float(scores["holdout"].mean()),
        "optimism": optimism.mean,
        **interval_record(optimism.interval),
        "interval": optimism.interval and optimism.interval.method,
        "std_ddof1": optimism.std,
        "most": optimism.best,
        "_interval": optimism.interval,
    }


COURSE_COLUMNS = (
    BLOCK_HEAD,
    MODEL,
    Column("runs", "right", "n"),
    Column("least test loss at epoch", "right", "least_epoch", digits=0),
    Column("least", "right", "least", digits=3),
    Column("last", "right", "last", digits=3),
    Column("highest", "right", "highest", digits=1),
    Column("training loss, last", "right", "train_last", digits=4),
    Column("σ at first", "right", lambda record: _sigmas(record, "first")),
    Column("σ at last", "right", lambda record: _sigmas(record, "last")),
)


def course_tables(collection: Collection) -> list[Table]:
    """Losses and apertures over training: one table per edition of the paper's tables."""
    tables = []
    order = list(published_tables())
    of_paper = [edition for edition in editions(collection) if edition.experiment in order]
    for edition in sorted(of_paper, key=lambda edition: order.index(edition.experiment)):
        name = edition.table_name("course")
        title = f"{edition.title}: course of training {edition.qualifier}"
        if records := list(_course_records(edition)):
            tables.append(make_table(name, title, COURSE_COLUMNS, records, [NOTE_COURSE]))
    return tables


def _course_records(edition: Edition) -> Iterator[dict[str, Any]]:
    for setting in sorted(edition.settings, key=lambda setting: data_order(setting.data)):
        full = [run for run in setting.runs if not run.holdout]
        courses = pd.DataFrame([course for run in full if (course := _course(run))])
        if len(courses):
            yield {
                **_named(edition, setting),
                "n": len(courses),
                **courses.mean().to_dict(),
                "highest": float(courses["highest"].max()),
                **_apertures(full),
                "_block": setting.block,
            }


def _named(edition: Edition, setting: Setting) -> dict[str, Any]:
    return {
        **edition.columns,
        "data": setting.data,
        "options": " ".join(setting.overrides),
        "model": setting.model,
        "epochs": setting.epochs,
        "_head": setting.head(),
    }


def _course(run: Run) -> dict[str, float]:
    series = run.series()
    test = [math.inf if loss is None else loss for loss in series.get("test/loss") or []]
    train = [loss for loss in series.get("train/loss") or [] if loss is not None]
    if not test or not train:
        return {}
    return {
        "least_epoch": test.index(min(test)) + 1.0,
        "least": min(test),
        "last": test[-1],
        "highest": max(test),
        "train_last": train[-1],
    }


def _apertures(runs: Sequence[Run]) -> dict[str, float]:
    """Mean aperture of each focused layer at the start and the end."""
    means = {}
    for when in ("first", "last"):
        for place, layer in enumerate(runs[0].focus, start=1):
            values = [run.focus.get(layer, {}).get(f"sigma_{when}") for run in runs]
            if None not in values:
                means[f"sigma_{when}_{place}"] = float(np.mean(values))
    return means


def _sigmas(record: Record, when: str) -> str:
    values = [value for name, value in record.items() if name.startswith(f"sigma_{when}_")]
    return " / ".join(number(value, 3) for value in values) or NOTHING


PRUNING_COLUMNS = (
    DATA_HEAD,
    MODEL,
    Column("runs", "right", "n"),
    Column("unpruned (%)", "right", "unpruned"),
    Column("phi < 1: pruned (%)", "right", "paper_pruned"),
    Column("accuracy (%)", "right", "paper_accuracy"),
    Column("as good as unpruned, up to (%)", "right", "keeps", digits=1),
    Column("at t", "right", "keeps_threshold", digits=1),
    Column("by magnitude, up to (%)", "right", "keeps_magnitude", digits=1),
    Column("with 80 % so pruned (%)", "right", "magnitude_80"),
    Column("as good as dense, up to (%)", "right", "as_dense"),
)


def pruning_tables(collection: Collection) -> list[Table]:
    """Accuracy after pruning: one table per edition that measured it."""
    measured = [
        run for run in collection.runs if (run.measured.get("pruning") or {}).get("magnitude")
    ]
    tables = []
    for edition in editions_of(measured):
        records = [
            _named(edition, setting) | pruned
            for setting in edition.settings
            if (pruned := _pruned(setting, edition.dense_twin(setting)))
        ]
        if records:
            name = edition.table_name("pruning")
            title = f"Pruning (experiment {edition.experiment}, {edition.qualifier[1:]}"
            tables.append(make_table(name, title, PRUNING_COLUMNS, records, [NOTE_PRUNING]))
    return tables


def pruning_curve(setting: Setting | None, rule: str) -> list[dict[str, Any]]:
    """Pruning curve of a setting: means over its runs, point by point; empty if not measured.

    Args:
        setting: the setting; None has no points.
        rule: ``curve`` prunes by thresholds of phi, ``magnitude`` the smallest weights.
    """
    measured = [run.measured.get("pruning") or {} for run in (setting.runs if setting else ())]
    curves = [pruning[rule] for pruning in measured if pruning.get(rule)]
    points = []
    for same in zip(*curves, strict=False):
        metric = "acc" if "acc" in same[0] else "mae"
        scores = [point[metric] * (100 if metric == "acc" else 1) for point in same]
        points.append(
            {
                "threshold": same[0].get("threshold"),
                "sparsity": 100 * fmean(point["sparsity"] for point in same),
                "unit": "percent" if metric == "acc" else metric,
                "score": fmean(scores),
                "lowest": min(scores),
                "highest": max(scores),
                "n": len(same),
            }
        )
    return points


def _pruned(setting: Setting, dense: Setting | None) -> dict[str, Any]:
    """Accuracy at the paper's threshold, and prunable shares; empty if not measured."""
    by_phi, by_size = pruning_curve(setting, "curve"), pruning_curve(setting, "magnitude")
    if not by_size or by_size[0]["sparsity"] > 0 or by_size[0]["unit"] != "percent":
        return {}
    unpruned = by_size[0]["score"]
    record = {"n": len(setting.runs), "unpruned": unpruned}
    record["keeps_magnitude"] = _keeps(by_size, unpruned - TOLERANCE)["sparsity"]
    record["magnitude_80"] = min(by_size, key=lambda point: abs(point["sparsity"] - 80))["score"]
    if by_phi:
        paper = min(by_phi, key=lambda point: abs(point["threshold"] - PAPER_THRESHOLD))
        keeps = _keeps(by_phi, unpruned - TOLERANCE)
        record |= {
            "paper_threshold": paper["threshold"],
            "paper_pruned": paper["sparsity"],
            "paper_accuracy": paper["score"],
            "keeps": keeps["sparsity"],
            "keeps_threshold": keeps["threshold"],
            "best_accuracy": max(point["score"] for point in by_phi),
        }
    base = pruning_curve(dense, "magnitude")
    if by_phi and base:
        record["as_dense"] = _keeps(by_phi, base[0]["score"])["sparsity"]
        record["dense"] = base[0]["score"]
    return record


def _keeps(curve: Sequence[dict[str, Any]], accuracy: float) -> dict[str, Any]:
    """Last point of a curve before the accuracy falls below this one."""
    good = takewhile(lambda point: point["score"] >= accuracy - 1e-9, curve)
    return [curve[0], *good][-1]


def failed_tables(collection: Collection) -> list[Table]:
    """A table of failed runs, if there are any."""
    records = [
        {
            "experiment": run.experiment,
            "data": run.data,
            "model": run.model,
            "seed": run.seed,
            "error": run.error,
            "folder": _short(run.path),
        }
        for run in collection.failed
    ]
    columns = (
        Column("experiment", show="experiment"),
        Column("data", show=lambda record: data_name(record["data"])),
        MODEL,
        Column("seed", show="seed"),
        Column("error", show=lambda record: ((record["error"] or "").splitlines() or [NOTHING])[0]),
        Column("folder", show="folder"),
    )
    note = "No number of these runs is in any other table."
    return [make_table("failed", "Failed runs", columns, records, [note])] if records else []


def unreadable_tables(collection: Collection) -> list[Table]:
    """A table of unreadable records, if there are any."""
    records = [{"file": _short(path), "reason": reason} for path, reason in collection.unreadable]
    columns = (Column("file", show="file"), Column("reason", show="reason"))
    note = "These files are not as a run or focusing archive leaves them."
    title = "Unreadable records"
    return [make_table("unreadable", title, columns, records, [note])] if records else []


def _short(path: Path) -> str:
    """The last parts of a path, which do not depend on where the results are."""
    return printable("/".join(path.parts[-4 if path.suffix else -3 :]))
