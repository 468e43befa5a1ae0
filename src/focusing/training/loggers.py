"""Loggers of a run: always ``metrics.csv``, and W&B and TensorBoard on request."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import TensorBoardLogger, WandbLogger
from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities import rank_zero_only

from focusing.errors import UserError
from focusing.results.store import atomic_write, set_aside
from focusing.training.wandb_run import check_options, log_record, open_run

log = logging.getLogger(__name__)

LOGGERS = ("csv", "wandb", "tensorboard")
Row = dict[str, str]


def build_loggers(
    options: Mapping[str, Any], run_dir: Path, *, config: dict[str, Any], experiment: str
) -> list[Logger]:
    """Open the loggers of a run; the caller must close them with :func:`close_loggers`.

    Args:
        options: options by name of a logger, as in ``conf/logger``.
        run_dir: the run folder.
        config: the config of the run.
        experiment: name of the experiment; W&B groups runs by it.

    Returns:
        The CSV logger first, then the others.
    """
    check_loggers(options)
    loggers: list[Logger] = [MetricsFile(run_dir / "metrics.csv")]
    if "tensorboard" in options:
        loggers.append(TensorBoardLogger(run_dir, name="", version="tensorboard"))
    if "wandb" in options:  # last, because nothing may fail between opening it and returning it
        run = open_run(options["wandb"] or {}, run_dir, config=config, experiment=experiment)
        loggers.append(WandbLogger(save_dir=run_dir, experiment=run))
    return loggers


def check_loggers(options: Mapping[str, Any]) -> None:
    """Raise a UserError for an unknown logger or option, or a package that is not installed."""
    unknown = [name for name in options if name not in LOGGERS]
    if unknown:
        raise UserError(f"logger {unknown[0]!r} is not one of {', '.join(LOGGERS)}.")
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


def close_loggers(
    loggers: Sequence[Logger], exit_code: int, record: Mapping[str, Any] | None = None
) -> None:
    """Close all loggers, even if one of them fails.

    A W&B run that stays open would take the metrics of the next job in the process.

    Args:
        loggers: from :func:`build_loggers`.
        exit_code: exit code of the job; W&B shows the run as failed unless it is 0.
        record: record of a finished run; W&B gets its scores and measurements.
    """
    for logger in loggers:
        try:
            if record is not None and isinstance(logger, WandbLogger):
                log_record(logger.experiment, record, Path(str(logger.save_dir)))
            logger.finalize("success" if exit_code == 0 else "failed")
            if isinstance(logger, WandbLogger):
                logger.experiment.finish(exit_code=exit_code)
        except Exception as error:
            log.warning("%s could not be closed: %s", type(logger).__name__, error)


class MetricsFile(Logger):
    """A logger that writes all metrics of an epoch to one row of a CSV file.

    Lightning's ``CSVLogger`` starts a new file when a run resumes, and spreads an epoch over
    several rows. This one appends a row per epoch. A kill can only truncate the last line, which is
    dropped when the run resumes. Logging an epoch that the file already has replaces its row and
    removes the rows after it: the run went back to a checkpoint, or started again.

    Args:
        path: the file.
    """

    name, version = "csv", ""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._columns, self._rows, self._truncated = _read(path)

    @property
    def save_dir(self) -> str:
        """The run folder."""
        return str(self.path.parent)

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the run folder has its ``config.yaml``."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Add metrics to the row of their epoch, and write it.

        Args:
            metrics: values by name. Metrics without ``epoch`` are ignored: there are no rows of
                steps.
            step: ignored.
        """
        if "epoch" not in metrics:
            return
        epoch = int(metrics["epoch"])
        values = {key: repr(float(value)) for key, value in metrics.items() if key != "epoch"}
        earlier = [row for row in self._rows if int(row["epoch"]) < epoch]
        replaced = self._rows[len(earlier) :]
        known = replaced[0] if len(replaced) == 1 and replaced[0]["epoch"] == str(epoch) else {}
        if known and values.items() <= known.items():
            return
        row = {"epoch": str(epoch), **known, **values}
        columns = self._columns if earlier or known else ["epoch"]
        new = [key for key in row if key not in columns]
        append = not self._truncated and earlier and not replaced and not new
        self._columns, self._rows, self._truncated = columns + new, [*earlier, row], False
        if append:
            with self.path.open("a", newline="") as file:
                file.write(_lines(self._columns, [row]))
        else:
            text = _lines(self._columns, self._rows, header=True)
            atomic_write(self.path, text.encode(), sync=False)  # survives a kill without fsync


def _lines(columns: list[str], rows: list[Row], header: bool = False) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _read(path: Path) -> tuple[list[str], list[Row], bool]:
    """Columns and rows of a file, and whether its last line is truncated."""
    empty: tuple[list[str], list[Row], bool] = (["epoch"], [], False)
    if not path.exists():
        return empty
    try:
        *lines, rest = path.read_text(encoding="utf-8").split("\n")
        columns, *rows = csv.reader(lines, strict=True) if lines else [["epoch"]]
        if columns[:1] != ["epoch"] or len(set(columns)) != len(columns):
            raise ValueError("its first line does not name its columns")
        for number, row in enumerate(rows, start=2):
            if len(row) != len(columns) or not row[0].isdecimal() or not row[0].isascii():
                raise ValueError(f"line {number} is not the row of an epoch")
            [float(value) for value in row if value]
    except (ValueError, csv.Error) as error:
        kept = set_aside(path)
        log.warning("%s is damaged (%s): it is kept as %s.", path, error, kept.name)
        return empty
    named = (zip(columns, row, strict=True) for row in rows)
    return columns, [{key: value for key, value in row if value} for row in named], bool(rest)
