"""What the seeds of an experiment say: how many learnt, and which option validation chooses."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from focusing.reports.names import data_name, model_name
from focusing.reports.tables import Column, Record, Table, Unit, file_name, number, table_of, text
from focusing.reports.tables.run_blocks import editions
from focusing.reports.tables.settings import Setting, settings_of
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by

LEARNT = 0.5
"""Share of the way from chance to all test samples right from which a network has learnt."""
NOTE_LEARNT = (
    "A run has learnt if its test accuracy is at least half-way from chance to 100 %: 55 % with "
    "ten classes. Spread: standard deviation of the windows' centres over test samples, in frames; "
    "about 0 means that all look at the same place."
)
NOTE_CHOSEN = (
    "Of settings of the same model on the same data, the one with the best mean score on the "
    "validation split; the test data has no part in the choice. Test: holdout score, mean over "
    "runs."
)


def learnt_tables(collection: Collection) -> list[Table]:
    """For every experiment with dynamic foci: how many seeds of each setting learnt."""
    tables = []
    for about, runs in editions([run for run in collection.runs if run.trial is None]):
        settings = [s for s in settings_of(runs) if "windows" in s.runs[0].measured]
        records = [record for setting in settings for record in _learnt(about, setting)]
        if records:
            tables.append(_table("learnt", "seeds that learnt", about, LEARNT_COLUMNS, records))
    return tables


def _learnt(about: Record, setting: Setting) -> list[dict[str, Any]]:
    first = setting.runs[0]
    classes = first.sizes.get("classes")
    if not classes or first.metric != "accuracy":
        return []
    threshold = 1 / classes + LEARNT * (1 - 1 / classes)
    scores = [run.scores[run.protocol] for run in setting.runs]
    failed = sorted(run.seed for run in setting.runs if run.scores[run.protocol] < threshold)
    spreads = [run.measured["windows"]["spread"] for run in setting.runs if _has_windows(run)]
    return [
        {
            **_named(about, setting),
            "protocol": first.protocol,
            "threshold": 100 * threshold,
            "runs": len(scores),
            "learnt": len(scores) - len(failed),
            "failed_seeds": " ".join(map(str, failed)),
            "worst": 100 * min(scores),
            "mean": 100 * fmean(scores),
            "best": 100 * max(scores),
            "spread": fmean(spreads) if spreads else None,
        }
    ]


def _has_windows(run: Run) -> bool:
    return "spread" in (run.measured.get("windows") or {})


def chosen_tables(collection: Collection) -> list[Table]:
    """For every experiment that swept options of a model: which values validation chooses."""
    tables = []
    for about, runs in editions([run for run in collection.runs if run.trial is None]):
        validated = [s for s in settings_of(runs) if all(r.validation is not None for r in s.runs)]
        records = []
        for same in group_by(validated, _network).values():
            if len(same) > 1 and "holdout" in same[0].scores:
                records.append(_chosen(about, same))
        if records:
            tables.append(_table("chosen", "chosen by validation", about, CHOSEN_COLUMNS, records))
    return tables


def _network(setting: Setting) -> tuple[Any, ...]:
    """What the settings that validation chooses from share; fixed foci are no rivals of trained."""
    model = setting.runs[0].config["model"]
    fixed = not (model.get("train_mu", True) or model.get("train_sigma", True))
    data = {name: value for name, value in setting.values.items() if name.startswith("data.")}
    return setting.data, str(data), setting.model, fixed


def _chosen(about: Record, settings: Sequence[Setting]) -> dict[str, Any]:
    unit = Unit(settings[0].runs[0].metric)
    sign = -1 if unit.lower_is_better else 1
    means = [fmean(run.validation or 0.0 for run in setting.runs) for setting in settings]
    best = max(range(len(settings)), key=lambda place: sign * means[place])
    others = [", ".join(setting.label()) for setting in settings if setting is not settings[best]]
    tests = [run.scores["holdout"] for run in settings[best].runs]
    return {
        **_named(about, settings[best]),
        "chosen": ", ".join(settings[best].label()),
        "among": "; ".join(others),
        "runs": len(tests),
        "unit": unit.name,
        "validation": unit.factor * means[best],
        "test": unit.factor * fmean(tests),
    }


def _named(about: Record, setting: Setting) -> dict[str, Any]:
    shown = ", ".join(setting.label())
    return {**about, **setting.about(), "_options": shown, "_block": setting.data}


def _table(
    name: str, what: str, about: Record, columns: Sequence[Column], records: Sequence[Record]
) -> Table:
    title = "Experiment {experiment} (size={size}, variant={variant})".format(**about)
    notes = [NOTE_LEARNT if name == "learnt" else NOTE_CHOSEN]
    return table_of(file_name(name, *about.values()), f"{title}: {what}", columns, records, notes)


def _column(title: str, key: str, digits: int = 2) -> Column:
    def show(record: Record) -> str:
        value = record[key]
        return number(value, digits) if isinstance(value, float) else str(value)

    return Column(title, "right", show)


NAMED = (
    Column("data", show=lambda record: text(data_name(record["data"]), record["source"])),
    Column("model", show=lambda record: model_name(record["model"])),
)
LEARNT_COLUMNS = (
    *NAMED,
    Column("setting", show=lambda record: record["_options"]),
    Column("learnt", "right", lambda record: f"{record['learnt']} of {record['runs']}"),
    _column("from", "threshold", 0),
    _column("worst", "worst"),
    _column("mean", "mean"),
    _column("best", "best"),
    Column("spread", "right", lambda record: number(record["spread"], 3)),
    Column("seeds that did not", show=lambda record: record["failed_seeds"] or "none"),
)
CHOSEN_COLUMNS = (
    *NAMED,
    Column("chosen", show=lambda record: record["chosen"]),
    Column("among", show=lambda record: record["among"]),
    _column("runs", "runs"),
    _column("validation", "validation"),
    _column("test", "test"),
)
