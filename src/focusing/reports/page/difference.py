"""A difference with its interval: a line of a headline, and its place in a small plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from focusing.reports.tables import Unit

SIGNIFICANT = 0.05
WIDTH, EDGE = 200.0, 6.0
"""Of the plot of one difference, in pixels; the edge is for arrows."""


@dataclass(frozen=True)
class Plot:
    """Where to draw, in pixels from the left: zero, the mean and the ends of the interval.

    Attributes:
        cut: ends that lie outside the plot: ``left``, ``right``, both or neither.
    """

    zero: float
    mean: float
    low: float | None
    high: float | None
    cut: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A model minus another, under a protocol.

    Attributes:
        label: lines that say where: data set, source, options.
        data: name of the data set, for filters.
        model: the model.
        other: what it is compared with.
        protocol: of both.
        unit: of the difference.
        value: of the means.
        low: of its 95 % interval.
        high: of its 95 % interval.
        p: Holm-corrected.
        count: of runs or pairs, in words.
        shown: it is the one to show if the reader chose no protocol.
        plot: where to draw it.
    """

    label: tuple[str, ...]
    data: str
    model: str
    other: str
    protocol: str
    unit: Unit
    value: float
    low: float | None
    high: float | None
    p: float | None
    count: str
    shown: bool = True
    plot: Plot | None = None

    @property
    def source(self) -> str:
        """Where the data came from; the second line of a label."""
        return self.label[1] if len(self.label) > 1 else ""

    @property
    def verdict(self) -> str:
        """In a word; also for those who cannot see the colour."""
        if self.p is None or self.p >= SIGNIFICANT:
            return "unclear"
        return "better" if (self.value > 0) != self.unit.lower_is_better else "worse"


def placed(rows: Sequence[Difference]) -> list[Difference]:
    """The same with plots, on one scale for each unit.

    The interval of two runs can be so wide that all else would be a dot: the scale holds all means,
    and as much of the intervals as is within three times the largest.
    """
    reach = {}
    for unit in {row.unit for row in rows}:
        same = [row for row in rows if row.unit == unit]
        largest = max(abs(row.value) for row in same)
        ends = [abs(end) for row in same for end in (row.low, row.high) if end is not None]
        reach[unit] = max(largest, min(max(ends, default=0.0), 3 * largest)) or 1.0
    return [replace(row, plot=_plot(row, reach[row.unit])) for row in rows]


def _plot(row: Difference, reach: float) -> Plot:
    def place(value: float) -> float:
        inner = WIDTH / 2 - EDGE
        return round(WIDTH / 2 + max(-1.0, min(1.0, value / reach)) * inner, 1)

    ends = (row.low, row.high)
    cut = [
        name
        for name, end, sign in zip(("left", "right"), ends, (-1, 1), strict=True)
        if end is not None and sign * end > reach * 1.0001
    ]
    low, high = (None if end is None else place(end) for end in ends)
    return Plot(WIDTH / 2, place(row.value), low, high, tuple(cut))
