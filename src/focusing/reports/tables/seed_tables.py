"""What the seeds of an experiment say: how many learnt, and which option validation chooses."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from focusing.reports.names import data_name, model_name
from focusing.reports.settings import Edition, Setting, editions
from focusing.reports.tables import Column, Table, file_name, table_of, text
from focusing.results.collect import Collection
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
    for edition in editions(collection):
        settings = [s for s in edition.settings if "windows" in s.runs[0].measured]
        records = [_named(edition, s) | learnt for s in settings if (learnt := _learnt(s))]
        if records:
            name, title = _names("learnt", edition, "seeds that learnt")
            tables.append(table_of(name, title, LEARNT_COLUMNS, records, [NOTE_LEARNT]))
    return tables


def _learnt(setting: Setting) -> dict[str, Any]:
    first = setting.runs[0]
    classes = first.sizes.get("classes")
    if not classes or first.metric != "accuracy":
        return {}
    threshold = 1 / classes + LEARNT * (1 - 1 / classes)
    scores = [run.scores[run.protocol] for run in setting.runs]
    failed = sorted(run.seed for run in setting.runs if run.scores[run.protocol] < threshold)
    windows = [run.measured.get("windows") or {} for run in setting.runs]
    spreads = [window["spread"] for window in windows if "spread" in window]
    return {
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


def chosen_tables(collection: Collection) -> list[Table]:
    """For every experiment that swept options of a model: which values validation chooses."""
    tables = []
    for edition in editions(collection):
        validated = [s for s in edition.settings if all(r.validation is not None for r in s.runs)]
        records = [
            _chosen(edition, same)
            for same in group_by(validated, _network).values()
            if len(same) > 1 and "holdout" in same[0].scores
        ]
        if records:
            name, title = _names("chosen", edition, "chosen by validation")
            tables.append(table_of(name, title, CHOSEN_COLUMNS, records, [NOTE_CHOSEN]))
    return tables


def _network(setting: Setting) -> tuple[Any, ...]:
    """What the settings that validation chooses from share; fixed foci are no rivals of trained."""
    model = setting.runs[0].config["model"]
    fixed = not (model.get("train_mu", True) or model.get("train_sigma", True))
    data = {name: value for name, value in setting.values.items() if name.startswith("data.")}
    return setting.data, setting.source, str(data), setting.model, fixed


def _chosen(edition: Edition, settings: Sequence[Setting]) -> dict[str, Any]:
    unit = settings[0].unit
    sign = -1 if unit.lower_is_better else 1
    means = [fmean(run.validation or 0.0 for run in setting.runs) for setting in settings]
    best = max(range(len(settings)), key=lambda place: sign * means[place])
    others = [", ".join(setting.label()) for setting in settings if setting is not settings[best]]
    tests = [run.scores["holdout"] for run in settings[best].runs]
    return {
        **_named(edition, settings[best]),
        "chosen": ", ".join(settings[best].label()),
        "among": "; ".join(others),
        "runs": len(tests),
        "unit": unit.name,
        "validation": unit.factor * means[best],
        "test": unit.factor * fmean(tests),
    }


def _named(edition: Edition, setting: Setting) -> dict[str, Any]:
    shown = {"_options": ", ".join(setting.label()), "_block": (setting.data, setting.source)}
    return edition.about | setting.about() | shown


def _names(kind: str, edition: Edition, what: str) -> tuple[str, str]:
    """File name and title of a table."""
    return file_name(kind, *edition.about.values()), f"{edition.title} {edition.words}: {what}"


NAMED = (
    Column("data", show=lambda record: text(data_name(record["data"]), record["source"])),
    Column("model", show=lambda record: model_name(record["model"])),
)
LEARNT_COLUMNS = (
    *NAMED,
    Column("setting", show="_options"),
    Column("learnt", "right", lambda record: f"{record['learnt']} of {record['runs']}"),
    Column("from", "right", "threshold", digits=0),
    Column("worst", "right", "worst"),
    Column("mean", "right", "mean"),
    Column("best", "right", "best"),
    Column("spread", "right", "spread", digits=3),
    Column("seeds that did not", show=lambda record: record["failed_seeds"] or "none"),
)
CHOSEN_COLUMNS = (
    *NAMED,
    Column("chosen", show="chosen"),
    Column("among", show="among"),
    Column("runs", "right", "runs"),
    Column("validation", "right", "validation"),
    Column("test", "right", "test"),
)
