"""``metrics.csv``: one row per epoch, whatever happens to the process."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities import rank_zero_only

from focusing.results.store import atomic_write, set_aside

log = logging.getLogger(__name__)

Row = dict[str, str]


class MetricsFile(Logger):
    """A logger that keeps all metrics of an epoch in one row of a CSV file.

    Lightning's own starts a new file for a resumed run and spreads an epoch over several rows.
    Here a finished row is appended, and a kill can only tear the line being written, which is
    dropped when the run resumes. A row of an epoch that the file already has replaces it and what
    comes after: the run went back to a checkpoint, or was started anew.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._columns, self._rows, self._whole = _read(path)

    @property
    def name(self) -> str:
        """The name of the logger."""
        return "csv"

    @property
    def version(self) -> str:
        """There is one file only."""
        return ""

    @property
    def save_dir(self) -> str:
        """The run folder."""
        return str(self.path.parent)

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """The run folder has its own ``config.yaml``."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Add metrics to the row of their epoch and write it.

        Args:
            metrics: values by name; ``epoch`` among them names the row, without it nothing is
                written, because the file has no row for a step.
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
        append = self._whole and earlier and not replaced and not new
        self._columns, self._rows, self._whole = columns + new, [*earlier, row], True
        if append:
            with self.path.open("a", newline="") as file:
                file.write(_lines(self._columns, [row]))
        else:
            text = _lines(self._columns, self._rows, header=True)
            atomic_write(self.path, text.encode(), sync=False)  # a kill does not need the disk


def _lines(columns: list[str], rows: list[Row], header: bool = False) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _read(path: Path) -> tuple[list[str], list[Row], bool]:
    """Columns and rows of a file, and whether it is whole or ends in a torn line."""
    nothing: tuple[list[str], list[Row], bool] = (["epoch"], [], True)
    if not path.exists():
        return nothing
    try:
        *lines, torn = path.read_text(encoding="utf-8").split("\n")
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
        return nothing
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    return columns, [{key: value for key, value in row.items() if value} for row in named], not torn
