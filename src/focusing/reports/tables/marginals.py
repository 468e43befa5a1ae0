"""The random trials of Table 1 by each of their parameters: does focusing help at every value?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from focusing.reports.names import PROTOCOLS, model_name
from focusing.reports.tables import Cell, Column, Row, Table, number, text
from focusing.reports.tables.cells import Block
from focusing.reports.tables.trials import (
    BASE,
    NONE,
    about,
    gap_cell,
    noise_level,
    trial_blocks,
    trial_pairs,
)
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by, replicate_key
from focusing.results.stats import holm, mean_interval, paired_p

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
SUBSETS: dict[str, Callable[[Run], bool]] = {
    "all": lambda run: True,
    "noisy": lambda run: noise_level(run) != NONE,
    "clean": lambda run: noise_level(run) == NONE,
}
NOTE = (
    "Each row holds the trials that drew this value of one parameter, whatever they drew of the "
    "others. Differences of test accuracy, focused − dense, in points, at the best test epoch: "
    "mean, 95 % interval (bootstrap; Student's t below 20 pairs), p of the paired t-test, "
    "Holm-corrected over this column. Noisy: trials with columns of noise; clean: without. Batch "
    "sizes are shares of the samples where they were drawn so."
)


def marginal_tables(collection: Collection) -> list[Table]:
    """One for each table of trials that has pairs."""
    tables = []
    for name, title, block, model in trial_blocks(collection):
        protocol = next((each for each in PROTOCOLS if trial_pairs(block, model, each)), None)
        if protocol is not None:
            parts = f"{name}_by_parameter", f"{title}: by parameter"
            tables.append(_table(*parts, block, model, protocol))
    return tables


def _table(name: str, title: str, block: Block, model: str, protocol: str) -> Table:
    pairs = trial_pairs(block, model, protocol)
    runs = {replicate_key(run): run for run in block.models[BASE] if replicate_key(run) in pairs}
    groups = {
        (parameter, value): {
            subset: [pairs[replicate_key(run)] for run in alike if chosen(run)]
            for subset, chosen in SUBSETS.items()
        }
        for parameter in PARAMETERS
        for value, alike in _by_value(parameter, list(runs.values()))
    }
    gaps = {
        (key, subset): [ours - base for ours, base in found]
        for key, subsets in groups.items()
        for subset, found in subsets.items()
    }
    corrected: dict[Any, float | None] = {}
    for subset in SUBSETS:
        keys = [(key, subset) for key in groups]
        corrected.update(zip(keys, holm([paired_p(gaps[key]) for key in keys]), strict=True))
    rows, records = [], []
    last = None
    for key, subsets in groups.items():
        ours, base = zip(*subsets["all"], strict=True)
        rows.append(
            Row(
                (
                    text(key[0]) if key[0] != last else Cell(),
                    text(str(key[1])),
                    text(str(len(ours))),
                    text(number(sum(base) / len(base))),
                    text(number(sum(ours) / len(ours))),
                    *(gap_cell(gaps[key, subset], corrected[key, subset]) for subset in SUBSETS),
                ),
                {"model": model, "parameter": key[0]},
                begins=key[0] != last,
            )
        )
        last = key[0]
        for subset in SUBSETS:
            found = gaps[key, subset]
            interval = mean_interval(found) if found else None
            records.append(
                about(block.models[BASE][0])
                | {
                    "model": model,
                    "other": BASE,
                    "parameter": key[0],
                    "value": key[1],
                    "trials": subset,
                    "protocol": protocol,
                    "pairs": len(found),
                    "difference": sum(found) / len(found) if found else None,
                    "low": interval and interval.low,
                    "high": interval and interval.high,
                    "p_paired": paired_p(found),
                    "p_paired_holm": corrected[key, subset],
                }
            )
    columns = (
        Column("parameter"),
        Column("value", "right"),
        Column("pairs", "right"),
        Column(model_name(BASE), "right"),
        Column(model_name(model), "right"),
        *(Column(f"difference, {subset}", "right") for subset in SUBSETS),
    )
    return Table(name, title, columns, tuple(rows), (NOTE,), records=tuple(records))


def _by_value(parameter: str, runs: Sequence[Run]) -> list[tuple[Any, list[Run]]]:
    """Trials by the value that they drew, in order; none if all drew the same."""
    value = PARAMETERS[parameter]
    if len(set(map(value, runs))) < 2:
        return []
    if parameter == "batch size":
        samples = PARAMETERS["samples"]
        return sorted(group_by(runs, lambda run: round(value(run) / samples(run), 3)).items())
    return sorted(group_by(runs, value).items())
