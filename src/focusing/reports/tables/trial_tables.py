"""Random trials (Table 1), focused − dense: by noise, and by every drawn parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd  # type: ignore[import-untyped]

from focusing.reports.names import PROTOCOLS, model_name, plural
from focusing.reports.paper import paper
from focusing.reports.plans import TRIALS_EXPERIMENT, command
from focusing.reports.settings import Edition, editions
from focusing.reports.tables import (
    Cell,
    Column,
    Record,
    Table,
    file_name,
    format_interval,
    interval_record,
    make_table,
    p_value,
    signed,
    text,
)
from focusing.results.collect import Collection, Run
from focusing.results.frame import replicate_key
from focusing.results.stats import holm, mean_interval, paired_p, probability_of_improvement

BASE = "dense"
TITLE = "Table 1, random trials"
NO_NOISE = "0"
LEVELS = (NO_NOISE, "0.5", "1")
ALL = "all"
PLACES = (
    (ALL, ALL), (ALL, "left"), (ALL, "sides"),
    (NO_NOISE, ALL),  # what is not there has no position
    ("0.5", ALL), ("0.5", "left"), ("0.5", "sides"),
    ("1", ALL), ("1", "left"), ("1", "sides"),
)  # fmt: skip
"""Rows of the table: level and position of the noise."""
HIDDEN = ("mean_model", "mean_other", "interval", "wins", "probability_of_improvement")
"""Statistics that the CSV file by parameter leaves out."""
PARAMETERS: dict[str, Callable[[Run], Any]] = {
    "samples": lambda run: run.config["data"]["n_samples"],
    "input length": lambda run: run.config["data"]["informative"],
    "noise position": lambda run: run.config["data"]["noise_position"],
    "clusters": lambda run: run.config["data"]["clusters"],
    "classes": lambda run: run.config["data"]["classes"],
    "hidden neurons": lambda run: run.config["model"]["hidden"][0],
    "batch size": lambda run: run.config["optim"]["batch_size"],
    "learning rate": lambda run: run.config["optim"]["lr"],
    "L2 penalty": lambda run: run.config["optim"]["l2"],
}
"""Parameters that a trial draws, except the level of noise."""
SUBSETS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    ALL: lambda trials: trials,
    "noisy": lambda trials: trials[trials["noise"] != NO_NOISE],
    "clean": lambda trials: trials[trials["noise"] == NO_NOISE],
}
NOTES = (
    "Noise: columns of noise for each informative one; position: all of them left of these, or "
    "half on either side. Over all levels it is the drawn one, also of trials without noise.",
    "Pairs: trials of both networks on the same data from the same seed. Differences of test "
    "accuracy, focused − dense, in points: mean, 95 % interval (bootstrap; Student's t below 20 "
    "pairs), p of the paired t-test, Holm-corrected over this table. Wins: share of pairs in which "
    "the focused network is better, a tie counting half. Means and wins are those of the first "
    "protocol that is given.",
    "Notebook: focused − dense over the 213 trials that the author's notebook kept; the paper "
    "prints no numbers of its 750.",
)
NOTE_PARAMETERS = (
    "Each row holds the trials that drew this value of one parameter, whatever they drew of the "
    "others. Differences of test accuracy, focused − dense, in points, at the best test epoch: "
    "mean, 95 % interval (bootstrap; Student's t below 20 pairs), p of the paired t-test, "
    "Holm-corrected over this column. Noisy: trials with columns of noise; clean: without. Batch "
    "sizes are shares of the samples where they were drawn so."
)


class Trials(NamedTuple):
    """Random trials of a focused network and of the dense one with the same options."""

    edition: Edition
    number: int
    """Index of the block of overrides within the edition."""
    overrides: tuple[str, ...]
    model: str
    focused: Sequence[Run]
    dense: Sequence[Run]

    def pairs(self) -> list[tuple[Run, Run]]:
        """Runs of both networks on the same data from the same seed."""
        dense = {_identity(run): run for run in self.dense}
        return [(run, dense[key]) for run in self.focused if (key := _identity(run)) in dense]

    def table(self, protocol: str) -> pd.DataFrame:
        """Pairs as a tidy table: both scores in percent, their difference, the drawn parameters."""
        pairs = [pair for pair in self.pairs() if all(protocol in run.scores for run in pair)]
        if protocol != "holdout":  # prefer networks that saw all training data
            pairs = [pair for pair in pairs if not pair[0].holdout] or pairs
        scores = [[100.0 * run.scores[protocol] for run in pair] for pair in pairs]
        table = pd.DataFrame(scores, columns=["model", "base"], dtype=float)
        table["difference"] = table["model"] - table["base"]
        table["run"] = [run for run, _ in pairs]
        for name, drawn in {"noise": noise_level, **PARAMETERS}.items():
            table[name] = [drawn(run) for run, _ in pairs]
        return table

    def file_name(self, *more: str) -> str:
        """Name of the files of a table."""
        number = [str(self.number + 1)] if self.number else []
        model = [] if self.model == "focus_s" else [self.model]
        return file_name(*self.edition.columns.values(), *number, *model, *more)

    def title(self) -> str:
        """Title of a table."""
        options = "".join(f", {option}" for option in self.overrides)
        experiment = self.edition.experiment
        kind = TITLE if experiment == TRIALS_EXPERIMENT else experiment
        return f"{kind} {self.edition.qualifier[:-1]}{options})"

    def columns(self) -> dict[str, Any]:
        """CSV columns that all of them share."""
        return {**self.edition.columns, "model": self.model, "other": BASE}

    def missing(self) -> int:
        """Number of trials without a run of each network."""
        runs = [*self.focused, *self.dense]
        planned = max(int(run.config["sweep"].get("trials") or 0) for run in runs)
        planned *= len({run.seed for run in runs})
        return max(planned, len(set(map(replicate_key, runs)))) - len(self.pairs())


def _identity(run: Run) -> tuple[Any, ...]:
    return replicate_key(run), run.holdout, run.fingerprint


def all_trials(collection: Collection) -> Iterator[Trials]:
    """Group the random trials by edition, options and focused network."""
    for edition in editions(collection, random_trials=True):
        for number, ((_, _, typed), block) in enumerate(edition.blocks.items()):
            runs = {model: setting.runs for model, setting in block.items()}
            for model in sorted(set(runs) - {BASE}) or ["focus_s"]:
                both = runs.get(model, []), runs.get(BASE, [])
                yield Trials(edition, number, typed, model, *both)


def trial_tables(collection: Collection) -> list[Table]:
    """Differences by level and position of the noise."""
    if not any(run.trial is not None for run in collection.of(TRIALS_EXPERIMENT)):
        fill = {"1": command(TRIALS_EXPERIMENT, "full", "text", ())}
        return [Table(TRIALS_EXPERIMENT, TITLE, (), (), ("No runs yet.",), fill)]
    return list(map(_by_noise, all_trials(collection)))


def marginal_tables(collection: Collection) -> list[Table]:
    """Differences by every drawn parameter, for trials with pairs."""
    return [
        _by_parameter(trials, protocols[0])
        for trials in all_trials(collection)
        if (protocols := [name for name in PROTOCOLS if len(trials.table(name))])
    ]


def noise_level(run: Run) -> str:
    """Noise columns per informative column, as one of ``LEVELS``."""
    data = run.config["data"]
    share = data["noise"] / data["informative"]
    if run.variant.startswith("author") and data["noise_position"] == "sides":
        share /= 2  # the notebook put as many on each side
    return min(LEVELS, key=lambda level: abs(float(level) - share))


def _summary(trials: Any) -> dict[str, Any]:
    """Statistics of pairs: means, difference, test, wins."""
    gaps, ours, base = trials["difference"].tolist(), trials["model"], trials["base"]
    if not gaps:
        return {"pairs": 0, "p_paired": None}
    interval = mean_interval(gaps)
    return {
        "pairs": len(gaps),
        "mean_model": float(ours.mean()),
        "mean_other": float(base.mean()),
        "difference": sum(gaps) / len(gaps),
        **interval_record(interval),
        "interval": interval and interval.method,
        "p_paired": paired_p(gaps),
        "p_paired_holm": None,
        "wins": float(((ours > base) + 0.5 * (ours == base)).mean()),
        "probability_of_improvement": probability_of_improvement(ours.tolist(), base.tolist()),
        "_interval": interval,
    }


def _correct(summaries: Sequence[dict[str, Any]]) -> None:
    """Add Holm's correction over these summaries."""
    for summary, p in zip(summaries, holm([one["p_paired"] for one in summaries]), strict=True):
        summary["p_paired_holm"] = p


def _gap_cell(record: Record) -> Cell:
    if not record["pairs"]:
        return Cell()
    interval = format_interval(record["_interval"], sign=True)
    return text(signed(record["difference"]), interval, f"p={p_value(record['p_paired_holm'])}")


def _columns(model: str, differences: Sequence[str]) -> list[Column]:
    """Columns: number of pairs, means, and a difference per protocol or subset of trials."""
    return [
        Column("pairs", "right", "pairs"),
        Column(model_name(BASE), "right", "mean_other"),
        Column(model_name(model), "right", "mean_model"),
        *(Column(f"difference, {name}", "right", _gap_cell, select=name) for name in differences),
    ]


def _by_noise(trials: Trials) -> Table:
    tables = {name: pairs for name in PROTOCOLS if len(pairs := trials.table(name))}
    records = [
        {
            **trials.columns(),
            "noise": level,
            "position": where,
            "protocol": protocol,
            **_summary(_at(pairs, level, where)),
            "notebook_difference": _notebook(level, where),
            "_row": (level, where),
            "_block": level,
        }
        for level, where in PLACES
        for protocol, pairs in tables.items()
    ]
    for protocol in tables:
        _correct([record for record in records if record["protocol"] == protocol])
    drawn = {record["_row"] for record in records[:: len(tables) or 1] if record["pairs"]}
    records = [record for record in records if record["_row"] in drawn]
    columns = [
        Column("noise", show="noise"),
        Column("position", show="position"),
        *_columns(trials.model, list(tables)),
        Column("wins", "right", "wins"),
        Column("notebook", "right", lambda record: signed(record["notebook_difference"])),
    ]
    missing = trials.missing()
    fill = {"1": trials.edition.command(trials.overrides)} if missing else {}
    return make_table(
        trials.file_name(), trials.title(), columns, records, (*NOTES, *_remarks(trials, missing)),
        tags=("model", "noise", "position"), commands=fill,
    )  # fmt: skip


def _at(pairs: pd.DataFrame, level: str, where: str) -> pd.DataFrame:
    """Select the trials with a level and position of the noise."""
    chosen = pairs if level == ALL else pairs[pairs["noise"] == level]
    return chosen if where == ALL else chosen[chosen["noise position"] == where]


def _by_parameter(trials: Trials, protocol: str) -> Table:
    pairs = trials.table(protocol)
    varied = [parameter for parameter in PARAMETERS if pairs[parameter].nunique() > 1]
    pairs["batch size"] = (pairs["batch size"] / pairs["samples"]).round(3)
    records = [
        {
            **trials.columns(),
            "parameter": parameter,
            "value": value,
            "trials": kind,
            "protocol": protocol,
            **_summary(chosen(drawn)),
            "_row": (parameter, value),
            "_block": parameter,
        }
        for parameter in varied
        for value, drawn in pairs.groupby(parameter)
        for kind, chosen in SUBSETS.items()
    ]
    for kind in SUBSETS:
        _correct([record for record in records if record["trials"] == kind])
    columns = [
        Column("parameter", show="parameter", once=True),
        Column("value", "right", lambda record: str(record["value"])),
        *_columns(trials.model, list(SUBSETS)),
    ]
    name, title = trials.file_name("by_parameter"), f"{trials.title()}: by parameter"
    return make_table(
        name, title, columns, records, [NOTE_PARAMETERS], tags=("model", "parameter"),
        select_by="trials", hidden=HIDDEN,
    )  # fmt: skip


def _notebook(level: str, where: str) -> float | None:
    """The difference in the author's notebook; None if it has no such number."""
    trials = paper()["trials"]
    if level != ALL and where != ALL:
        return None
    by_level = trials["all"] if level == ALL else trials["noise"][level]
    means = by_level if where == ALL else trials["position"][where]
    return float(means.get("difference", means["focus"] - means["dense"]))


def _remarks(trials: Trials, missing: int) -> list[str]:
    remarks = []
    if missing:
        lack = "lacks" if missing == 1 else "lack"
        remarks.append(
            f"{plural(missing, 'trial')} {lack} one of the two networks, or both, on the same data."
        )
    runs = (*trials.focused, *trials.dense)
    raised = {replicate_key(run) for run in runs if run.config["sweep"].get("changed")}
    if raised:
        remarks.append(
            f"In {plural(len(raised), 'trial')} the drawn length was too small for the classes and "
            "clusters, and was raised."
        )
    return remarks
