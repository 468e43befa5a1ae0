"""The W&B run of a job: opened or resumed, online or offline, and what it shows."""

from __future__ import annotations

import logging
import netrc
import os
import socket
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from focusing.config import PAPER_EDITION
from focusing.errors import UserError
from focusing.results.identity import config_hash
from focusing.results.store import atomic_write
from focusing.training.checkpoint import chosen_checkpoint
from focusing.validation import is_name, iter_leaves

log = logging.getLogger(__name__)

MODES = ("auto", "online", "offline", "disabled")
OPTIONS = ("project", "entity", "tags", "job_type", "notes", "mode", "timeout", "checkpoint")
CONNECT_SECONDS = 3.0
"""Longest wait for a connection."""
TAGGED = ("data", "model", "size", "variant", "protocol")
PRUNING = "pruning/sparsity"
"""x axis of the pruning curves."""


def check_options(options: Mapping[str, Any]) -> None:
    """Raise a UserError for an unknown option or a bad value in ``logger.wandb``."""
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise UserError(f"logger.wandb.{unknown[0]} is not one of {', '.join(OPTIONS)}.")
    if (mode := options.get("mode") or "auto") not in MODES:
        raise UserError(f"logger.wandb.mode={mode} is not one of {', '.join(MODES)}.")
    timeout = options.get("timeout") or 15
    if not isinstance(timeout, (int, float)) or not timeout > 0:
        raise UserError(f"logger.wandb.timeout={timeout} must be a number of seconds.")
    if not isinstance(options.get("checkpoint") or False, bool):
        raise UserError(f"logger.wandb.checkpoint={options['checkpoint']} must be true or false.")


def open_run(
    options: Mapping[str, Any], run_dir: Path, *, config: dict[str, Any], experiment: str
) -> Any:
    """Open the W&B run of a job.

    Args:
        options: see ``conf/logger/wandb.yaml``.
        run_dir: the run folder; ``wandb/`` in it holds W&B's files and the run's id, with which a
            resumed job continues its W&B run.
        config: the config of the run.
        experiment: group of the run in W&B.

    Returns:
        The ``wandb.Run``.
    """
    check_options(options)
    wanted, timeout = options.get("mode") or "auto", float(options.get("timeout") or 15)
    # Set before the import: even offline, W&B would look up its telemetry host.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    mode = _decide_mode(timeout) if wanted == "auto" else wanted
    shown = {**_sweep_parameters(), **public_config(config)}
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
            name=display_name(config),
            id=_new_run_id(run_dir),
            resume="allow" if mode == "online" else None,
            dir=str(run_dir),
            config=shown,
            mode=mode,
            # console: a captured progress bar would add one line per refresh.
            settings=wandb.Settings(
                console="off", init_timeout=timeout, silent=mode != "online", quiet=True
            ),
        )

    try:
        run = start(mode)
    except wandb.errors.Error as error:
        if wanted == "online":
            raise UserError(f"W&B: {error} (logger.wandb.mode=auto would go on offline)") from None
        log.warning("W&B did not answer (%s): this run is kept offline.", error)
        wandb.teardown(exit_code=1)  # otherwise W&B complains that the id is in use
        os.environ["WANDB_MODE"] = "offline"
        run = start("offline")
    if os.environ.get("WANDB_SWEEP_ID"):  # the agent of the sweep has chosen another id
        atomic_write(_id_file(run_dir), run.id.encode())
    define_metrics(run)
    return run


def run_id(run_dir: Path) -> str | None:
    """Id of the W&B run of this run folder; None if it has none."""
    path = _id_file(run_dir)
    text = path.read_text(errors="replace").strip() if path.is_file() else ""
    return text if is_name(text) else None  # W&B uses it as a folder name


def _new_run_id(run_dir: Path) -> str:
    """Id of the W&B run of this run folder, created if it has none."""
    known = run_id(run_dir)
    if known is None:
        known, path = uuid.uuid4().hex[:8], _id_file(run_dir)
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, known.encode())
    return known


def _id_file(run_dir: Path) -> Path:
    return run_dir / "wandb" / "run_id"


def _sweep_parameters() -> dict[str, Any]:
    """Parameters that an agent of a W&B sweep has chosen for this run.

    They are removed from the environment. Otherwise W&B would lock them, and ``data: mnist`` would
    replace all options of the data set in the config that W&B shows.
    """
    path = os.environ.pop("WANDB_SWEEP_PARAM_PATH", None)
    if path is None:
        return {}
    import yaml

    chosen = yaml.safe_load(Path(path).read_text()) or {}
    return {name: entry["value"] for name, entry in chosen.items() if name != "wandb_version"}


# Online or offline.


def _decide_mode(timeout: float) -> str:
    """Online if there is an API key and the server answers; decided once per process."""
    if os.environ.get("WANDB_MODE"):
        return os.environ["WANDB_MODE"]
    why = offline_reason(timeout)
    if why is None:
        return "online"
    log.warning("W&B: %s, so runs are kept. Send them later: focusing wandb push", why)
    # In the environment, because W&B looks up hosts if it is only passed as an argument.
    os.environ["WANDB_MODE"] = "offline"
    return "offline"


def offline_reason(timeout: float = CONNECT_SECONDS) -> str | None:
    """Why W&B cannot be reached, in a few words; None if there is a key and a connection."""
    import wandb

    url = os.environ.get("WANDB_BASE_URL") or str(wandb.Settings().base_url)
    if not _has_key(url):
        return "no API key (wandb login)"
    return None if _answers(url, min(timeout, CONNECT_SECONDS)) else "no connection"


def _has_key(url: str) -> bool:
    """Whether there is an API key in the environment or where ``wandb login`` stores it."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    own = os.environ.get("NETRC")
    paths = [Path(own)] if own else [Path.home() / name for name in (".netrc", "_netrc")]
    for path in paths:
        try:
            hosts = netrc.netrc(path).hosts
        except (OSError, netrc.NetrcParseError):
            continue
        if urlsplit(url).netloc in hosts or any("wandb" in host for host in hosts):
            return True
    return False


def _answers(url: str, timeout: float) -> bool:
    """Whether the server, or the proxy before it, accepts a connection within the timeout."""
    address = urlsplit(os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy") or url)
    port = address.port or (80 if address.scheme == "http" else 443)
    connected = threading.Event()

    def connect() -> None:
        try:
            socket.create_connection((address.hostname or "", port), timeout=timeout).close()
        except OSError:
            return
        connected.set()

    # In a thread, because a DNS lookup may take longer than any timeout.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout)
    return connected.is_set()


# What W&B shows of a run, both while it trains and when its record is uploaded later.


def public_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a run as W&B shows it, without the paths of this machine.

    Adds ``config_hash``, the same for all seeds, and ``label``: the model, the choices that differ
    from the paper's edition, and the experiment.
    """
    names, data = _names(config), config["data"]
    label = [names["model"]]
    label += [
        names[group] for group, usual in PAPER_EDITION.items() if names.get(group, usual) != usual
    ]
    label += ["fake data"] if data.get("fake") else []
    label += ["sample"] if data.get("on_missing") == "sample" else []
    experiment = f" ({config['name']})" if "name" in config else ""
    options = {name: value for name, value in config.items() if name != "paths"}
    label_text = f"{', '.join(label)}{experiment}"
    return {**options, "config_hash": config_hash(config), "label": label_text}


def display_name(config: Mapping[str, Any]) -> str:
    """Name of a run in W&B, such as ``focus_s · mnist · seed 5``."""
    return f"{config['model']['name']} · {config['data']['name']} · seed {config['seed']}"


def tags(config: Mapping[str, Any]) -> list[str]:
    """Tags of a run, as typed on the command line: ``data=mnist``, ``model=focus_s``, ..."""
    return [f"{group}={name}" for group, name in _names(config).items()]


def _names(config: Mapping[str, Any]) -> dict[str, str]:
    """Chosen name of each config group in :data:`TAGGED`."""
    values = {group: config.get(group) for group in TAGGED}
    names = {k: v.get("name") if isinstance(v, Mapping) else v for k, v in values.items()}
    return {group: str(name) for group, name in names.items() if name is not None}


def define_metrics(run: Any) -> None:
    """Define the x axes of the charts of a W&B run."""
    run.define_metric("epoch")
    run.define_metric(PRUNING, hidden=True)
    run.define_metric("pruning/*", step_metric=PRUNING)
    run.define_metric("*", step_metric="epoch")


def log_record(run: Any, record: Mapping[str, Any], run_dir: Path) -> None:
    """Send the results of a finished run; a failure only causes a warning."""
    try:
        for row in curves_of(record):
            run.log(row)
        if matrix := (record.get("test_metrics") or {}).get("confusion_matrix"):
            run.log({"test/confusion_matrix": _matrix_chart(matrix)})
        run.summary.update(summary_of(record))
        log_checkpoint(run, record["config"], run_dir)
    except Exception as error:
        log.warning("The results could not be sent to W&B: %s", error)


def log_checkpoint(run: Any, config: Mapping[str, Any], run_dir: Path) -> None:
    """Upload the checkpoint that the protocol chose, if ``logger.wandb.checkpoint`` is true."""
    path = run_dir / "checkpoints" / chosen_checkpoint(config)
    wanted = ((config.get("logger") or {}).get("wandb") or {}).get("checkpoint")
    if wanted and path.is_file():
        run.log_artifact(str(path), name=f"checkpoint-{run.id}", type="model")


def _matrix_chart(matrix: list[list[int]]) -> Any:
    """A confusion matrix as a W&B chart, which takes single samples instead of counts."""
    import numpy as np
    import wandb

    cells = np.indices((len(matrix), len(matrix))).reshape(2, -1)
    true, predicted = np.repeat(cells, np.ravel(matrix), axis=1).tolist()
    names = [str(number) for number in range(len(matrix))]
    return wandb.plot.confusion_matrix(y_true=true, preds=predicted, class_names=names)


def summary_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Summary values of a run, for W&B's table of runs.

    Returns:
        ``score/<protocol>``; ``<experiment>/<data>``: the score under the protocol of the run;
        ``test/macro_f1``, ...; ``focus/<layer>/moved``, ...; ``<callback>/<measurement>``; size and
        cost of the network.
    """
    scores = {name: entry["value"] for name, entry in record["scores"].items() if entry}
    summary: dict[str, Any] = {f"score/{name}": value for name, value in scores.items()}
    chosen = scores.get(record["config"]["protocol"]["name"])
    if chosen is not None:
        summary[f"{record['experiment']}/{record['data']['name']}"] = chosen
    for name in ("wall_seconds", "steps_per_second", "peak_memory_bytes"):
        if record.get(name) is not None:
            summary[name] = record[name]
    groups = {"network": "network", "test": "test_metrics", "focus": "focus", "": "measured"}
    for group, key in groups.items():
        for name, value in iter_leaves(
            record.get(key) or {}, *filter(None, [group]), separator="/"
        ):
            if isinstance(value, int | float) and not isinstance(value, bool):
                summary[name] = value
    return {**summary, "status": record["status"], "finished": record.get("finished")}


def curves_of(record: Mapping[str, Any]) -> Iterator[dict[str, float]]:
    """Rows of the pruning curves, if the run measured them."""
    pruning = (record.get("measured") or {}).get("pruning") or {}
    for rule, name in (("curve", "focus"), ("magnitude", "magnitude")):
        keys = {"sparsity": PRUNING, "threshold": "pruning/threshold"}
        keys |= {metric: f"pruning/{name}_{metric}" for metric in ("acc", "mae")}
        for point in pruning.get(rule) or ():
            values = {key: point.get(field) for field, key in keys.items()}
            yield {key: value for key, value in values.items() if value is not None}
