"""One W&B run per job: opened fresh, continued on resume, never waiting for a network."""

from __future__ import annotations

import logging
import netrc
import os
import socket
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from focusing.errors import UserError

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
    if wandb.run is not None:
        log.warning("W&B run %s was left open by an earlier job: closed as failed.", wandb.run.id)
        wandb.finish(exit_code=1)

    def start(mode: Any) -> Any:
        return wandb.init(
            project=options.get("project") or "focusing",
            entity=options.get("entity"),
            group=experiment,
            job_type=options.get("job_type") or "train",
            tags=list(options.get("tags") or []),
            notes=options.get("notes"),
            name=f"{run_dir.parent.name}-{run_dir.name}",
            id=_run_id(run_dir),
            resume="allow" if mode == "online" else None,
            dir=str(run_dir),
            config=config,
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
    run.define_metric("epoch")
    run.define_metric("*", step_metric="epoch")
    return run


def _run_id(run_dir: Path) -> str:
    """The id of the run in this folder, drawn once."""
    path = run_dir / "wandb" / "run_id"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(uuid.uuid4().hex[:8])
    return path.read_text().strip()


def _decide(timeout: float) -> str:
    """Online if there is a key and a server that takes connections; decided once per process."""
    if os.environ.get("WANDB_MODE"):
        return os.environ["WANDB_MODE"]
    import wandb

    url = os.environ.get("WANDB_BASE_URL") or str(wandb.Settings().base_url)
    if not _has_key(url):
        why = "no API key (wandb login)"
    elif not _answers(url, min(timeout, 3.0)):
        why = "no connection"
    else:
        return "online"
    log.warning(
        "W&B: %s, so runs are kept. Send them later: wandb sync RUN_DIR/wandb/offline-*", why
    )
    # For the rest of the process; as an argument alone W&B still looks up hosts.
    os.environ["WANDB_MODE"] = "offline"
    return "offline"


def _has_key(url: str) -> bool:
    """Whether W&B would find a key where ``wandb login`` and its documentation put one."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    given = os.environ.get("NETRC")
    paths = [Path(given)] if given else [Path.home() / name for name in (".netrc", "_netrc")]
    for path in paths:
        try:
            hosts = netrc.netrc(path).hosts
        except (OSError, netrc.NetrcParseError):
            continue
        if urlsplit(url).netloc in hosts or any("wandb" in host for host in hosts):
            return True
    return False


def _answers(url: str, timeout: float) -> bool:
    """Whether the server, or the proxy before it, takes a connection within ``timeout`` seconds."""
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    parts = urlsplit(proxy or url)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    found = threading.Event()

    def connect() -> None:
        try:
            socket.create_connection((parts.hostname or "", port), timeout=timeout).close()
        except OSError:
            return
        found.set()

    # In a thread, because a name server that is silent keeps a lookup waiting beyond any timeout.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout)
    return found.is_set()
