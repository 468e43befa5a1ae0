"""Parts that several figures share: panels, labels, points with intervals, colours of models."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from focusing.drawing import COLOURS, COLUMN_WIDTH, GREY
from focusing.reports.names import model_name
from focusing.results.stats import Interval

WIDE = 7.0
"""Width of a page of text, in inches: of figures with more than two panels beside each other."""
LINE = 7.5
"""Points that a line of small text needs."""
MOST, LETTERS = 8, 28
"""Lines above a panel, and letters of each."""
BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY, BLACK = COLOURS
LOOKS = {
    "dense": (ORANGE, "s"),
    "focus_s": (BLUE, "o"),
    "focus_c": (GREEN, "^"),
    "fixed_s": (YELLOW, "D"),
    "focus_2d": (SKY, "v"),
    "fixed_2d": (PURPLE, "P"),
}


def look(model: str) -> tuple[str, str]:
    """Colour and marker of a model, the same in all figures; of CNN+Fcs that of Focus-s."""
    if model.endswith("_dense"):
        return LOOKS["dense"]
    if model.endswith("_focus"):
        return LOOKS["focus_s"]
    return LOOKS.get(model, (BLACK, "x"))


def panels(
    count: int,
    height: float,
    heads: Collection[Sequence[str]] = (),
    most: int = 4,
    **options: Any,
) -> tuple[Figure, list[Axes], int]:
    """A figure with so many panels, in rows of at most four.

    Args:
        count: of panels.
        height: of each in inches.
        heads: lines above each, besides its title, which need their height, too.
        most: panels beside each other.
        **options: of ``Figure.subplots``.

    Returns:
        The figure, its panels, and how many are beside each other.
    """
    height += LINE / 72 * max(map(len, heads), default=0)
    columns = min(count, most)
    if count > most:  # rows of equal length look better than a full one and a remainder
        rows = -(-count // most)
        columns = -(-count // rows)
    rows = -(-count // columns)
    figure = Figure((COLUMN_WIDTH if columns <= 2 else WIDE, height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, list(grid[:count]), columns


def above(source: str, options: Sequence[str]) -> list[str]:
    """What is said of a panel, in lines that are no wider than it, and not too many."""
    words = [source, *options]
    lines = [line for word in words for line in wrap(word, LETTERS, break_on_hyphens=False)]
    return lines if len(lines) <= MOST else [*lines[: MOST - 1], "… (all in the table)"]


def head(axes: Axes, title: str, *more: str) -> None:
    """Title of a panel, what is said of it below in small grey."""
    axes.set_title(title, loc="left", pad=3 + LINE * len([each for each in more if each]))
    for line, each in enumerate(reversed([each for each in more if each])):
        axes.annotate(
            each, (0, 1), (0, 3 + LINE * line), xycoords="axes fraction",
            textcoords="offset points", fontsize=6, color=GREY,
        )  # fmt: skip


def decades(axes: Axes) -> None:
    """A logarithmic y axis that has several ticks even if it is short, in plain numbers."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    subs = (1.0,) if high / low > 1e3 else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def whisker(axes: Axes, x: float, y: float, interval: Interval | None, **look: Any) -> None:
    """A point with the whiskers of its interval, if it has one; ``along="x"`` for lying ones."""
    along = look.pop("along", "y")
    size, hollow = look.pop("size", 4.0), look.pop("hollow", False)
    middle = x if along == "x" else y
    error: dict[str, Any] = {}
    if interval is not None:
        error[f"{along}err"] = np.array(
            [[max(middle - interval.low, 0)], [max(interval.high - middle, 0)]]
        )
    axes.errorbar(
        x, y, **error, markersize=size, capsize=2, elinewidth=0.9,
        capthick=0.9, mfc="w" if hollow else None, linestyle="", **look,
    )  # fmt: skip


def end_labels(
    axes: Axes, entries: Sequence[tuple[float, float, str, str]], height: float, gap: float = 4
) -> None:
    """Names at the right ends of lines, moved apart where they would overlap.

    Args:
        axes: with its final limits.
        entries: x, y, text and colour of each.
        height: of the axes, in points.
        gap: points between a line and its name.
    """
    low, high = axes.get_ylim()
    scale = axes.get_yaxis().get_transform().transform  # of a logarithmic axis, too
    bottom, top = (float(scale(edge)) for edge in (low, high))
    ordered = sorted(entries, key=lambda entry: entry[1])
    wanted = [(float(scale(y)) - bottom) / (top - bottom) * height for _, y, _, _ in ordered]
    for (x, y, text, colour), at, place in zip(ordered, wanted, apart(wanted), strict=True):
        axes.annotate(
            text, (x, y), (gap, place - at), textcoords="offset points", color=colour,
            fontsize=7, va="center", annotation_clip=False,
        )  # fmt: skip


def apart(places: Sequence[float], distance: float = LINE) -> list[float]:
    """Places, in order, moved as little as needed to be so far from each other."""
    groups: list[list[float]] = []  # members' wanted places of each run of touching labels
    for place in places:
        groups.append([place])
        while len(groups) > 1 and _first(groups[-1], distance) < _last(groups[-2], distance):
            groups[-2:] = [groups[-2] + groups[-1]]
    return [_first(g, distance) + i * distance for g in groups for i in range(len(g))]


def _first(group: Sequence[float], distance: float) -> float:
    return sum(group) / len(group) - distance * (len(group) - 1) / 2


def _last(group: Sequence[float], distance: float) -> float:
    return _first(group, distance) + distance * len(group)


def name_of(model: str, options: Sequence[str] = ()) -> str:
    """A model and what else tells it apart."""
    return ", ".join([model_name(model), *options])
