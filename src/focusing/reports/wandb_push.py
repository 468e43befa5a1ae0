"""``focusing wandb push``: sends finished runs to W&B, each of them once."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from focusing.errors import UserError
from focusing.reports.names import plural
from focusing.reports.report import no_runs_message, search_folders
from focusing.reports.wandb_items import RECORD_DIGEST, Item, item_of, send, trial_items
from focusing.results.collect import collect
from focusing.results.frame import group_by
from focusing.training.wandb_run import offline_reason

PER_PAGE = 500


def push(options: argparse.Namespace) -> None:
    """Run ``focusing wandb push`` with its arguments."""
    items = to_send(search_folders(options.folders), trials=options.trials)
    console = Console(highlight=False, soft_wrap=True)
    places = group_by(
        items,
        lambda item: tuple(getattr(options, key) or item.run[key] for key in ("entity", "project")),
    )
    if options.dry_run:
        for where, here in places.items():
            console.print(f"Would send {plural(len(here), 'run')} to {target_name(*where)}:")
            for item in here:
                console.print(item.line(), markup=False)
        return
    wanted = " and ".join(
        f"{plural(len(here), 'run')} for {target_name(*where)}" for where, here in places.items()
    )
    require_server(f"{wanted} not sent (--dry-run lists them)")
    for (entity, project), here in places.items():
        _send_new(entity, project, here, console)


def _send_new(entity: str | None, project: str, items: Sequence[Item], console: Console) -> None:
    entity, known = on_server(entity, project, items)
    missing = [item for item in items if known.get(item.run["id"]) != item.digest]
    for sent, item in enumerate(missing):
        try:
            send(item, project, entity)
        except Exception as error:  # W&B raises many kinds
            raise UserError(
                f"W&B did not take {item.title}: {one_line(error)} ({sent} of "
                f"{plural(len(missing), 'run')} sent; the same command goes on from there)."
            ) from error
        console.print(item.title, markup=False)
    kept = len(items) - len(missing)
    there = f", {plural(kept, 'run')} had been there" if kept else ""
    console.print(f"Sent {plural(len(missing), 'run')} to {target_name(entity, project)}{there}.")


def to_send(folders: Sequence[Path], *, trials: bool) -> list[Item]:
    """The W&B runs of all records below some folders; with ``trials`` also one per random trial."""
    collection = collect(folders)
    if collection.unreadable:
        print(collection.warning(), file=sys.stderr)
    if not collection.runs:
        raise UserError(no_runs_message(folders))
    single = [run for run in collection.runs if trials or run.trial is None]
    return [*trial_items(collection.runs), *map(item_of, single)]


def on_server(
    entity: str | None, project: str, items: Sequence[Item]
) -> tuple[str, dict[str, str | None]]:
    """The user or team, and the digest of every item that W&B has (None if incomplete)."""
    import wandb

    entity = entity or default_entity()
    try:
        runs = wandb.Api().runs(
            f"{entity}/{project}",
            filters={"name": {"$in": [item.run["id"] for item in items]}},
            per_page=PER_PAGE,
            lazy=False,
        )
        digests = {
            run.id: run.summary.get(RECORD_DIGEST) if run.state == "finished" else None
            for run in runs
        }
    except Exception as error:
        if "Could not find project" in str(error):  # W&B will create it
            return entity, {}
        raise UserError(f"W&B did not answer: {one_line(error)}.") from error
    return entity, digests


def default_entity() -> str:
    """The user or team that the environment or the W&B key names."""
    import wandb

    try:
        return os.environ.get("WANDB_ENTITY") or str(wandb.Api().default_entity)
    except Exception as error:
        raise UserError(f"W&B did not answer: {one_line(error)}.") from error


def require_server(undone: str) -> None:
    """Raise a :class:`UserError` that says what was not done if W&B cannot be reached."""
    # Set before W&B reads its environment: otherwise it looks up its telemetry host, and prints.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    os.environ.setdefault("WANDB_SILENT", "true")
    mode = os.environ.get("WANDB_MODE", "online")
    why = offline_reason() if mode == "online" else f"WANDB_MODE={mode}"
    if why:
        raise UserError(f"W&B: {why}, so {undone}.")


def target_name(entity: str | None, project: str) -> str:
    """``entity/project``, or the project if the entity is unknown."""
    return f"{entity}/{project}" if entity else project


def one_line(error: Exception) -> str:
    """The message of an error in one line, without a full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
