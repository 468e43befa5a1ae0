"""Tables of a report, before they are written as Markdown, LaTeX, CSV or terminal output.

:func:`make_table` makes a table from records: one dict per line of the CSV file, with numbers in
full precision. Its columns say how to print them.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

from focusing.reports.names import model_name
from focusing.results.stats import Interval, ScoreSummary, summarize

NOTHING = "–"
SIGNIFICANT = 0.05
MAX_NAME_BYTES = 200
"""Longest file name without its suffix; file systems allow 255 bytes with it."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One or more short lines; ``repeated`` if they are those of the cell above."""

    lines: tuple[str, ...] = ("",)
    bold: bool = False
    dim: bool = False
    repeated: bool = False

    @property
    def printed(self) -> tuple[str, ...]:
        """Lines to print; the page needs repeated ones, too, because filters may hide the first."""
        return ("",) if self.repeated else self.lines


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: its heading.
        align: alignment of its cells.
        show: key of the value to show, or a function that makes the cell of a record.
        digits: decimals of floats.
        select: which record of a row to show (a protocol, for example); empty: the first.
        missing: text if the row has no such record.
        once: print it in the first row of a block only.
    """

    title: str
    align: Literal["left", "right", "center"] = "left"
    show: str | Callable[[Record], Cell | str] = ""
    digits: int = 2
    select: str = ""
    missing: str = ""
    once: bool = False

    def cell(self, record: Record | None) -> Cell:
        """Make the cell of a record."""
        if record is None:
            return text(self.missing)
        shown = record.get(self.show) if isinstance(self.show, str) else self.show(record)
        if isinstance(shown, Cell):
            return shown
        return text(number(shown, self.digits) if isinstance(shown, float | None) else str(shown))


DATA_HEAD = Column("data", show="_head")
BLOCK_HEAD = replace(DATA_HEAD, once=True)
MODEL = Column("model", show=lambda record: model_name(record.get("model", "")))


@dataclass(frozen=True)
class Row:
    """A row.

    Attributes:
        cells: one per column.
        tags: ``data``, ``model`` and so on, for the filters of the page.
        starts_block: whether a block of rows starts here.
    """

    cells: tuple[Cell, ...]
    tags: Mapping[str, str] = field(default_factory=dict)
    starts_block: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        name: of its files.
        title: one line.
        columns: from left to right.
        rows: from top to bottom.
        notes: sentences below it.
        commands: mark of missing cells -> the command that fills them.
        records: lines of the CSV file, in full precision.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    records: tuple[Record, ...] = ()


def make_table(
    name: str,
    title: str,
    columns: Sequence[Column],
    records: Sequence[Record],
    notes: Sequence[str],
    *,
    tags: Sequence[str] = ("data", "model"),
    select_by: str = "protocol",
    hidden: Sequence[str] = (),
    commands: Mapping[str, str] | None = None,
) -> Table:
    """Make a table with one row per record, or per group of records with equal ``_row``.

    Keys that start with an underscore are for the columns and not for the CSV file: ``_row``;
    ``_block``, which starts a block of rows where it changes; ``_missing``, which keeps the whole
    record out of the file.

    Args:
        name: of its files.
        title: one line.
        columns: how to print the records.
        records: one or more per row.
        notes: sentences below it.
        tags: keys that rows are filtered by.
        select_by: key by which columns select a record of the row.
        hidden: further keys that are not for the CSV file.
        commands: mark of missing cells -> the command that fills them.
    """
    rows, last = [], object()
    for _, members in groupby(enumerate(records), lambda item: item[1].get("_row", item[0])):
        in_row = {record.get(select_by): record for _, record in members}
        first = next(iter(in_row.values()))
        starts_block, last = first.get("_block") != last, first.get("_block")
        cells = [
            replace(
                column.cell(in_row.get(column.select) if column.select else first),
                repeated=column.once and not starts_block,
            )
            for column in columns
        ]
        row_tags = {tag: first[tag] for tag in tags if tag in first}
        rows.append(Row(tuple(cells), row_tags, starts_block))
    public = tuple(
        {key: value for key, value in record.items() if key[0] != "_" and key not in hidden}
        for record in records
        if "_missing" not in record
    )
    return Table(name, title, tuple(columns), tuple(rows), tuple(notes), commands or {}, public)


@dataclass(frozen=True)
class Unit:
    """Unit in which scores of a metric are printed."""

    metric: str

    @property
    def factor(self) -> float:
        """Factor from records to print: fractions become percent."""
        return 100.0 if self.metric == "accuracy" else 1.0

    @property
    def name(self) -> str:
        """Name in CSV files."""
        return "percent" if self.metric == "accuracy" else self.metric

    @property
    def lower_is_better(self) -> bool:
        """Whether the score is an error."""
        return self.metric == "mae"

    def summarize(self, scores: Sequence[float]) -> ScoreSummary:
        """Statistics of scores; the interval is cut to the range of possible scores."""
        described = summarize(scores, lower_is_better=self.lower_is_better)
        if described.interval is None:
            return described
        low, high = described.interval.low, described.interval.high
        highest = 100.0 if self.metric == "accuracy" else math.inf
        possible = replace(described.interval, low=max(low, 0.0), high=min(high, highest))
        return replace(described, interval=possible)


def file_name(*parts: str) -> str:
    """Make a safe file name of any parts; one that is too long is cut and ends in its hash."""
    name = re.sub(r"[^\w.-]+", "-", "_".join(parts))
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{name.encode()[: MAX_NAME_BYTES - 11].decode(errors='ignore')}-{digest}"


def text(*lines: str, bold: bool = False, dim: bool = False) -> Cell:
    """Make a cell of the lines that are not empty."""
    return Cell(tuple(line for line in lines if line) or ("",), bold, dim)


def number(value: float | None, digits: int = 2) -> str:
    """Format a number with fixed decimals and a real minus sign."""
    if value is None:
        return NOTHING
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")  # + 0.0: no minus zero


def signed(value: float | None, digits: int = 2) -> str:
    """Format a number with its sign."""
    shown = number(value, digits)
    return shown if value is None or shown.startswith("−") else f"+{shown}"


def p_value(p: float | None) -> str:
    """Format a p-value with two significant digits; small ones as 7.8e-6."""
    if p is None:
        return NOTHING
    if p >= 0.00095:
        return f"{p:.2f}" if p >= 0.0995 else f"{p:.3f}"
    mantissa, _, exponent = f"{p:.1e}".partition("e")
    return "0" if p == 0 else f"{mantissa}e{int(exponent)}"


def format_interval(interval: Interval | None, digits: int = 2, *, sign: bool = False) -> str:
    """Format an interval as ``[low, high]``; empty if there is none."""
    if interval is None:
        return ""
    show = signed if sign else number
    return f"[{show(interval.low, digits)}, {show(interval.high, digits)}]"


def interval_record(interval: Interval | None, prefix: str = "") -> dict[str, float | None]:
    """CSV columns with the bounds of an interval."""
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {f"{prefix}low": low, f"{prefix}high": high}
