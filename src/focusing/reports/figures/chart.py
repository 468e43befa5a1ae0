"""A figure before it is drawn: what it shows, the numbers in it, and how to draw it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from focusing.errors import DamagedError, printable
from focusing.reports.tables.blocks import command

Rows = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Chart:
    """A figure.

    Attributes:
        name: of its files.
        title: one line.
        caption: what is seen, of how many runs, with what intervals.
        rows: all that is drawn, for the CSV file; equal rows give equal figures.
        draw: makes the figure; called only if there is none of the same rows.
        tags: ``data``, ``model``, ``protocol``, ...: what it is about, for filters. Several values
            are separated by blanks.
        suffixes: of its files besides ``.csv``.
    """

    name: str
    title: str
    caption: str
    rows: Rows
    draw: Callable[[], Figure | bytes]
    tags: Mapping[str, str] = field(default_factory=dict)
    suffixes: tuple[str, ...] = (".png", ".svg")


@dataclass(frozen=True)
class Missing:
    """A figure that cannot be drawn for want of records, and the command that makes them."""

    title: str
    command: str


@dataclass(frozen=True)
class LeftOut:
    """A file that is damaged, so that a figure lacks what it held, and why."""

    file: str
    reason: str

    @classmethod
    def of(cls, error: DamagedError) -> LeftOut:
        """What a reader of the file found."""
        where = "/".join(error.path.parts[-4:])
        return cls(printable(where), printable(error.reason))


Drawn = list[Chart | Missing | LeftOut]


def missing(title: str, experiment: str, *options: str) -> Missing:
    """The figure of an experiment that was not run."""
    return Missing(title, command(experiment, "paper", "paper", options))
