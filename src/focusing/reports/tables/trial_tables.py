"""The random trials of Table 1, focused minus dense: by noise, and by every drawn parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd  # type: ignore[import-untyped]

from focusing.reports.names import PROTOCOLS, model_name
from focusing.reports.paper import paper
from focusing.reports.tables import (
    Cell,
    Column,
    Record,
    Row,
    Table,
    between,
    file_name,
    interval_record,
    number,
    p_value,
    signed,
    text,
)
from focusing.reports.tables.run_blocks import TRIALS_EXPERIMENT, Block, blocks, command, editions
from focusing.reports.tables.scores import scored
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
"""Levels and positions of the noise: the rows of the table."""
SHOWN = ("pairs", "difference", "low", "high", "p_paired", "p_paired_holm")
"""What is written of a parameter's value."""
Pairs = Mapping[Any, tuple[float, float]]
"""Trial -> scores of the focused and of the dense network, in percent."""
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
"""Table 1 of the paper, but for the noise, which is a column here."""
SUBSETS: dict[str, Callable[[Any], Any]] = {
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


def trial_tables(collection: Collection) -> list[Table]:
    """One table for every experiment of trials, size, variant and focused model."""
    if not any(run.trial is not None for run in collection.of(TRIALS_EXPERIMENT)):
        fill = {"1": command(TRIALS_EXPERIMENT, "full", "text", ())}
        return [Table(TRIALS_EXPERIMENT, TITLE, (), (), ("No runs yet.",), fill)]
    tables = []
    for name, title, block, model in _blocks(collection):
        table = _by_noise(name, title, block, model)
        if _missing(block, model):
            run = block.runs[0]
            again = command(run.experiment, run.size, run.variant, block.options)
            table = replace(table, commands={"1": again})
        tables.append(table)
    return tables


def marginal_tables(collection: Collection) -> list[Table]:
    """The same trials by parameter: one table for every table of trials that has pairs."""
    tables = []
    for name, title, block, model in _blocks(collection):
        protocol = next((one for one in PROTOCOLS if trial_pairs(block, model, one)), None)
        if protocol is not None:
            names = f"{name}_by_parameter", f"{title}: by parameter"
            tables.append(_by_parameter(*names, block, model, protocol))
    return tables


def _blocks(collection: Collection) -> Iterator[tuple[str, str, Block, str]]:
    """Name and title of a table, its trials, and the focused model that it is about."""
    trials = [run for run in collection.runs if run.trial is not None]
    for about, runs in editions(trials):
        experiment, size, variant = about.values()
        for place, block in enumerate(blocks(runs)):
            for model in sorted(set(block.models) - {BASE}) or ["focus_s"]:
                count = [str(place + 1)] if place else []
                other = [] if model == "focus_s" else [model]
                name = file_name(experiment, size, variant, *count, *other)
                options = "".join(f", {option}" for option in block.options)
                kind = TITLE if experiment == TRIALS_EXPERIMENT else experiment
                yield name, f"{kind} (size={size}, variant={variant}{options})", block, model


def noise_level(run: Run) -> str:
    """Columns of noise as a share of the informative ones: 0, 0.5 or 1."""
    data = run.config["data"]
    share = data["noise"] / data["informative"]
    if run.variant.startswith("author") and data["noise_position"] == "sides":
        share /= 2  # the notebook put as many on each side
    return min(LEVELS, key=lambda level: abs(float(level) - share))


def trial_pairs(block: Block, model: str, protocol: str) -> Pairs:
    """Scores of the trials that both networks ran on the same data, under a protocol."""
    ours = scored(block.models.get(model, []), protocol)
    base = scored(block.models.get(BASE, []), protocol)
    if ours is None or base is None or ours.trained_on != base.trained_on:
        return {}
    paired = _paired(block, model)
    common = [key for key in ours.values if key in base.values and key in paired]
    return {key: (ours.values[key], base.values[key]) for key in common}


def _paired(block: Block, model: str) -> set[Any]:
    """Replicates of both networks: a trial that was drawn anew, or on other data, makes no pair."""
    trials = [
        {(replicate_key(run), run.holdout, run.fingerprint) for run in block.models.get(one, [])}
        for one in (model, BASE)
    ]
    return {key for key, *_ in trials[0] & trials[1]}


def _trials(block: Block, model: str, protocol: str) -> Any:
    """The pairs as a tidy table: both scores, their difference, and what the trials drew."""
    runs = {replicate_key(run): run for run in block.models.get(BASE, [])}
    pairs = trial_pairs(block, model, protocol)
    table = pd.DataFrame(list(pairs.values()), columns=["model", "base"], dtype=float)
    table["difference"] = table["model"] - table["base"]
    for name, drawn in {"noise": noise_level, **PARAMETERS}.items():
        table[name] = [drawn(runs[key]) for key in pairs]
    return table


def _summary(trials: Any) -> dict[str, Any]:
    """Means, differences and tests of some pairs."""
    gaps, ours, base = trials["difference"].tolist(), trials["model"], trials["base"]
    interval = mean_interval(gaps) if gaps else None
    improvement = probability_of_improvement(ours.tolist(), base.tolist()) if gaps else None
    return {
        "pairs": len(gaps),
        "mean_model": float(ours.mean()) if gaps else None,
        "mean_other": float(base.mean()) if gaps else None,
        "difference": sum(gaps) / len(gaps) if gaps else None,
        **interval_record(interval),
        "interval": interval and interval.method,
        "p_paired": paired_p(gaps),
        "p_paired_holm": None,
        "wins": float(((ours > base) + 0.5 * (ours == base)).mean()) if gaps else None,
        "probability_of_improvement": improvement,
        "_interval": interval,
    }


def _correct(summaries: Sequence[dict[str, Any]]) -> None:
    """Add Holm's correction over some summaries."""
    for summary, p in zip(summaries, holm([one["p_paired"] for one in summaries]), strict=True):
        summary["p_paired_holm"] = p


def _gap_cell(summary: Record) -> Cell:
    if not summary["pairs"]:
        return Cell()
    interval = between(summary["_interval"], sign=True)
    return text(signed(summary["difference"]), interval, f"p={p_value(summary['p_paired_holm'])}")


def _means(summary: Record) -> tuple[Cell, ...]:
    means = (number(summary["mean_other"]), number(summary["mean_model"]))
    return text(str(summary["pairs"])), *map(text, means)


def _columns(model: str, first: Sequence[Column], last: Sequence[str]) -> tuple[Column, ...]:
    heads = ("pairs", model_name(BASE), model_name(model), *last)
    return *first, *(Column(head, "right") for head in heads)


def _about(block: Block, model: str) -> dict[str, Any]:
    """What all trials of a table have in common, for a CSV file."""
    run = block.runs[0]
    about = {"experiment": run.experiment, "size": run.size, "variant": run.variant}
    return {**about, "model": model, "other": BASE}


def _by_noise(name: str, title: str, block: Block, model: str) -> Table:
    trials = {protocol: _trials(block, model, protocol) for protocol in PROTOCOLS}
    protocols = [protocol for protocol in PROTOCOLS if len(trials[protocol])]
    summaries = {
        protocol: {place: _summary(_at(trials[protocol], *place)) for place in PLACES}
        for protocol in protocols
    }
    for by_place in summaries.values():
        _correct(list(by_place.values()))
    rows, records = [], []
    for level, where in PLACES:
        there = {protocol: summaries[protocol][level, where] for protocol in protocols}
        first = next(iter(there.values()), None)
        if first is None or not first["pairs"]:
            continue
        notebook = _notebook(level, where)
        cells = [*_means(first), *map(_gap_cell, there.values()), text(number(first["wins"]))]
        row = (text(level), text(where), *cells, text(signed(notebook)))
        tags = {"model": model, "noise": level, "position": where}
        rows.append(Row(row, tags, begins=where == ALL))
        for protocol, summary in there.items():
            place = {"noise": level, "position": where, "protocol": protocol}
            numbers = {key: value for key, value in summary.items() if key[0] != "_"}
            about = {**_about(block, model), **place}
            records.append({**about, **numbers, "notebook_difference": notebook})
    differences = [f"difference, {protocol}" for protocol in protocols]
    places = (Column("noise"), Column("position"))
    columns = _columns(model, places, [*differences, "wins", "notebook"])
    notes = (*NOTES, *_remarks(block, model))
    return Table(name, title, columns, tuple(rows), notes, records=tuple(records))


def _at(trials: Any, level: str, where: str) -> Any:
    """The trials of a level and position of the noise."""
    chosen = trials if level == ALL else trials[trials["noise"] == level]
    return chosen if where == ALL else chosen[chosen["noise position"] == where]


def _by_parameter(name: str, title: str, block: Block, model: str, protocol: str) -> Table:
    trials = _trials(block, model, protocol)
    varied = [parameter for parameter in PARAMETERS if trials[parameter].nunique() > 1]
    trials["batch size"] = (trials["batch size"] / trials["samples"]).round(3)
    summaries = {
        (parameter, value): {kind: _summary(chosen(drawn)) for kind, chosen in SUBSETS.items()}
        for parameter in varied
        for value, drawn in trials.groupby(parameter)
    }
    for kind in SUBSETS:
        _correct([by_kind[kind] for by_kind in summaries.values()])
    rows: list[Row] = []
    records: list[Record] = []
    for (parameter, value), by_kind in summaries.items():
        begins = not rows or rows[-1].tags["parameter"] != parameter
        named = (text(parameter) if begins else Cell(), text(str(value)))
        cells = (*named, *_means(by_kind[ALL]), *map(_gap_cell, by_kind.values()))
        rows.append(Row(cells, {"model": model, "parameter": parameter}, begins))
        drawn = {**_about(block, model), "parameter": parameter, "value": value}
        records += [
            {**drawn, "trials": kind, "protocol": protocol} | {key: one[key] for key in SHOWN}
            for kind, one in by_kind.items()
        ]
    first = (Column("parameter"), Column("value", "right"))
    columns = _columns(model, first, [f"difference, {kind}" for kind in SUBSETS])
    return Table(name, title, columns, tuple(rows), (NOTE_PARAMETERS,), records=tuple(records))


def _notebook(level: str, where: str) -> float | None:
    """The difference in the author's notebook; None if it has none."""
    trials = paper()["trials"]
    if level != ALL and where != ALL:
        return None
    by_level = trials["all"] if level == ALL else trials["noise"][level]
    means = by_level if where == ALL else trials["position"][where]
    return float(means.get("difference", means["focus"] - means["dense"]))


def _missing(block: Block, model: str) -> int:
    """How many trials lack at least one of the two networks."""
    runs = [run for one in (model, BASE) for run in block.models.get(one, [])]
    planned = max(int(run.config["sweep"].get("trials") or 0) for run in runs)
    planned *= len({run.seed for run in runs})
    return max(planned, len(set(map(replicate_key, runs)))) - len(_paired(block, model))


def _remarks(block: Block, model: str) -> list[str]:
    remarks = []
    missing = _missing(block, model)
    if missing:
        lack = "trial lacks" if missing == 1 else "trials lack"
        remarks.append(f"{missing} {lack} one of the two networks, or both, on the same data.")
    raised = {replicate_key(run) for run in block.runs if run.config["sweep"].get("changed")}
    if raised:
        count = "1 trial" if len(raised) == 1 else f"{len(raised)} trials"
        remarks.append(
            f"In {count} the drawn length was too small for the classes and clusters, and was "
            "raised."
        )
    return remarks
