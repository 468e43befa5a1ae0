"""Where the metrics go: ``metrics.csv`` always, W&B and TensorBoard if asked."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import TensorBoardLogger, WandbLogger
from pytorch_lightning.loggers.logger import Logger

from focusing.errors import UserError
from focusing.training.metrics_file import MetricsFile
from focusing.training.wandb_facts import curves_of, summary_of
from focusing.training.wandb_run import check_options, open_run

log = logging.getLogger(__name__)

KNOWN = ("csv", "wandb", "tensorboard")


def build_loggers(
    options: Mapping[str, Any], run_dir: Path, *, config: dict[str, Any], experiment: str
) -> list[Logger]:
    """Open the loggers of one run; give them to :func:`close_loggers` whatever happens.

    Args:
        options: name of a logger -> its options, as in ``conf/logger``.
        run_dir: the run folder.
        config: the composed config of the run, plain containers only.
        experiment: name of the experiment, under which W&B groups its runs.

    Returns:
        The CSV logger first, then the others.
    """
    check_loggers(options)
    loggers: list[Logger] = [MetricsFile(run_dir / "metrics.csv")]
    if "tensorboard" in options:
        loggers.append(TensorBoardLogger(run_dir, name="", version="tensorboard"))
    if "wandb" in options:  # last: once it is open, nothing may fail before close_loggers
        given = dict(options["wandb"] or {})
        run = open_run(given, run_dir, config=config, experiment=experiment)
        loggers.append(WandbLogger(experiment=run))
    return loggers


def check_loggers(options: Mapping[str, Any]) -> None:
    """Raise a UserError about the first logger or option that cannot be."""
    unknown = [name for name in options if name not in KNOWN]
    if unknown:
        raise UserError(f"logger {unknown[0]!r} is not one of {', '.join(KNOWN)}.")
    for name in ("csv", "tensorboard"):
        for option in options.get(name) or {}:
            raise UserError(f"logger.{name}.{option} is not an option.")
    if "wandb" in options and not find_spec("wandb"):
        raise UserError("logger=wandb needs a package that is not installed: pip install wandb")
    if "tensorboard" in options and not (find_spec("tensorboard") or find_spec("tensorboardX")):
        raise UserError(
            "logger=tensorboard needs a package that is not installed: "
            "pip install 'focusing[tensorboard]'"
        )
    check_options(options.get("wandb") or {})


def log_record(loggers: Sequence[Logger], record: Mapping[str, Any]) -> None:
    """Tell W&B what is known when a run is done: its scores and what callbacks measured."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            try:
                for row in curves_of(record):
                    logger.experiment.log(row)
                logger.experiment.summary.update(summary_of(record))
            except Exception as error:  # the run is done all the same
                log.warning("W&B did not take the scores: %s", error)


def close_loggers(loggers: Sequence[Logger], exit_code: int) -> None:
    """Close every logger; none that fails keeps another open.

    A W&B run that stays open would silently swallow the next job of the process.

    Args:
        loggers: what :func:`build_loggers` gave.
        exit_code: of the job; W&B shows a run as finished if 0, as failed otherwise.
    """
    for logger in loggers:
        try:
            logger.finalize("success" if exit_code == 0 else "failed")
            if isinstance(logger, WandbLogger):
                logger.experiment.finish(exit_code=exit_code)
        except Exception as error:
            log.warning("%s did not close well: %s", type(logger).__name__, error)
