"""What W&B gets: a record as a W&B run, and all random trials as one."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from focusing.config import Optim
from focusing.errors import DamagedError
from focusing.reports.foci import read_layers
from focusing.reports.tables.trial_tables import BASE, noise_level
from focusing.results.collect import Run
from focusing.results.frame import group_by, replicate_key
from focusing.training.optimizer import learning_rates
from focusing.training.wandb_run import (
    curves_of,
    define_metrics,
    log_checkpoint,
    public_config,
    run_id,
    summary_of,
    tags,
)

log = logging.getLogger(__name__)
PROJECT = "focusing"
MARK = "record"
"""In the summary of a run: equal to that of a record that was sent whole."""
INIT_SECONDS = 60
"""How long to wait for W&B to open a run."""
KEY = JOB_TYPE = "trials"
"""The key of the scatter, whose table W&B keeps as ``trials_table``; the job type of its run."""
Rows = list[list[Any]]
Layers = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Item:
    """What is to be sent.

    Attributes:
        run: the W&B run, as arguments of ``wandb.init``. Its ``id`` is the same whenever and from
            wherever it is sent; its ``entity`` None stands for that of the key.
        mark: changes with what it was made from.
        content: what it holds, in a few words.
        fill: logs its content to an open W&B run.
    """

    run: Mapping[str, Any]
    mark: str
    content: str
    fill: Callable[[Any], None]

    @property
    def title(self) -> str:
        """Its experiment and its name."""
        return f"{self.run['group']}/{self.run['name']}"

    def line(self) -> str:
        """What it is, in a line."""
        return f"{self.run['id']}  {self.title}  {' '.join(self.run['tags'])}  ({self.content})"


def digest(*parts: str | bytes) -> str:
    """Sixteen hexadecimal digits that are equal for equal parts."""
    encoded = (part if isinstance(part, bytes) else part.encode() for part in parts)
    return hashlib.sha256(b"".join(part + b"\0" for part in encoded)).hexdigest()[:16]


def account(config: Mapping[str, Any]) -> dict[str, Any]:
    """Project and entity that a run was logged to while it trained, or would have been."""
    logged = (config.get("logger") or {}).get("wandb") or {}
    return {"project": logged.get("project") or PROJECT, "entity": logged.get("entity")}


def send(item: Item, project: str, entity: str) -> None:
    """Open the W&B run, fill it and close it, whatever happens.

    A run that W&B has in part, because an earlier attempt was cut short or because it was logged
    while it trained, is completed: it keeps its history, config and pictures.

    Args:
        item: what to send.
        project: where to.
        entity: the user or team.
    """
    import wandb

    with tempfile.TemporaryDirectory() as folder:
        run = wandb.init(
            **{**item.run, "project": project, "entity": entity},
            resume="allow",
            dir=folder,
            reinit="create_new",  # never a run that somebody left open
            settings=wandb.Settings(
                init_timeout=INIT_SECONDS,
                console="off",
                silent=True,
                # What this machine is and does says nothing about a run that is over.
                disable_git=True,
                save_code=False,
                x_disable_stats=True,
                x_disable_meta=True,
                x_save_requirements=False,
            ),
        )
        code = 1
        try:
            item.fill(run)
            run.summary[MARK] = item.mark
            code = 0
        finally:
            run.finish(exit_code=code)


def item_of(run: Run) -> Item:
    """The W&B run of a finished run.

    Its id is the one that the run had while it trained with ``logger=wandb``, online or offline;
    otherwise it follows from what the run is, so that copies of a record are one run.
    """
    logged = (run.config.get("logger") or {}).get("wandb") or {}
    identity = (run.experiment, run.config_hash, str(run.seed), run.source, run.fingerprint)
    figures = len(list(run.path.glob("figures/*.png")))
    foci = f", foci of {', '.join(run.focus)}" if run.focus else ""
    record = run.record()
    made = {
        **account(run.config),
        "id": run_id(run.path) or digest(*identity),
        "name": f"{run.model} · {run.data} · seed {run.seed}",
        "group": run.experiment,
        "job_type": str(logged.get("job_type") or "train"),
        "tags": [*tags(run.config), *(logged.get("tags") or ())],
        "config": {
            **public_config(run.config),
            "source": run.source,
            "fingerprint": run.fingerprint,
            **{name: record.get(name) for name in ("versions", "git", "started")},
        },
    }
    content = f"scores, history, {figures} figure{'' if figures == 1 else 's'}{foci}"
    return Item(made, digest(json.dumps(record)), content, partial(_fill, run))


def rows_of(
    record: Mapping[str, Any], more: Mapping[int, Mapping[str, float]]
) -> Iterator[dict[str, float]]:
    """The history of a run: a row per epoch, then the curves that callbacks measured.

    Args:
        record: of the run.
        more: epoch -> what else its row has.
    """
    series = record.get("series") or {}
    epochs = max(map(len, series.values()), default=0)
    for epoch in sorted({*range(epochs), *more}):
        row = {name: values[epoch] for name, values in series.items() if epoch < len(values)}
        row |= more.get(epoch, {})
        yield {"epoch": epoch} | {name: value for name, value in row.items() if value is not None}
    yield from curves_of(record)


def _course(run: Run, epochs: int, layers: Layers) -> dict[int, dict[str, float]]:
    """Epoch -> mean and spread of the foci of each layer, and learning rates, as logged live."""
    course: dict[int, dict[str, float]] = {}
    for layer, arrays in layers.items():
        for at, epoch in enumerate(arrays["epoch"].tolist()):
            row = course.setdefault(epoch, {})
            for name in ("mu", "sigma"):
                row[f"focus/{layer}/{name}_mean"] = float(arrays[name][at].mean())
                row[f"focus/{layer}/{name}_std"] = float(arrays[name][at].std())
    with suppress(TypeError):  # options of another version
        optim = Optim(**(run.config.get("optim") or {}))
        for epoch in range(epochs):
            rates = learning_rates(optim, epoch)
            shown = ("weight", "mu", "sigma") if run.focus else ("weight",)
            course.setdefault(epoch, {}).update({f"lr/{name}": rates[name] for name in shown})
    return course


def _fill(run: Run, to: Any) -> None:
    record = {**run.record(), "experiment": run.experiment}
    try:
        layers = read_layers(run.path / "focus.npz", ("mu", "sigma", "epoch"))
    except DamagedError as error:
        log.warning("%s Its foci are not sent.", error)
        layers = {}
    define_metrics(to)
    known = to.starting_step  # of a run that is continued, W&B has these rows
    epochs = max(map(len, (record.get("series") or {}).values()), default=0)
    rows = list(rows_of(record, _course(run, epochs, layers)))
    for step, row in enumerate(rows[known:], start=known):
        to.log(row, step=step)
    media = {**_pictures(run), **_tables(layers)}
    if media:  # a step of its own: without a number it would join the last one
        to.log(media, step=max(known, len(rows)))
    to.summary.update(summary_of(record))
    log_checkpoint(to, record["config"], run.path)


def _pictures(run: Run) -> dict[str, Any]:
    """The figures of a run; those of its foci by the names that they have while it trains."""
    import wandb

    pictures: dict[str, Any] = {}
    for path in sorted(run.path.glob("figures/*.png")):
        kind, _, layer = path.stem.partition("_")
        key = f"focus/{layer}" if kind == "foci" else f"figures/{path.stem}"
        pictures[key] = wandb.Image(str(path))
    film = run.path / "figures" / "windows.gif"  # where dynamic foci looked, over epochs
    if film.is_file():
        pictures["figures/windows_film"] = wandb.Video(str(film))
    return pictures


def _tables(layers: Layers) -> dict[str, Any]:
    """Foci of all neurons at the start and at the end, a table per layer."""
    import numpy as np
    import wandb

    tables: dict[str, Any] = {}
    for layer, arrays in layers.items():
        columns, values = ["neuron"], []
        for when, at in (("first", 0), ("last", -1)):
            for name in ("mu", "sigma"):
                foci = arrays[name][at]  # (neurons, dimensions)
                axes = range(foci.shape[1])
                columns += [f"{name}_{when}" + (f"_{i + 1}" if len(axes) > 1 else "") for i in axes]
                values.append(foci)
        rows = np.concatenate(values, axis=1).astype(float).tolist()
        data = [[neuron, *row] for neuron, row in enumerate(rows)]
        tables[f"foci/{layer}"] = wandb.Table(columns=[*columns], data=data)
    return tables


def trial_items(runs: Sequence[Run]) -> list[Item]:
    """One item per experiment, size, variant, protocol and data source of trials."""
    trials = [run for run in runs if run.trial is not None]
    groups = group_by(
        trials, lambda run: (run.experiment, run.size, run.variant, run.protocol, run.source)
    )
    items = []
    for key, members in groups.items():
        experiment, size, variant, protocol, source = key
        columns, rows = trial_table(members)
        made = {
            **account(members[0].config),
            "id": digest(JOB_TYPE, *key),
            "name": f"{len(rows)} trials",
            "group": experiment,
            "job_type": JOB_TYPE,
            "tags": [f"size={size}", f"variant={variant}", f"protocol={protocol}"],
            "config": {
                "name": experiment,
                "size": size,
                "variant": variant,
                "protocol": {"name": protocol},
                "data": {"name": members[0].data, "source": source},
            },
        }
        mark = digest(json.dumps([columns, rows]))
        content = f"a table of {len(rows)} trials, {', '.join(columns[4:])}"
        items.append(Item(made, mark, content, partial(_fill_trials, columns, rows)))
    return items


def trial_table(runs: Sequence[Run]) -> tuple[list[str], Rows]:
    """Columns and rows: what a trial was, and the accuracy of every model in percent."""
    models = sorted({run.model for run in runs}, key=lambda name: (name != BASE, name))
    rows = []
    for members in group_by(runs, replicate_key).values():
        first = members[0]
        scores = {run.model: 100 * run.scores[run.protocol] for run in members}
        position = first.config["data"]["noise_position"]
        drawn = [first.trial, first.seed, noise_level(first), position]
        rows.append([*drawn, *map(scores.get, models)])
    rows.sort(key=lambda row: (row[0], row[1]))
    return ["trial", "seed", "noise", "position", *models], rows


def _fill_trials(columns: list[str], rows: Rows, to: Any) -> None:
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
