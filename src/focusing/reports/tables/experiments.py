"""Tables of experiments that are not the paper's: scores and measurements of every setting.

And of their seeds: how many learnt, and which options the validation split chooses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from focusing.reports.names import PROTOCOLS, data_name
from focusing.reports.paper import published_tables, width_mean
from focusing.reports.plans import MAX_OPTION_COLUMNS, UNCHANGED, labels, limits
from focusing.reports.scores import SCORES_NOTE, comparison_lines, mean_and_deviation
from focusing.reports.settings import Edition, Setting, compare_settings, editions, editions_of
from focusing.reports.tables import (
    MODEL,
    NOTHING,
    Cell,
    Column,
    Record,
    Table,
    interval_record,
    make_table,
    text,
)
from focusing.results.collect import Collection, Run
from focusing.results.frame import SECONDS, frame, group_by
from focusing.results.stats import ScoreSummary

MAX_QUANTITIES = 8
"""Most columns of measurements; the CSV file has all."""
NOTE_DENSE = (
    "− Dense: difference to the dense network of the same setting with its 95 % interval, and p, "
    "Holm-corrected over this table under the same protocol: of the paired t-test where repeats "
    "are folds, splits or data sets, which have test data of their own, else of Welch's."
)
NOTE_RESAMPLED = (
    "Resampled: p of the corrected resampled t-test, where repeats are random splits, whose test "
    "sets overlap; the interval is that test's."
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
LEARNT = 0.5
"""Share of the way from chance to a perfect score from which a network counts as having learnt."""
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
MEANINGS = {
    "foci inside": "foci inside: centres among the informative columns",
    "foci moved": "moved: mean distance of centres from their start (inputs lie between 0 and 1)",
    "foci widened": "widened: the aperture grew",
    "foci stuck": "stuck: went nowhere in the last epochs, and the output says nothing about the "
    "targets",
    "seconds": "seconds: of training; without a GPU, of processor time",
}
"""First words of a measurement's name -> its meaning."""

DATA = Column("data", show=lambda record: text(data_name(record["data"]), record["source"]))
LEARNT_COLUMNS = (
    DATA,
    MODEL,
    Column("setting", show="_label"),
    Column("learnt", "right", lambda record: f"{record['learnt']} of {record['runs']}"),
    Column("from", "right", "threshold", digits=0),
    Column("worst", "right", "worst"),
    Column("mean", "right", "mean"),
    Column("best", "right", "best"),
    Column("spread", "right", "spread", digits=3),
    Column("seeds that did not", show=lambda record: record["failed_seeds"] or "none"),
)
CHOSEN_COLUMNS = (
    DATA,
    MODEL,
    Column("chosen", show="chosen"),
    Column("among", show="among"),
    Column("runs", "right", "runs"),
    Column("validation", "right", "validation"),
    Column("test", "right", "test"),
)


def experiment_tables(collection: Collection) -> list[Table]:
    """Scores and measurements of every edition that is not one of the paper's tables."""
    tables = []
    for edition in editions(collection):
        if edition.experiment not in published_tables():
            tables += [_scores(edition), *_measured(edition)]
    return tables


def sweep_tables(runs: Sequence[Run], protocol: str) -> list[Table]:
    """Tables that a sweep prints at its end: scores of every setting under one protocol."""
    tables = []
    for edition in editions_of(runs):
        settings = [setting for setting in edition.settings if protocol in setting.scores]
        if not settings:
            continue
        tests = compare_settings(settings, [protocol])
        rows = _named(edition, settings)
        for setting, row in rows.items():
            score, test = setting.scores[protocol], tests.get((setting, protocol))
            row["n"] = score.spread.n
            row["score"] = text(mean_and_deviation(score.spread), score.points())
            row["difference"] = text(*comparison_lines(test) if test else [""])
        name = f"{edition.experiment} {edition.qualifier}"
        columns = (
            *_columns(settings),
            Column("n", "right", "n"),
            Column(f"score ({protocol})", show="score"),
            Column("difference", show="difference"),
        )
        notes = [NOTE_SWEEP] if tests else [NOTE_SWEEP, NOTE_NO_TWIN]
        tables.append(make_table(name, name, columns, list(rows.values()), notes))
    return tables


def _named(edition: Edition, settings: Sequence[Setting]) -> dict[Setting, dict[str, Any]]:
    """Records that identify settings, in a CSV file and in the columns of :func:`_columns`."""
    short = labels(settings, models=False) if _share_a_column(settings) else [""] * len(settings)
    return {
        setting: {
            **edition.columns,
            **setting.columns(),
            **{f"_{name}": value for name, value in setting.options.items()},
            "_setting": label,
            "_label": ", ".join(setting.label()),
            "_row": setting,
            "_block": (setting.data, setting.source),
        }
        for setting, label in zip(settings, short, strict=True)
    }


def _share_a_column(settings: Sequence[Setting]) -> bool:
    """Whether there are too many options for a column each."""
    return len(settings[0].options) > MAX_OPTION_COLUMNS


def _columns(settings: Sequence[Setting]) -> list[Column]:
    """Columns of data, model and options."""
    if _share_a_column(settings):
        swept = [Column("setting", show="_setting")]
    else:
        swept = [Column(name, "right", f"_{name}") for name in settings[0].options]
    return [replace(DATA, once=True), MODEL, *swept]


def _scores(edition: Edition) -> Table:
    settings, tests = edition.settings, edition.tests
    protocols = [name for name in PROTOCOLS if any(name in setting.scores for setting in settings)]
    author = {setting: author_mean(setting) for setting in settings}
    has_author = any(mean is not None for mean in author.values())
    records: list[Record] = []
    for setting, named in _named(edition, settings).items():
        if has_author:
            named["author"] = author[setting]
        for protocol, score in setting.scores.items():
            record = {**named, "protocol": protocol, **score.record(), "epochs": setting.epochs}
            record["_cell"] = score.cell()
            if test := tests.get((setting, protocol)):
                record |= {
                    "_cell": text(*score.cell().lines, *comparison_lines(test)),
                    "against": test.other,
                    "difference": test.difference,
                    **interval_record(test.interval, "difference_"),
                    "test": test.test,
                    "p_holm": test.p_holm,
                    "p_resampled_holm": test.p_resampled_holm,
                }
            records.append(record)
    others = {test.other for test in tests.values()}
    notes = {
        f"{SCORES_NOTE}.": True,
        NOTE_DENSE: bool(others - {UNCHANGED}),
        NOTE_RESAMPLED: any(test.p_resampled is not None for test in tests.values()),
        NOTE_UNCHANGED: UNCHANGED in others,
        **dict.fromkeys((*varied_note(settings), *limited_note(settings)), True),
        NOTE_AUTHOR: has_author,
        NOTE_HELD: any(score.mark for setting in settings for score in setting.scores.values()),
    }
    columns = [
        *_columns(settings),
        *[Column("author", "right", "author")] * has_author,
        *(Column(protocol, show="_cell", select=protocol) for protocol in protocols),
    ]
    name, title = edition.table_name("experiment"), f"{edition.title} {edition.qualifier}"
    return make_table(name, title, columns, records, [note for note in notes if notes[note]])


def varied_note(settings: Sequence[Setting]) -> list[str]:
    """A sentence on settings whose replicates have different data; empty if there are none."""
    seeds = sorted({run.seed for setting in settings if setting.varied for run in setting.runs})
    if not seeds:
        return []
    network = f"the network's seed is {', '.join(map(str, seeds))}"
    return [f"data.seed varied: each run has data of its own, the same for all models; {network}."]


def limited_note(settings: Sequence[Setting]) -> list[str]:
    """A sentence on runs with reduced data; empty if there are none."""
    runs = [run for setting in settings for run in setting.runs]
    fewer = sorted({f"{run.data}: {limit}" for run in runs for limit in limits(run)})
    return [f"Runs on a part of the data: {', '.join(fewer)}."] if fewer else []


def author_mean(setting: Setting) -> float | None:
    """The author's mean for a full-size setting of ``n_hidden``; None if there is none."""
    first = setting.runs[0]
    if first.experiment != "n_hidden" or first.size != "full" or any(map(limits, setting.runs)):
        return None
    return width_mean(setting.data, setting.model, setting.values.get("model.hidden"))


def _measured(edition: Edition) -> list[Table]:
    """One table of measurements, or none if only the time was measured."""
    name = f"{edition.table_name('experiment')}_measured"
    settings, subject = edition.settings, f"{edition.experiment}."
    table = frame([run for setting in settings for run in setting.runs])["measured"]
    quantities = sorted(table, key=lambda quantity: _quantity_order(quantity, subject))
    if quantities in ([], [SECONDS]):
        return []
    same = table[quantities].nunique(dropna=False) == 1
    constant = table.iloc[0][quantities][same].to_dict() if len(settings) > 1 else {}
    varying = [quantity for quantity in quantities if quantity not in constant]
    shown, hidden = varying[:MAX_QUANTITIES], varying[MAX_QUANTITIES:]
    notes = [NOTE_MEASURED, *varied_note(settings), *_meanings(settings, quantities)]
    if constant:
        pairs = [f"{quantity} = {_digits(value)}" for quantity, value in constant.items()]
        notes.append(f"Equal in all runs: {', '.join(pairs)}.")
    if hidden:
        notes.append(f"{len(hidden)} more quantities are in {name}.csv.")
    columns = [*_columns(settings), Column("runs", "right", "_runs")]
    for quantity in shown:
        title = re.sub("[._]", " ", quantity.removeprefix(subject))
        columns.append(Column(title, "right", _cell, select=quantity, missing=NOTHING))
    records = [
        {
            **named,
            "quantity": quantity,
            "n": spread.n,
            "mean": spread.mean,
            "std_ddof1": spread.std,
            **interval_record(spread.interval),
            "_runs": len(setting.runs),
            "_spread": spread,
        }
        for setting, named in _named(edition, settings).items()
        for quantity, spread in setting.measured.items()
    ]
    title = f"{edition.title} {edition.qualifier}: measurements"
    return [make_table(name, title, columns, records, notes, select_by="quantity")]


def _quantity_order(quantity: str, subject: str) -> tuple[bool, ...]:
    """The experiment's subject comes first, of that ratios; then foci; time comes last."""
    about = quantity.startswith(subject)
    return quantity == SECONDS, not about, "ratio" not in quantity, not quantity.startswith("foci")


def _meanings(settings: Sequence[Setting], quantities: Sequence[str]) -> list[str]:
    """A sentence on the quantities, with the informative columns if all runs share them."""
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


def _cell(record: Record) -> Cell:
    spread: ScoreSummary = record["_spread"]
    interval = spread.interval
    if interval is None or interval.method == "constant":
        return text(_digits(spread.mean))
    return text(_digits(spread.mean), f"[{_digits(interval.low)}, {_digits(interval.high)}]")


def _digits(value: float) -> str:
    """Format with three significant digits."""
    return (f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}").replace("-", "−")


def learnt_tables(collection: Collection) -> list[Table]:
    """How many seeds of each setting learnt: one table per edition with dynamic foci."""
    tables = []
    for edition in editions(collection):
        named = _named(edition, edition.settings)
        records = [named[setting] | seeds for setting in named if (seeds := _learnt(setting))]
        if records:
            title = f"{edition.title} {edition.qualifier}: seeds that learnt"
            name = edition.table_name("learnt")
            tables.append(make_table(name, title, LEARNT_COLUMNS, records, [NOTE_LEARNT]))
    return tables


def _learnt(setting: Setting) -> dict[str, Any]:
    first = setting.runs[0]
    classes = first.sizes.get("classes")
    if "windows" not in first.measured or not classes or first.metric != "accuracy":
        return {}
    threshold = 1 / classes + LEARNT * (1 - 1 / classes)
    scores = [run.scores[run.protocol] for run in setting.runs]
    failed = sorted(run.seed for run in setting.runs if run.scores[run.protocol] < threshold)
    spread = setting.measured.get("windows.spread")
    return {
        "protocol": first.protocol,
        "threshold": 100 * threshold,
        "runs": len(scores),
        "learnt": len(scores) - len(failed),
        "failed_seeds": " ".join(map(str, failed)),
        "worst": 100 * min(scores),
        "mean": 100 * fmean(scores),
        "best": 100 * max(scores),
        "spread": spread and spread.mean,
    }


def chosen_tables(collection: Collection) -> list[Table]:
    """Options that the validation split chooses: one table per edition with a choice."""
    tables = []
    for edition in editions(collection):
        named = _named(edition, edition.settings)
        validated = [s for s in named if all(run.validation is not None for run in s.runs)]
        records = [
            _chosen({setting: named[setting] for setting in rivals})
            for rivals in group_by(validated, _network).values()
            if len(rivals) > 1 and "holdout" in rivals[0].scores
        ]
        if records:
            title = f"{edition.title} {edition.qualifier}: chosen by validation"
            name = edition.table_name("chosen")
            tables.append(make_table(name, title, CHOSEN_COLUMNS, records, [NOTE_CHOSEN]))
    return tables


def _network(setting: Setting) -> tuple[Any, ...]:
    """Key of the settings that compete. Fixed foci do not compete with trained ones."""
    model = setting.runs[0].config["model"]
    fixed = not (model.get("train_mu", True) or model.get("train_sigma", True))
    data = {name: value for name, value in setting.values.items() if name.startswith("data.")}
    return setting.data, setting.source, str(data), setting.model, fixed


def _chosen(rivals: dict[Setting, dict[str, Any]]) -> dict[str, Any]:
    unit = next(iter(rivals)).unit
    means = {s: unit.factor * fmean(run.validation or 0.0 for run in s.runs) for s in rivals}
    best = (min if unit.lower_is_better else max)(rivals, key=lambda setting: means[setting])
    others = [named["_label"] for setting, named in rivals.items() if setting is not best]
    return {
        **rivals[best],
        "chosen": rivals[best]["_label"],
        "among": "; ".join(others),
        "runs": len(best.runs),
        "unit": unit.name,
        "validation": means[best],
        "test": unit.factor * fmean(run.scores["holdout"] for run in best.runs),
    }
