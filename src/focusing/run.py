"""One run, from its config to its record."""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig
from pytorch_lightning.loggers.logger import Logger
from rich.console import Console

from focusing.callbacks import CompiledNetwork
from focusing.compose import check_config, prepare_hydra
from focusing.config import Optim
from focusing.data import DataSet, Split
from focusing.data.sources import MissingError
from focusing.errors import PrunedError, UserError
from focusing.instantiate import instantiate
from focusing.nn.ops.cpu import compile_kernels, when_compiling
from focusing.reports.terminal import closing, opening
from focusing.results.identity import run_folder
from focusing.results.record import METRIC_KEYS, finish_record, start_record
from focusing.results.store import (
    FinishedError,
    atomic_write,
    claim,
    finished_record,
    has_figures,
    write_record,
)
from focusing.training.loggers import build_loggers, check_loggers, close_loggers
from focusing.training.module import FocusingModule
from focusing.training.optimizer import fuse_optimizer
from focusing.training.resume import Interrupted, check_resumed_data, check_same_data, note_data
from focusing.training.trainer import (
    build_net,
    build_trainer,
    check_single,
    fit,
    load_data,
    resolve_source,
    split_data,
)

log = logging.getLogger(__name__)


def train(cfg: DictConfig) -> float | None:
    """Train the network of a config and leave a record of it, unless that was done before.

    Args:
        cfg: as composed from conf/train.yaml.

    Returns:
        The test score under the config's protocol, for sweepers.
    """
    prepare_hydra()  # a launcher may have composed the config in another process
    config = check_config(cfg)
    hydra = HydraConfig.get() if HydraConfig.initialized() else None
    multirun = hydra is not None and hydra.mode == RunMode.MULTIRUN
    experiment = hydra is not None and bool(hydra.runtime.choices.get("experiment"))
    resolve_source(config, strict=multirun or experiment)
    run_dir, console = run_folder(config), Console(quiet=multirun, soft_wrap=True)
    record = None
    if config["force"] or not finished_record(run_dir):
        with suppress(FinishedError):  # another process has finished it since
            record = _run(config, run_dir, console)
    record = record or _reuse(config, run_dir, console)
    return float(record["scores"][config["protocol"]["name"]]["value"])


def _reuse(config: dict[str, Any], run_dir: Path, console: Console) -> dict[str, Any]:
    """The record of a finished run, if its data has not changed since."""
    record = finished_record(run_dir) or {}
    with suppress(MissingError):  # files that are gone have not changed
        data = load_data(config, peek=True)  # decodes nothing that is in the cache
        check_same_data(record["data"], data, run_dir, "force=true runs it again")
    console.print("Finished earlier; force=true runs it again.")
    if config["figures"] and not has_figures(run_dir):  # it was stopped before it had them
        _draw(run_dir)
    console.print(*closing(record, run_dir, *_command_line()), sep="\n", highlight=False)
    return record


def _command_line() -> tuple[list[str], str]:
    """The options that were typed, and what stood before them."""
    if not HydraConfig.initialized():
        return [], ""
    program = Path(sys.argv[0]).name
    command = f"python {program}" if program.endswith(".py") else "focusing train"
    return list(HydraConfig.get().overrides.task), command


def _run(config: dict[str, Any], run_dir: Path, console: Console) -> dict[str, Any]:
    """Train, and return the record."""
    # What the user may have got wrong comes before the folder is touched.
    data = load_data(config)
    if config["resume"] == "auto" and not finished_record(run_dir):
        check_resumed_data(run_dir, data)
    net = build_net(config, data)
    splits = split_data(config, data)
    check_single(config, net, splits["train"])
    check_loggers(config["logger"])
    when_compiling(lambda: console.print("[dim]Compiling CPU kernels, once: about 6 s.[/]"))
    sizes = ", ".join(f"{len(split.targets)} {name}" for name, split in splits.items())
    about = f"{data.name} ({data.source}: {sizes})"
    console.print(*opening(config, _command_line()[0], about, net), sep="\n", highlight=False)
    optim = Optim(**config["optim"])
    if config["trainer"]["precision"] == "16-mixed":
        optim = fuse_optimizer(optim)
    judge = {"best_test": "test", "holdout": "val", "last": None}[config["protocol"]["name"]]
    trainer = build_trainer(  # it notices what this machine lacks
        config["trainer"],
        run_dir,
        callbacks=build_callbacks(config),
        best_of=judge and f"{judge}/{METRIC_KEYS[data.metric]}",
        metric=data.metric,
    )
    if trainer.strategy.root_device.type == "cpu":
        compile_kernels({layer.mu.shape[-1] for layer in net.focused_layers().values()})
    module = FocusingModule(net, optim, seed=config["seed"])  # its clock starts
    resume, again = config["resume"] == "auto", config["force"]
    try:
        with _disk_errors(run_dir), claim(run_dir, resume=resume, again=again) as checkpoint:
            atomic_write(run_dir / "config.yaml", yaml.safe_dump(config, sort_keys=False).encode())
            note_data(run_dir, data)
            start = start_record(config, data, splits, net)
            record = _fit_and_record(run_dir, start, data, splits, module, trainer, checkpoint)
            if config["figures"]:
                _draw(run_dir)
    except Interrupted as stop:
        console.print(f"Stopped by signal {stop.signum}. The same command goes on from {run_dir}")
        raise
    console.print(*closing(record, run_dir, *_command_line()), sep="\n", highlight=False)
    return record


def _fit_and_record(
    run_dir: Path,
    start: dict[str, Any],
    data: DataSet,
    splits: Mapping[str, Split],
    module: FocusingModule,
    trainer: pl.Trainer,
    checkpoint: Path | None,
) -> dict[str, Any]:
    """Train in a claimed folder; whatever happens, close the loggers and record what is known."""
    config: dict[str, Any] = start["config"]
    loggers: list[Logger] = []
    exit_code, record = 1, None

    def leave_record(status: str, error: str | None = None) -> dict[str, Any]:
        seconds = {"wall_seconds": module.seconds, "cpu_seconds": module.cpu_seconds}
        end = {"status": status, "error": error, **seconds}
        try:
            fields = measurements(trainer.callbacks, start)  # type: ignore[attr-defined]
            if module.test_metrics is not None:
                fields["test_metrics"] = module.test_metrics
            return write_record(run_dir, finish_record(start, module.series, **end, **fields))
        except Exception as trouble:
            if status == "done" or isinstance(trouble, OSError):
                raise
            return write_record(run_dir, finish_record(start, {}, **end))  # what can be written

    try:
        loggers += build_loggers(
            config["logger"], run_dir, config=config, experiment=config["name"]
        )
        trainer.loggers = loggers
        fit(
            trainer,
            module,
            splits,
            limit=config["trainer"]["limit_batches"],
            resume_from=checkpoint and checkpoint.parent,
            prepare=data.prepare,
            augment=data.augment,
        )
        record = leave_record("done")
        exit_code = 0
    except Interrupted as signal:
        exit_code = 128 + signal.signum
        raise
    except PrunedError:
        leave_record("pruned")
        exit_code = 0
        raise
    except Exception as error:
        with suppress(OSError):  # the disk may be what is wrong
            leave_record("failed", str(error) if isinstance(error, UserError) else repr(error))
        raise
    finally:
        close_loggers(loggers, exit_code, record)
    return record


def build_callbacks(config: Mapping[str, Any]) -> list[pl.Callback]:
    """The callbacks of a config; an option that is null stands for none."""
    callbacks: list[pl.Callback] = []
    for name, target in config["callbacks"].items():
        if target:
            try:
                callbacks.append(instantiate(target, pl.Callback))
            except UserError as error:
                raise UserError(f"callbacks.{name}: {error}") from None
    return [*callbacks, CompiledNetwork()] if config["trainer"]["compile"] else callbacks


def measurements(callbacks: Iterable[Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a record that callbacks measure.

    A callback takes part if it has a method ``measurements(record)`` that returns such fields.
    Those of ``measured`` come from several callbacks.

    Args:
        callbacks: all of a run.
        record: what is known at its start.
    """
    fields: dict[str, Any] = {"steps_per_second": None, "peak_memory_bytes": None}
    measured: dict[str, Any] = {}
    for callback in callbacks:
        if hasattr(callback, "measurements"):
            fields |= callback.measurements(record)
            measured |= fields.pop("measured", {})
    return {**fields, "measured": measured}


def _draw(run_dir: Path) -> None:
    from focusing.reports.run_figures import draw_run  # matplotlib takes a second

    with _disk_errors(run_dir):
        draw_run(run_dir)


@contextmanager
def _disk_errors(run_dir: Path) -> Iterator[None]:
    """Tell what is wrong with the disk in a sentence."""
    try:
        yield
    except OSError as error:
        path = error.filename or run_dir
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise UserError(
                f"The disk is full: {path} could not be written. Earlier results are intact."
            ) from None
        raise UserError(f"{path}: {error.strerror or error}.") from None
