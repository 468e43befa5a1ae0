"""A table before it is Markdown, LaTeX, CSV or lines in a terminal; and how numbers are written."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from focusing.results.stats import Interval

NOTHING = "–"
LONGEST_NAME = 200
"""Bytes of a file name without its ending; file systems take 255 with it."""


@dataclass(frozen=True)
class Cell:
    """A cell: one or more short lines."""

    lines: tuple[str, ...] = ("",)
    bold: bool = False
    dim: bool = False


@dataclass(frozen=True)
class Column:
    """A column: its head, and how its cells stand."""

    title: str
    align: Literal["left", "right", "center"] = "left"


@dataclass(frozen=True)
class Row:
    """A row.

    Attributes:
        cells: one for each column.
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
        records: the same in full precision: a dict for each row of the CSV file.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    records: tuple[Mapping[str, Any], ...] = ()


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
        """The score is an error."""
        return self.metric == "mae"

    def possible(self, interval: Interval | None) -> Interval | None:
        """The part of an interval in which scores can be: none is above 100 %."""
        if interval is None:
            return None
        highest = 100.0 if self.metric == "accuracy" else math.inf
        return replace(interval, low=max(interval.low, 0.0), high=min(interval.high, highest))


def file_name(*parts: str) -> str:
    """A name for files, whatever users call their experiments; a long one ends in its hash."""
    name = re.sub(r"[^\w.-]+", "-", "_".join(parts))
    if len(name.encode()) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{name.encode()[: LONGEST_NAME - 11].decode(errors='ignore')}-{digest}"


def text(*lines: str, bold: bool = False, dim: bool = False) -> Cell:
    """A cell; empty lines are left out."""
    return Cell(tuple(line for line in lines if line) or ("",), bold, dim)


def with_lines(cell: Cell, *more: str) -> Cell:
    """A cell with further lines."""
    return replace(cell, lines=(*cell.lines, *more))


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
    """An interval; nothing for none."""
    if interval is None:
        return ""
    show = signed if sign else number
    return f"[{show(interval.low, digits)}, {show(interval.high, digits)}]"
