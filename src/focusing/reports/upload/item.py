"""One run as W&B will have it, and the way it gets there."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

PROJECT = "focusing"
MARK = "record"
"""In the summary of a run: equal to that of a record that was sent whole."""
PATIENCE = 60
"""Seconds to wait for W&B to open a run."""


@dataclass(frozen=True)
class Item:
    """What is to be sent.

    Attributes:
        project: where it belongs.
        entity: the user or team that has the project; None: the one of the key.
        id: of the W&B run; the same whenever and from wherever it is sent.
        name: what W&B calls it.
        group: the experiment.
        job_type: tells items of one group apart.
        tags: to filter by.
        config: options -> values.
        mark: changes with what it was made from.
        content: what it holds, in a few words.
        fill: logs its content to an open W&B run.
    """

    project: str
    entity: str | None
    id: str
    name: str
    group: str
    job_type: str
    tags: tuple[str, ...]
    config: Mapping[str, Any]
    mark: str
    content: str
    fill: Callable[[Any], None]

    def line(self) -> str:
        """What it is, in a line."""
        return f"{self.id}  {self.group}/{self.name}  {' '.join(self.tags)}  ({self.content})"


def digest(*parts: str | bytes) -> str:
    """Sixteen hexadecimal digits that are equal for equal parts."""
    found = hashlib.sha256()
    for each in parts:
        found.update(each if isinstance(each, bytes) else each.encode())
        found.update(b"\0")
    return found.hexdigest()[:16]


def account(config: Mapping[str, Any]) -> dict[str, Any]:
    """Project and entity that a run was logged to while it trained, or would have been."""
    logged = (config.get("logger") or {}).get("wandb") or {}
    return {"project": logged.get("project") or PROJECT, "entity": logged.get("entity")}


def send(item: Item, project: str, entity: str | None = None, *, mode: Any = "online") -> None:
    """Open the W&B run, fill it and close it, whatever happens.

    A run that W&B has in part, because an earlier attempt was cut short or because it was logged
    while it trained, is completed: it keeps its history, config and pictures.

    Args:
        item: what to send.
        project: where to.
        entity: the user or team; None: the one of the key.
        mode: ``"offline"`` leaves files in the current folder instead.
    """
    import wandb

    with tempfile.TemporaryDirectory() as folder:
        run = wandb.init(
            project=project,
            entity=entity,
            id=item.id,
            name=item.name,
            group=item.group,
            job_type=item.job_type,
            tags=list(item.tags),
            config=dict(item.config),
            resume="allow" if mode == "online" else None,
            mode=mode,
            dir=folder if mode == "online" else ".",
            reinit="create_new",  # never a run that somebody left open
            settings=wandb.Settings(
                init_timeout=PATIENCE,
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
