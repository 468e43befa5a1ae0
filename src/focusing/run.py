"""One run, from its config to its record."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig
from pytorch_lightning.loggers.logger import Logger
from rich.console import Console

from focusing.callbacks import FocusTrajectory, Throughput
from focusing.compose import check, prepare_hydra
from focusing.config import Optim
from focusing.data import DataSet, Split
from focusing.errors import PrunedError, UserError
from focusing.instantiate import instantiate
from focusing.models import Network
from focusing.reports.terminal import config_tree, summary
from focusing.results.identity import run_folder
from focusing.results.record import SERIES_OF, describe_end, describe_start
from focusing.results.store import (
    FinishedError,
    atomic_write,
    claim,
    finished,
    has_figures,
    write_record,
)
from focusing.shipping.trained import load_run
from focusing.training.assembly import (
    build_net,
    check_single,
    load_data,
    settle_source,
    split_data,
)
from focusing.training.fitting_state import newest_checkpoint
from focusing.training.interruption import Interrupted
from focusing.training.loggers import build_loggers, check_loggers, close_loggers, log_record
from focusing.training.metrics import score
from focusing.training.module import FocusingModule
from focusing.training.optimizer import build_optimizer
from focusing.training.same_data import check_finished, check_resumed, note_data
from focusing.training.session import build_trainer, fit


def train(cfg: DictConfig) -> float | None:
    """Train the network of a config and leave a record of it.

    Args:
        cfg: as composed from conf/train.yaml.

    Returns:
        The test score under the config's protocol, for sweepers.
    """
    prepare_hydra()  # a launcher may have composed the config in another process
    config = check(cfg)
    multirun = HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
    settle_source(config, strict=multirun or _of_an_experiment())
    run_dir, protocol = run_folder(config), config["protocol"]["name"]
    console = Console(quiet=multirun, soft_wrap=True)
    record = finished(run_dir)
    if record and not config["force"]:
        check_finished(record, config, run_dir)
        console.print(f"Finished earlier: {run_dir} (force=true runs it again)")
        if config["figures"] and not has_figures(run_dir):  # it was stopped before it had them
            _draw(run_dir)
        return float(record["scores"][protocol]["value"])
    console.print(config_tree(config))
    # What the user may have got wrong comes before the folder is touched.
    data = load_data(config)
    if not record and config["resume"] == "auto":
        check_resumed(run_dir, data)
    net = build_net(config, data)
    splits = split_data(config, data)
    check_single(config, net, splits["train"])
    build_optimizer(net, Optim(**config["optim"]))
    check_loggers(config["logger"])
    callbacks = [_callback(name, each) for name, each in config["callbacks"].items() if each]
    chooses = {"paper": "test", "holdout": "val", "last": None}[protocol]
    trainer = build_trainer(  # it finds out what this machine lacks
        config["trainer"],
        run_dir,
        callbacks=callbacks,
        best_of=chooses and f"{chooses}/{SERIES_OF[data.metric]}",
        metric=data.metric,
    )
    try:
        again = config["force"]
        with claim(run_dir, resume=config["resume"] == "auto", again=again) as checkpoint:
            atomic_write(run_dir / "config.yaml", yaml.safe_dump(config, sort_keys=False).encode())
            note_data(run_dir, data)
            record = _fit_and_record(
                config, run_dir, data, splits, net, trainer, callbacks, checkpoint
            )
            if config["figures"]:
                _draw(run_dir)
    except FinishedError:
        return train(cfg)
    except Interrupted as stop:
        console.print(f"Stopped by signal {stop.signum}. The same command goes on from {run_dir}")
        raise
    except OSError as error:
        raise UserError(_disk_trouble(error, run_dir)) from None
    console.print(summary(record, str(run_dir)))
    return float(record["scores"][protocol]["value"])


def evaluate(run_dir: Path, overrides: Sequence[str] = ()) -> dict[str, float]:
    """Test the network that a run left, at the epoch that its protocol chose.

    Args:
        run_dir: the run folder.
        overrides: other data, as on the command line: ``data=...``, ``data.noise_position=right``.
            It is prepared as the run's was, unless these say ``data.preprocess=...``.

    Returns:
        Loss and scores on the test split.
    """
    run = load_run(run_dir, data_overrides=overrides)
    with torch.no_grad():
        outputs = [run.net(batch.inputs) for batch in run.batches("test")]
    found = score(outputs, [run.splits["test"].targets])
    return {f"test/{metric}": value for metric, value in found.items()}


def _draw(run_dir: Path) -> None:
    from focusing.reports.run_figures import draw_run  # matplotlib takes a second

    try:
        draw_run(run_dir)
    except OSError as error:
        raise UserError(_disk_trouble(error, run_dir)) from None


def _of_an_experiment() -> bool:
    return HydraConfig.initialized() and bool(HydraConfig.get().runtime.choices.get("experiment"))


def _fit_and_record(
    config: dict[str, Any],
    run_dir: Path,
    data: DataSet,
    splits: dict[str, Split],
    net: Network,
    trainer: pl.Trainer,
    callbacks: Sequence[pl.Callback],
    checkpoint: Path | None,
) -> dict[str, Any]:
    """Train in a claimed folder; whatever happens, close the loggers and leave what can be left."""
    start = describe_start(config, data, splits, net)
    train_split = splits.pop("train")
    optim = Optim(**config["optim"])
    module = FocusingModule(net, optim, seed=config["seed"], evaluated=list(splits))
    loggers: list[Logger] = []
    exit_code = 1

    def leave(status: str, error: str | None) -> dict[str, Any]:
        times = {"wall_seconds": module.seconds, "cpu_seconds": module.cpu_seconds}
        ended = {"status": status, "error": error, **times}
        try:
            measured = _measurements(callbacks, module.steps, start)
            return write_record(run_dir, describe_end(start, module.series, **ended, **measured))
        except Exception as trouble:
            if status == "done" or isinstance(trouble, OSError):
                raise
            return write_record(run_dir, describe_end(start, {}, **ended))  # what can be written

    try:
        loggers += build_loggers(
            config["logger"], run_dir, config=config, experiment=config["name"]
        )
        trainer.loggers = loggers
        if checkpoint is not None:
            checkpoint = newest_checkpoint(checkpoint.parent, module, trainer)
        fit(
            trainer,
            module,
            train_split,
            splits,
            optim,
            limit=config["trainer"]["limit_batches"],
            checkpoint=checkpoint,
            prepare=data.prepare,
            augment=data.augment,
        )
        record = leave("done", None)
        log_record(loggers, record)
        exit_code = 0
    except Interrupted as signal:
        exit_code = 128 + signal.signum
        raise
    except PrunedError:
        leave("pruned", None)
        exit_code = 0
        raise
    except Exception as error:
        with suppress(OSError):  # the disk may be what is wrong
            leave("failed", str(error) if isinstance(error, UserError) else repr(error))
        raise
    finally:
        close_loggers(loggers, exit_code)
    return record


def _callback(name: str, options: Any) -> pl.Callback:
    try:
        return instantiate(options, pl.Callback)
    except UserError as error:
        raise UserError(f"callbacks.{name}: {error}") from None


def _measurements(
    callbacks: Sequence[pl.Callback], steps: int, start: Mapping[str, Any]
) -> dict[str, Any]:
    found: dict[str, Any] = {"steps_per_second": None, "peak_memory_bytes": None, "measured": {}}
    for each in callbacks:
        if hasattr(each, "measured"):
            found["measured"] |= each.measured()
        if isinstance(each, Throughput):
            found["steps_per_second"] = steps / each.seconds if each.seconds else None
            found["peak_memory_bytes"] = each.peak_memory_bytes
        elif isinstance(each, FocusTrajectory):
            found["focus"] = each.movement(start["data"])
    return found


def _disk_trouble(error: OSError, run_dir: Path) -> str:
    where = error.filename or run_dir
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"The disk is full: {where} could not be written. Earlier results are intact."
    return f"{where}: {error.strerror or error}."
