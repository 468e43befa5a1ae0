"""The random trials of Table 1: focused minus dense, by level and position of the noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from focusing.reports.names import PROTOCOLS, edition, model_name
from focusing.reports.paper import paper
from focusing.reports.tables import (
    Cell,
    Column,
    Row,
    Table,
    between,
    file_name,
    number,
    p_value,
    signed,
    text,
)
from focusing.reports.tables.cells import Block, blocks, command, scored
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by, replicate_key
from focusing.results.stats import holm, mean_interval, paired_p, probability_of_improvement

EXPERIMENT, BASE = "table1", "dense"
NONE = "0"
LEVELS = (NONE, "0.5", "1")
POSITIONS = ("left", "sides")
ALL = "all"
Pairs = Mapping[Any, tuple[float, float]]
"""Trial -> scores of the focused and of the dense network, in percent."""

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


def trial_tables(collection: Collection) -> list[Table]:
    """One table for each experiment of trials, size, variant and focused model."""
    if not any(run.trial is not None and run.experiment == EXPERIMENT for run in collection.runs):
        filled = {"1": command(EXPERIMENT, "paper", "paper", ())}
        title = "Table 1, random trials"
        return [Table(EXPERIMENT, title, (), (), ("No runs yet.",), filled)]
    tables = []
    for name, title, block, model in trial_blocks(collection):
        table = _table(name, title, block, model)
        if _missing(block, model):
            run = next(run for runs in block.models.values() for run in runs)
            again = command(run.experiment, run.size, run.variant, block.options)
            table = replace(table, commands={"1": again})
        tables.append(table)
    return tables


def trial_blocks(collection: Collection) -> Iterator[tuple[str, str, Block, str]]:
    """Name and title of a table, its trials, and the focused model that it is about."""
    trials = [run for run in collection.runs if run.trial is not None]
    groups = group_by(trials, lambda run: (run.experiment, run.size, run.variant))
    for key in sorted(groups, key=lambda key: (key[0], *edition(*key[1:]))):
        experiment, size, variant = key
        for place, block in enumerate(blocks(groups[key])):
            for model in sorted(set(block.models) - {BASE}) or ["focus_s"]:
                count = [str(place + 1)] if place else []
                other = [] if model == "focus_s" else [model]
                name = file_name(experiment, size, variant, *count, *other)
                options = "".join(f", {each}" for each in block.options)
                kind = "Table 1, random trials" if experiment == EXPERIMENT else experiment
                yield name, f"{kind} (size={size}, variant={variant}{options})", block, model


def noise_level(run: Run) -> str:
    """Columns of noise as a share of the informative ones: 0, 0.5 or 1."""
    data = run.config["data"]
    share = data["noise"] / data["informative"]
    if run.variant.startswith("author") and data["noise_position"] == "sides":
        share /= 2  # the notebook put as many on each side
    return min(LEVELS, key=lambda level: abs(float(level) - share))


def _table(name: str, title: str, block: Block, model: str) -> Table:
    runs = [run for each in (model, BASE) for run in block.models.get(each, [])]
    places = {
        replicate_key(run): (noise_level(run), run.config["data"]["noise_position"]) for run in runs
    }
    pairs = {protocol: trial_pairs(block, model, protocol) for protocol in PROTOCOLS}
    given = [protocol for protocol in PROTOCOLS if pairs[protocol]]
    cells = [
        (level, where)
        for level in (ALL, *LEVELS)
        for where in (ALL, *POSITIONS)
        if level != NONE or where == ALL  # what is not there has no position
    ]
    chosen = {
        (protocol, cell): [
            scores for key, scores in pairs[protocol].items() if _fits(places[key], cell)
        ]
        for protocol in given
        for cell in cells
    }
    gaps = {key: [ours - base for ours, base in found] for key, found in chosen.items()}
    corrected: dict[tuple[str, tuple[str, str]], float | None] = {}
    for protocol in given:
        keys = [(protocol, cell) for cell in cells]
        corrected.update(zip(keys, holm([paired_p(gaps[key]) for key in keys]), strict=True))
    rows, records = [], []
    for cell in cells:
        first = chosen[given[0], cell] if given else []
        if not first:
            continue
        ours, base = zip(*first, strict=True)
        rows.append(
            Row(
                (
                    text(cell[0]),
                    text(cell[1]),
                    text(str(len(first))),
                    text(number(sum(base) / len(base))),
                    text(number(sum(ours) / len(ours))),
                    *(gap_cell(gaps[p, cell], corrected[p, cell]) for p in given),
                    text(number(_wins(first))),
                    text(signed(_published(cell))),
                ),
                {"model": model, "noise": cell[0], "position": cell[1]},
                begins=cell[1] == ALL,
            )
        )
        for protocol in given:
            pairs_there, p = chosen[protocol, cell], corrected[protocol, cell]
            records.append(about(runs[0]) | _record(model, protocol, cell, pairs_there, p))
    return Table(
        name=name,
        title=title,
        columns=(
            Column("noise"),
            Column("position"),
            Column("pairs", "right"),
            Column(model_name(BASE), "right"),
            Column(model_name(model), "right"),
            *(Column(f"difference, {protocol}", "right") for protocol in given),
            Column("wins", "right"),
            Column("notebook", "right"),
        ),
        rows=tuple(rows),
        notes=(*NOTES, *_remarks(block, model)),
        records=tuple(records),
    )


def about(run: Run) -> dict[str, Any]:
    """What all trials of a table have in common, for a CSV file."""
    return {"experiment": run.experiment, "size": run.size, "variant": run.variant}


def trial_pairs(block: Block, model: str, protocol: str) -> Pairs:
    """Scores of the trials that both networks ran on the same data, under a protocol."""
    ours = scored(block.models.get(model, []), protocol)
    base = scored(block.models.get(BASE, []), protocol)
    if ours is None or base is None or ours.trained_on != base.trained_on:
        return {}
    same = {key for key, *_ in _trials(block, model) & _trials(block, BASE)}
    common = [key for key in ours.values if key in base.values and key in same]
    return {key: (ours.values[key], base.values[key]) for key in common}


def _fits(place: tuple[str, str], cell: tuple[str, str]) -> bool:
    return all(wanted in (ALL, found) for found, wanted in zip(place, cell, strict=True))


def _wins(pairs: Sequence[tuple[float, float]]) -> float:
    return sum((ours > base) + 0.5 * (ours == base) for ours, base in pairs) / len(pairs)


def gap_cell(gaps: Sequence[float], p: float | None) -> Cell:
    """Mean of differences, its interval and a p."""
    if not gaps:
        return Cell()
    interval = between(mean_interval(gaps), sign=True)
    return text(signed(sum(gaps) / len(gaps)), interval, f"p={p_value(p)}")


def _published(cell: tuple[str, str]) -> float | None:
    level, where = cell
    trials = paper()["trials"]
    if where == ALL:
        found = trials["all"] if level == ALL else trials["noise"][level]
    else:
        found = trials["position"][where] if level == ALL else None
    if found is None:
        return None
    return float(found.get("difference", found["focus"] - found["dense"]))


def _trials(block: Block, model: str) -> set[Any]:
    """Repeat and fingerprint: a trial that was drawn anew, or on other data, makes no pair."""
    runs = block.models.get(model, [])
    return {(replicate_key(run), run.holdout, run.fingerprint) for run in runs}


def _missing(block: Block, model: str) -> int:
    """How many trials lack at least one of the two networks."""
    runs = [run for each in (model, BASE) for run in block.models.get(each, [])]
    wanted = max(int(run.config["sweep"].get("trials") or 0) for run in runs)
    seeds = len({run.seed for run in runs})
    paired = {key for key, *_ in _trials(block, model) & _trials(block, BASE)}
    return max(wanted * seeds, len({replicate_key(run) for run in runs})) - len(paired)


def _remarks(block: Block, model: str) -> list[str]:
    remarks = []
    missing = _missing(block, model)
    if missing:
        lack = "trial lacks" if missing == 1 else "trials lack"
        remarks.append(f"{missing} {lack} one of the two networks, or both, on the same data.")
    raised = {
        replicate_key(run)
        for runs in block.models.values()
        for run in runs
        if run.config["sweep"].get("changed")
    }
    if raised:
        count = "1 trial" if len(raised) == 1 else f"{len(raised)} trials"
        remarks.append(
            f"In {count} the drawn length was too small for the classes and clusters, and was "
            "raised."
        )
    return remarks


def _record(
    model: str,
    protocol: str,
    cell: tuple[str, str],
    pairs: Sequence[tuple[float, float]],
    corrected: float | None,
) -> dict[str, Any]:
    ours, base = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    gaps = [one - other for one, other in pairs]
    interval = mean_interval(gaps) if gaps else None
    return {
        "model": model,
        "other": BASE,
        "noise": cell[0],
        "position": cell[1],
        "protocol": protocol,
        "pairs": len(pairs),
        "mean_model": sum(ours) / len(ours) if ours else None,
        "mean_other": sum(base) / len(base) if base else None,
        "difference": sum(gaps) / len(gaps) if gaps else None,
        "low": interval and interval.low,
        "high": interval and interval.high,
        "interval": interval and interval.method,
        "p_paired": paired_p(gaps),
        "p_paired_holm": corrected,
        "wins": _wins(pairs) if gaps else None,
        "probability_of_improvement": probability_of_improvement(ours, base) if gaps else None,
        "notebook_difference": _published(cell),
    }
