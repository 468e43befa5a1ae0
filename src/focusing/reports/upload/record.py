"""What W&B gets of a finished run: all that its folder holds and a person may want to see."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from focusing.errors import DamagedError
from focusing.reports.foci import read_layers
from focusing.reports.upload.item import Item, account, digest
from focusing.results.collect import Run
from focusing.training.wandb_run import curves_of, define_metrics, facts, run_id, summary_of, tags

log = logging.getLogger(__name__)


def item_of(run: Run) -> Item:
    """The W&B run of a finished run.

    Its id is the one that the run had while it trained with ``logger=wandb``, online or offline;
    otherwise it follows from what the run is, so that copies of a record are one run.
    """
    logged = (run.config.get("logger") or {}).get("wandb") or {}
    given = (run.experiment, run.config_hash, str(run.seed), run.source, run.fingerprint)
    figures = len(list(run.path.glob("figures/*.png")))
    foci = f", foci of {', '.join(run.focus)}" if run.focus else ""
    return Item(
        **account(run.config),
        id=run_id(run.path) or digest(*given),
        name=f"{run.config_hash}-seed={run.seed}",
        group=run.experiment,
        job_type=str(logged.get("job_type") or "train"),
        tags=(*tags(run.config), *(logged.get("tags") or ())),
        config={
            **facts(run.config),
            "source": run.source,
            "fingerprint": run.fingerprint,
            "versions": dict(run.versions),
            "git": run.git,
            "started": run.started,
        },
        mark=digest(json.dumps(run.record())),
        content=f"scores, history, {figures} figure{'' if figures == 1 else 's'}{foci}",
        fill=partial(_fill, run),
    )


def rows_of(record: Mapping[str, Any]) -> Iterator[dict[str, float]]:
    """The history of a run: a row for each epoch, then the curves that callbacks measured."""
    series = record.get("series") or {}
    for epoch in range(max(map(len, series.values()), default=0)):
        values = {name: each[epoch] for name, each in series.items() if epoch < len(each)}
        known = {name: value for name, value in values.items() if value is not None}
        yield {"epoch": epoch, **known}
    yield from curves_of(record)


def _fill(run: Run, to: Any) -> None:
    record = run.record()
    define_metrics(to)
    known = to.starting_step  # of a run that is continued, W&B has these rows
    rows = list(rows_of(record))
    for step, row in enumerate(rows[known:], start=known):
        to.log(row, step=step)
    seen = {**_pictures(run), **_tables(run)}
    if seen:  # a step of its own: without a number it would join the last one
        to.log(seen, step=max(known, len(rows)))
    to.summary.update(summary_of(record))


def _pictures(run: Run) -> dict[str, Any]:
    """The figures of a run; those of its foci by the names that they have while it trains."""
    import wandb

    found: dict[str, Any] = {}
    for path in sorted(run.path.glob("figures/*.png")):
        kind, _, layer = path.stem.partition("_")
        key = f"focus/{layer}" if kind == "foci" else f"figures/{path.stem}"
        found[key] = wandb.Image(str(path))
    return found


def _tables(run: Run) -> dict[str, Any]:
    """Where each neuron looked at the start and at the end, a table for each layer."""
    import numpy as np
    import wandb

    try:
        layers = read_layers(run.path / "focus.npz", ("mu", "sigma"))
    except DamagedError as error:
        log.warning("%s Its foci are not sent.", error)
        return {}
    found: dict[str, Any] = {}
    for layer, arrays in layers.items():
        columns, values = ["neuron"], []
        for when, at in (("first", 0), ("last", -1)):
            for name in ("mu", "sigma"):
                each = arrays[name][at]  # (neurons, dimensions)
                axes = range(each.shape[1])
                columns += [f"{name}_{when}" + (f"_{i + 1}" if len(axes) > 1 else "") for i in axes]
                values.append(each)
        rows = np.concatenate(values, axis=1).astype(float).tolist()
        table = [[neuron, *row] for neuron, row in enumerate(rows)]
        found[f"foci/{layer}"] = wandb.Table(columns=[*columns], data=table)
    return found
