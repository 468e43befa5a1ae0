"""A table before it is Markdown, LaTeX, CSV or lines in a terminal; and how numbers are written.

A table is made by :func:`table_of` from records: a dict per line of the CSV file, with every number
in full precision. Its columns say how the printed table shows them.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

from focusing.results.stats import Interval, ScoreSummary, summarize

NOTHING = "–"
MAX_NAME_BYTES = 200
"""Length of a file name without its ending; file systems take 255 with it."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """A cell: one or more short lines; ``again`` if it repeats the cell above."""

    lines: tuple[str, ...] = ("",)
    bold: bool = False
    dim: bool = False
    again: bool = False

    @property
    def printed(self) -> tuple[str, ...]:
        """Its lines on paper; the page shows a repeated cell where a filter hides the one above."""
        return ("",) if self.again else self.lines


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: its head.
        align: of its cells.
        show: the key of the records that it shows, or how it makes a cell of a record.
        digits: of numbers with a fraction.
        of: the record of a row that it shows, by the value that tells them apart (a protocol);
            empty: the first.
        missing: what it shows if there is no such record.
        once: it shows the first row of a block only.
    """

    title: str
    align: Literal["left", "right", "center"] = "left"
    show: str | Callable[[Record], Cell | str] = ""
    digits: int = 2
    of: str = ""
    missing: str = ""
    once: bool = False

    def cell(self, record: Record | None) -> Cell:
        """The cell of a record."""
        if record is None:
            return text(self.missing)
        shown = record.get(self.show) if isinstance(self.show, str) else self.show(record)
        if isinstance(shown, Cell):
            return shown
        return text(number(shown, self.digits) if isinstance(shown, float | None) else str(shown))


@dataclass(frozen=True)
class Row:
    """A row.

    Attributes:
        cells: one per column.
        tags: ``data``, ``model``, ...: what it is about, for filters.
        begins: it begins a block of rows.
    """

    cells: tuple[Cell, ...]
    tags: Mapping[str, str] = field(default_factory=dict)
    begins: bool = False


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
        records: the rows of the CSV file, in full precision.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    records: tuple[Record, ...] = ()


def table_of(
    name: str,
    title: str,
    columns: Sequence[Column],
    records: Sequence[Record],
    notes: Sequence[str],
    *,
    tags: Sequence[str] = ("data", "model"),
    across: str = "protocol",
    hidden: Sequence[str] = (),
    commands: Mapping[str, str] | None = None,
) -> Table:
    """A table with a row per record, or per records of the same ``_row``.

    Args:
        name: of its files.
        title: one line.
        columns: say how a record is shown.
        records: for the CSV file, but for keys that begin with an underscore: these are for the
            columns alone. A block of rows begins where ``_block`` changes; what is ``_missing`` is
            not in the file.
        notes: sentences below it.
        tags: keys of records that rows are filtered by.
        across: the key that tells records of a row apart.
        hidden: further keys that are for the columns alone.
        commands: mark of missing cells -> the command that fills them.
    """
    rows, last = [], object()
    for _, in_row in groupby(enumerate(records), lambda item: item[1].get("_row", item[0])):
        by_column = {record.get(across): record for _, record in in_row}
        first = next(iter(by_column.values()))
        begins, last = first.get("_block") != last, first.get("_block")
        cells = [
            replace(
                column.cell(by_column.get(column.of) if column.of else first),
                again=column.once and not begins,
            )
            for column in columns
        ]
        rows.append(Row(tuple(cells), {tag: first[tag] for tag in tags if tag in first}, begins))
    public = tuple(
        {key: value for key, value in record.items() if key[0] != "_" and key not in hidden}
        for record in records
        if "_missing" not in record
    )
    return Table(name, title, tuple(columns), tuple(rows), tuple(notes), commands or {}, public)


@dataclass(frozen=True)
class Unit:
    """How scores of a metric are written."""

    metric: str

    @property
    def factor(self) -> float:
        """From the record to print: fractions become percent."""
        return 100.0 if self.metric == "accuracy" else 1.0

    @property
    def name(self) -> str:
        """In a CSV file."""
        return "percent" if self.metric == "accuracy" else self.metric

    @property
    def lower_is_better(self) -> bool:
        """Whether the score is an error."""
        return self.metric == "mae"

    def spread(self, scores: Sequence[float]) -> ScoreSummary:
        """Describe some scores; their interval has no part where no score can be."""
        described = summarize(scores, lower_is_better=self.lower_is_better)
        if described.interval is None:
            return described
        low, high = described.interval.low, described.interval.high
        highest = 100.0 if self.metric == "accuracy" else math.inf
        possible = replace(described.interval, low=max(low, 0.0), high=min(high, highest))
        return replace(described, interval=possible)


def file_name(*parts: str) -> str:
    """A name for files, whatever users call their experiments; a long one ends in its hash."""
    name = re.sub(r"[^\w.-]+", "-", "_".join(parts))
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{name.encode()[: MAX_NAME_BYTES - 11].decode(errors='ignore')}-{digest}"


def text(*lines: str, bold: bool = False, dim: bool = False) -> Cell:
    """A cell; empty lines are left out."""
    return Cell(tuple(line for line in lines if line) or ("",), bold, dim)


def number(value: float | None, digits: int = 2) -> str:
    """A number with fixed digits and a real minus."""
    if value is None:
        return NOTHING
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")  # + 0.0: no minus zero


def signed(value: float | None, digits: int = 2) -> str:
    """A difference."""
    shown = number(value, digits)
    return shown if value is None or shown.startswith("−") else f"+{shown}"


def p_value(p: float | None) -> str:
    """Two significant digits; small ones as 7.8e-6."""
    if p is None:
        return NOTHING
    if p >= 0.00095:
        return f"{p:.2f}" if p >= 0.0995 else f"{p:.3f}"
    mantissa, _, exponent = f"{p:.1e}".partition("e")
    return "0" if p == 0 else f"{mantissa}e{int(exponent)}"


def between(interval: Interval | None, digits: int = 2, *, sign: bool = False) -> str:
    """An interval; an empty text for none."""
    if interval is None:
        return ""
    show = signed if sign else number
    return f"[{show(interval.low, digits)}, {show(interval.high, digits)}]"


def interval_record(interval: Interval | None, prefix: str = "") -> dict[str, float | None]:
    """The bounds of an interval, for a CSV file."""
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {f"{prefix}low": low, f"{prefix}high": high}
