"""One training run, from its config to its record."""

from __future__ import annotations

import errno
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
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

from focusing.callbacks import CompiledNetwork
from focusing.compose import check_config, command_flags, prepare_hydra
from focusing.config import Optim
from focusing.data import DataSet, Split
from focusing.data.sources import MissingError
from focusing.errors import PrunedError, UserError
from focusing.instantiate import instantiate
from focusing.nn.ops.cpu import compile_kernels, on_first_compile
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
from focusing.training.optimizer import check_optimizers, fuse_optimizer
from focusing.training.resume import (
    Interrupted,
    check_resumed_data,
    check_same_data,
    save_data_fingerprint,
)
from focusing.training.trainer import (
    build_net,
    build_trainer,
    check_batch_norm,
    fit,
    load_data,
    resolve_source,
    split_data,
)


def train(cfg: DictConfig) -> float:
    """Train the network of a config and write a record; a finished run is not trained again.

    Args:
        cfg: composed from conf/train.yaml.

    Returns:
        The test score under the config's protocol, for sweepers.
    """
    prepare_hydra()  # a launcher may have composed the config in another process
    config = check_config(cfg)
    check_optimizers(config["optim"])
    _check_accelerator(config["trainer"]["accelerator"])  # also if the run is finished
    hydra = HydraConfig.get() if HydraConfig.initialized() else None
    multirun = hydra is not None and hydra.mode == RunMode.MULTIRUN
    experiment = hydra is not None and bool(hydra.runtime.choices.get("experiment"))
    resolve_source(config, strict=multirun or experiment)
    run_dir, console = run_folder(config), Console(quiet=multirun, soft_wrap=True)
    record = None
    if config["force"] or not finished_record(run_dir):
        with suppress(FinishedError):  # another process has finished it in the meantime
            record = _run(config, run_dir, console)
    record = record or _reuse(config, run_dir, console)
    if not console.quiet:
        console.print(*closing(record, run_dir, *_command_line()), sep="\n", highlight=False)
    return float(record["scores"][config["protocol"]["name"]]["value"])


def _check_accelerator(name: str) -> None:
    """Refuse a GPU that this machine lacks; Lightning refuses unknown names."""
    tests: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    needed = list(tests) if name == "gpu" else [name] if name in tests else []
    if needed and not any(tests[kind]() for kind in needed):
        raise UserError(
            f"trainer.accelerator={name}: torch finds no such device here; use "
            "trainer.accelerator=cpu or auto."
        )


def _run(config: dict[str, Any], run_dir: Path, console: Console) -> dict[str, Any]:
    """Train, write the record and draw the figures; returns the record."""
    # Report errors in the config before the run folder is touched.
    data = load_data(config)
    if config["resume"] == "auto" and not finished_record(run_dir):
        check_resumed_data(run_dir, data)
    net = build_net(config, data)
    splits = split_data(config, data)
    check_batch_norm(config, net, splits["train"])
    check_loggers(config["logger"])

    on_first_compile(lambda: console.print("[dim]Compiling CPU kernels, once: about 6 s.[/]"))
    sizes = ", ".join(f"{len(split.targets)} {name}" for name, split in splits.items())
    summary = f"{data.name} ({data.source}: {sizes})"
    console.print(*opening(config, _command_line()[0], summary, net), sep="\n", highlight=False)

    optim = Optim(**config["optim"])
    if config["trainer"]["precision"] == "16-mixed":
        optim = fuse_optimizer(optim)
    best_split = {"best_test": "test", "holdout": "val", "last": None}[config["protocol"]["name"]]
    trainer = build_trainer(  # raises if this machine lacks the accelerator
        config["trainer"],
        run_dir,
        callbacks=[_Continuation(console), *build_callbacks(config)],
        best_of=best_split and f"{best_split}/{METRIC_KEYS[data.metric]}",
        metric=data.metric,
    )
    if trainer.strategy.root_device.type == "cpu":
        compile_kernels({layer.mu.shape[-1] for layer in net.focused_layers().values()})
    module = FocusingModule(net, optim, seed=config["seed"])  # starts the clock of the run
    resume, again = config["resume"] == "auto", config["force"]
    try:
        with _disk_errors(run_dir), claim(run_dir, resume=resume, again=again) as checkpoint:
            atomic_write(run_dir / "config.yaml", yaml.safe_dump(config, sort_keys=False).encode())
            save_data_fingerprint(run_dir, data)
            start = start_record(config, data, splits, net)
            record = _fit_and_record(run_dir, start, data, splits, module, trainer, checkpoint)
            if config["figures"]:
                _draw(run_dir)
    except Interrupted as stop:
        resumes = f"Stopped by signal {stop.signum}. The same command resumes {run_dir}"
        console.print(resumes, markup=False)
        raise
    return record


class _Continuation(pl.Callback):
    """Says at which epoch a run continues."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.current_epoch:
            self.console.print(f"Continuing at epoch {trainer.current_epoch + 1}.")


def _fit_and_record(
    run_dir: Path,
    start: dict[str, Any],
    data: DataSet,
    splits: Mapping[str, Split],
    module: FocusingModule,
    trainer: pl.Trainer,
    checkpoint: Path | None,
) -> dict[str, Any]:
    """Train in a claimed folder and write the record, also of a run that failed."""
    config: dict[str, Any] = start["config"]
    name, options = config["name"], config["logger"]
    loggers: list[Logger] = []
    exit_code, record = 1, None
    try:
        loggers += build_loggers(options, run_dir, config=config, experiment=name)
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
        record = _write_record(run_dir, start, module, trainer, "done")
        exit_code = 0
    except Interrupted as stop:
        exit_code = 128 + stop.signum
        raise
    except PrunedError:
        _write_record(run_dir, start, module, trainer, "pruned")
        exit_code = 0
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, UserError) else repr(error)
        with suppress(OSError):  # the disk may be the reason
            _write_record(run_dir, start, module, trainer, "failed", reason)
        raise
    finally:
        close_loggers(loggers, exit_code, record)
    return record


def _write_record(
    run_dir: Path,
    start: dict[str, Any],
    module: FocusingModule,
    trainer: pl.Trainer,
    status: str,
    error: str | None = None,
) -> dict[str, Any]:
    """Write the record of a run that has ended.

    If the measurements of a failed or pruned run cannot be written, its record goes without them.
    """
    end = {
        "status": status,
        "error": error,
        "wall_seconds": module.seconds,
        "cpu_seconds": module.cpu_seconds,
    }
    try:
        fields = _measurements(trainer.callbacks, start)  # type: ignore[attr-defined]
        if module.test_metrics is not None:
            fields["test_metrics"] = module.test_metrics
        return write_record(run_dir, finish_record(start, module.series, **end, **fields))
    except Exception as cause:
        if status == "done" or isinstance(cause, OSError):
            raise
        return write_record(run_dir, finish_record(start, {}, **end))


def build_callbacks(config: Mapping[str, Any]) -> list[pl.Callback]:
    """Make the callbacks of a config; null turns one off."""
    callbacks: list[pl.Callback] = []
    for name, options in config["callbacks"].items():
        if options:
            try:
                callbacks.append(instantiate(options, pl.Callback))
            except UserError as error:
                raise UserError(f"callbacks.{name}: {error}") from None
    return [*callbacks, CompiledNetwork()] if config["trainer"]["compile"] else callbacks


def _measurements(callbacks: Iterable[Any], start: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the fields of a record that callbacks return from ``measurements(start)``.

    Several callbacks may add to the field ``measured``.
    """
    fields: dict[str, Any] = {"steps_per_second": None, "peak_memory_bytes": None}
    measured: dict[str, Any] = {}
    for callback in callbacks:
        if hasattr(callback, "measurements"):
            fields |= callback.measurements(start)
            measured |= fields.pop("measured", {})
    return {**fields, "measured": measured}


def _reuse(config: dict[str, Any], run_dir: Path, console: Console) -> dict[str, Any]:
    """Return the record of a finished run, unless its data has changed since."""
    record = finished_record(run_dir) or {}
    with suppress(MissingError):  # data files that are gone have not changed
        data = load_data(config, peek=True)  # decodes nothing that is in the cache
        check_same_data(record["data"], data, run_dir, "force=true runs it again")
    console.print("Finished earlier; force=true runs it again.")
    if config["figures"] and not has_figures(run_dir):  # it was stopped while drawing them
        _draw(run_dir)
    return record


def _command_line() -> tuple[list[str], str]:
    """The overrides that the user typed, and the command with flags before them."""
    if not HydraConfig.initialized():
        return [], ""
    program = Path(sys.argv[0]).name
    command = ["python", program] if program.endswith(".py") else ["focusing", "train"]
    hydra = HydraConfig.get()
    return list(hydra.overrides.task), shlex.join([*command, *command_flags(hydra)])


def _draw(run_dir: Path) -> None:
    from focusing.reports.run_figures import draw_run  # matplotlib takes a second

    with _disk_errors(run_dir):
        draw_run(run_dir)


@contextmanager
def _disk_errors(run_dir: Path) -> Iterator[None]:
    """Turn an OSError into a UserError that names the file."""
    try:
        yield
    except OSError as error:
        path = error.filename or run_dir
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise UserError(
                f"The disk is full: {path} could not be written. Earlier results are intact."
            ) from None
        raise UserError(f"{path}: {error.strerror or error}.") from None
