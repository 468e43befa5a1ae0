"""Records as W&B runs, and all random trials of an experiment as one W&B run."""

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
from focusing.reports.names import plural
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
RECORD_DIGEST = "record"
"""Summary key of the digest of a record that was sent completely."""
INIT_SECONDS = 60
"""Seconds to wait for W&B to open a run."""
KEY = JOB_TYPE = "trials"
"""Key of the scatter plot, whose table W&B keeps as ``trials_table``; job type of its run."""
Rows = list[list[Any]]
Layers = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Item:
    """A W&B run to send.

    Attributes:
        run: arguments of ``wandb.init``. The ``id`` does not depend on when and where it is sent;
            an ``entity`` of None is the default of the API key.
        digest: changes with the content.
        content: what it holds, in a few words.
        fill: logs the content to an open W&B run.
    """

    run: Mapping[str, Any]
    digest: str
    content: str
    fill: Callable[[Any], None]

    @property
    def title(self) -> str:
        """Experiment and name."""
        return f"{self.run['group']}/{self.run['name']}"

    def line(self) -> str:
        """Describe it in one line."""
        return f"{self.run['id']}  {self.title}  {' '.join(self.run['tags'])}  ({self.content})"


def digest(*parts: str | bytes) -> str:
    """Hash some parts to 16 hexadecimal digits."""
    encoded = (part if isinstance(part, bytes) else part.encode() for part in parts)
    return hashlib.sha256(b"".join(part + b"\0" for part in encoded)).hexdigest()[:16]


def account(config: Mapping[str, Any]) -> dict[str, Any]:
    """Project and entity of a run's logger, or the defaults."""
    logged = (config.get("logger") or {}).get("wandb") or {}
    return {"project": logged.get("project") or PROJECT, "entity": logged.get("entity")}


def send(item: Item, project: str, entity: str) -> None:
    """Send a run to a project of an entity.

    A run that W&B has in part (logged while it trained, or interrupted while it was sent) is
    completed: it keeps its history, config and pictures.
    """
    import wandb

    with tempfile.TemporaryDirectory() as folder:
        run = wandb.init(
            **{**item.run, "project": project, "entity": entity},
            resume="allow",
            dir=folder,
            reinit="create_new",  # do not reuse a run that is open in this process
            settings=wandb.Settings(
                init_timeout=INIT_SECONDS,
                console="off",
                silent=True,
                # The run is over: the state of this machine says nothing about it.
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
            run.summary[RECORD_DIGEST] = item.digest
            code = 0
        finally:
            run.finish(exit_code=code)


def item_of(run: Run) -> Item:
    """Make the W&B run of a finished run.

    Its id is the one it had while it trained with ``logger=wandb``. Otherwise the id is derived
    from the run's identity, so that copies of a record become one W&B run.
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
    content = f"scores, history, {plural(figures, 'figure')}{foci}"
    return Item(made, digest(json.dumps(record)), content, partial(_fill, run))


def rows_of(
    record: Mapping[str, Any], more: Mapping[int, Mapping[str, float]]
) -> Iterator[dict[str, float]]:
    """History of a run: a row per epoch, with ``more`` columns by epoch, then measured curves."""
    series = record.get("series") or {}
    epochs = max(map(len, series.values()), default=0)
    for epoch in sorted({*range(epochs), *more}):
        row = {name: values[epoch] for name, values in series.items() if epoch < len(values)}
        row |= more.get(epoch, {})
        yield {"epoch": epoch} | {name: value for name, value in row.items() if value is not None}
    yield from curves_of(record)


def _course(run: Run, epochs: int, layers: Layers) -> dict[int, dict[str, float]]:
    """Epoch -> mean and deviation of each layer's foci, and learning rates, as logged live."""
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
    known = to.starting_step  # rows that W&B has of a run that is continued
    epochs = max(map(len, (record.get("series") or {}).values()), default=0)
    rows = list(rows_of(record, _course(run, epochs, layers)))
    for step, row in enumerate(rows[known:], start=known):
        to.log(row, step=step)
    media = {**_pictures(run), **_tables(layers)}
    if media:  # in a step of its own: without a number it would join the last one
        to.log(media, step=max(known, len(rows)))
    to.summary.update(summary_of(record))
    log_checkpoint(to, record["config"], run.path)


def _pictures(run: Run) -> dict[str, Any]:
    """Figures of a run; those of foci have the keys that they have while a run trains."""
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
    """Foci of all neurons at the start and the end, a table per layer."""
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
    """Make one W&B run per experiment, size, variant, protocol and source of random trials."""
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
        content = f"a table of {len(rows)} trials, {', '.join(columns[4:])}"
        fill = partial(_fill_trials, columns, rows)
        items.append(Item(made, digest(json.dumps([columns, rows])), content, fill))
    return items


def trial_table(runs: Sequence[Run]) -> tuple[list[str], Rows]:
    """Columns and rows: the parameters of a trial, and the accuracy of every model in percent."""
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
