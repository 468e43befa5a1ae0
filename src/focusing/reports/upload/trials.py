"""The random trials of Table 1 on W&B: one run with a table of them, rather than 1500 runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from focusing.reports.tables.trial_tables import BASE, noise_level
from focusing.reports.upload.item import Item, account, digest
from focusing.results.collect import Run
from focusing.results.frame import group_by, replicate_key

KEY = "trials"
"""Of the scatter; W&B keeps what it shows as ``trials_table``."""
JOB_TYPE = "trials"
Rows = list[list[Any]]


def trial_items(runs: Sequence[Run]) -> list[Item]:
    """One item for the trials of each experiment, size, variant, protocol and data source."""
    trials = [run for run in runs if run.trial is not None]
    groups = group_by(
        trials, lambda run: (run.experiment, run.size, run.variant, run.protocol, run.source)
    )
    items = []
    for key, members in groups.items():
        experiment, size, variant, protocol, source = key
        columns, rows = trial_table(members)
        items.append(
            Item(
                **account(members[0].config),
                id=digest(JOB_TYPE, *key),
                name=f"{len(rows)} trials",
                group=experiment,
                job_type=JOB_TYPE,
                tags=(f"size={size}", f"variant={variant}", f"protocol={protocol}"),
                config={
                    "name": experiment,
                    "size": size,
                    "variant": variant,
                    "protocol": {"name": protocol},
                    "data": {"name": members[0].data, "source": source},
                },
                mark=digest(json.dumps([columns, rows])),
                content=f"a table of {len(rows)} trials, {', '.join(columns[4:])}",
                fill=partial(_fill, columns, rows),
            )
        )
    return items


def trial_table(runs: Sequence[Run]) -> tuple[list[str], Rows]:
    """Columns and rows: what a trial was, and the accuracy of each model in percent."""
    names = {run.model for run in runs}
    models = sorted(names, key=lambda name: (name != BASE, name))
    rows = []
    for members in group_by(runs, replicate_key).values():
        first = members[0]
        scores = {run.model: 100 * run.scores[run.protocol] for run in members}
        what = [
            first.trial,
            first.seed,
            noise_level(first),
            first.config["data"]["noise_position"],
        ]
        rows.append([*what, *(scores.get(model) for model in models)])
    rows.sort(key=lambda row: (row[0], row[1]))
    return ["trial", "seed", "noise", "position", *models], rows


def _fill(columns: list[str], rows: Rows, to: Any) -> None:
    import wandb

    table = wandb.Table(columns=[*columns], data=rows)
    focused = next((name for name in columns[4:] if name != BASE), None)
    if BASE in columns and focused:
        title = f"{focused} against {BASE}, test accuracy"
        to.log({KEY: wandb.plot.scatter(table, BASE, focused, title=title)})
        pairs = [(row[4], row[columns.index(focused)]) for row in rows]
        whole = [(base, ours) for base, ours in pairs if base is not None and ours is not None]
        if whole:
            gap = sum(ours - base for base, ours in whole) / len(whole)
            to.summary.update({"pairs": len(whole), f"{focused} - {BASE}": gap})
    else:
        to.log({f"{KEY}_table": table})
    to.summary["n_trials"] = len(rows)
