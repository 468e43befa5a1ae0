"""One W&B run per job: opened fresh, continued on resume, never waiting for a network."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from focusing.errors import UserError
from focusing.results.store import atomic_write
from focusing.training.wandb_facts import define_metrics, facts, tags
from focusing.training.wandb_server import obstacle
from focusing.validation import is_name

log = logging.getLogger(__name__)

MODES = ("auto", "online", "offline", "disabled")
OPTIONS = ("project", "entity", "tags", "job_type", "notes", "mode", "timeout")


def check_options(options: Mapping[str, Any]) -> None:
    """Raise a UserError about the first option that W&B does not have."""
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise UserError(f"logger.wandb.{unknown[0]} is not one of {', '.join(OPTIONS)}.")
    if (mode := options.get("mode") or "auto") not in MODES:
        raise UserError(f"logger.wandb.mode={mode} is not one of {', '.join(MODES)}.")
    timeout = options.get("timeout") or 15
    if not isinstance(timeout, (int, float)) or not timeout > 0:
        raise UserError(f"logger.wandb.timeout={timeout} must be a number of seconds.")


def open_run(
    options: dict[str, Any], run_dir: Path, *, config: dict[str, Any], experiment: str
) -> Any:
    """Open the W&B run of a job.

    Args:
        options: see ``conf/logger/wandb.yaml``.
        run_dir: the run folder; W&B's files go to ``wandb/`` in it, with the run's id, so that a
            resumed job continues its run.
        config: what W&B shows as the config of the run.
        experiment: the group of the run.

    Returns:
        The ``wandb.Run``.
    """
    check_options(options)
    wanted, timeout = options.get("mode") or "auto", float(options.get("timeout") or 15)
    # Before W&B reads its environment: even offline it would look up its telemetry host.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    mode = _decide(timeout) if wanted == "auto" else wanted
    shown = {**_swept(), **facts(config)}
    if wandb.run is not None:
        log.warning("W&B run %s was left open by an earlier job: closed as failed.", wandb.run.id)
        wandb.finish(exit_code=1)

    def start(mode: Any) -> Any:
        return wandb.init(
            project=options.get("project") or "focusing",
            entity=options.get("entity"),
            group=experiment,
            job_type=options.get("job_type") or "train",
            tags=[*tags(config), *(options.get("tags") or [])],
            notes=options.get("notes"),
            name=f"{run_dir.parent.name}-{run_dir.name}",
            id=_run_id(run_dir),
            resume="allow" if mode == "online" else None,
            dir=str(run_dir),
            config=shown,
            mode=mode,
            # A live progress bar would fill the captured console with one line per refresh.
            settings=wandb.Settings(
                console="off", init_timeout=timeout, silent=mode != "online", quiet=True
            ),
        )

    try:
        run = start(mode)
    except wandb.errors.Error as error:
        if wanted == "online":
            raise UserError(f"W&B: {error} (logger.wandb.mode=auto does without)") from None
        log.warning("W&B did not answer (%s): this run is kept offline.", error)
        wandb.teardown(exit_code=1)  # else W&B says that the id is in use
        os.environ["WANDB_MODE"] = "offline"
        run = start("offline")
    if os.environ.get("WANDB_SWEEP_ID"):  # its agent has chosen another id
        atomic_write(_id_file(run_dir), run.id.encode())
    define_metrics(run)
    return run


def run_id(run_dir: Path) -> str | None:
    """The id of the W&B run that a job in this folder had, if it had one."""
    path = _id_file(run_dir)
    text = path.read_text(errors="replace").strip() if path.is_file() else ""
    return text if is_name(text) else None  # W&B names folders after it


def _run_id(run_dir: Path) -> str:
    """The same, drawn if it had none."""
    known = run_id(run_dir)
    if known is None:
        known, path = uuid.uuid4().hex[:8], _id_file(run_dir)
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, known.encode())
    return known


def _id_file(run_dir: Path) -> Path:
    return run_dir / "wandb" / "run_id"


def _swept() -> dict[str, Any]:
    """What an agent of a W&B sweep chose for this run, by the names that it has in the sweep.

    Left to itself W&B would lock these, so that ``data: mnist`` would take the place of all options
    of the data set.
    """
    path = os.environ.pop("WANDB_SWEEP_PARAM_PATH", None)
    if path is None:
        return {}
    import yaml

    given = yaml.safe_load(Path(path).read_text()) or {}
    return {name: each["value"] for name, each in given.items() if name != "wandb_version"}


def _decide(timeout: float) -> str:
    """Online if there is a key and a server that takes connections; decided once per process."""
    if os.environ.get("WANDB_MODE"):
        return os.environ["WANDB_MODE"]
    why = obstacle(timeout)
    if why is None:
        return "online"
    log.warning("W&B: %s, so runs are kept. Send them later: focusing wandb push", why)
    # For the rest of the process; as an argument alone W&B still looks up hosts.
    os.environ["WANDB_MODE"] = "offline"
    return "offline"
