"""Plotting helpers that figures share: colours, panels, dots with intervals, curves, histograms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator

from focusing.drawing import COLOURS, COLUMN_WIDTH, GREY, Array
from focusing.reports.names import data_name, option_words

PAGE_WIDTH = 7.0
"""Width of a page of text in inches, for figures with more than two panels side by side."""
LINE_HEIGHT = 7.5
"""Height of a line of small text in points."""
MAX_HEADER_LINES, HEADER_CHARACTERS = 8, 28
"""Most small lines above a panel, and characters per line."""
ROW_HEIGHT = 0.17
"""Height of a row of dots in inches."""
BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY, BLACK = COLOURS
MODEL_STYLES = {
    "dense": (ORANGE, "s"),
    "focus_s": (BLUE, "o"),
    "focus_c": (GREEN, "^"),
    "fixed_s": (YELLOW, "D"),
    "focus_2d": (SKY, "v"),
    "fixed_2d": (PURPLE, "P"),
    "cnn_dense": ("#882255", "s"),
    "cnn_focus": ("#332288", "o"),
    "vgg_dense": ("#999933", "s"),
    "vgg_focus": ("#44AA99", "o"),
    "fasttext_dense": ("#CC6677", "s"),
    "fasttext_focus": ("#117733", "o"),
    "dynamic_dense": ("#661100", "s"),
    "dynamic_2d": ("#AA4499", "h"),
    "stn_dense": ("#DDAA33", "s"),
    "stn_2d": ("#88CCEE", "h"),
    "focus_nd": ("#4477AA", "v"),
    "fields_2d": ("#228833", "v"),
    "anchored_2d": ("#994455", "v"),
    "transformer_dense": ("#EE6677", "s"),
    "transformer_focus": ("#66CCEE", "o"),
}
"""Model -> colour and marker: Okabe and Ito's colours, then Tol's; dense models are squares."""
SERIES_COLOURS = ("#440154", "#21918C", "#B8860B", "#AA3377")
"""Colours of layers, thresholds, kinds of measurements: of everything that is not a model."""
Rows = Sequence[Mapping[str, Any]]


def model_style(model: str) -> tuple[str, str]:
    """Colour and marker of a model, the same in all figures."""
    return MODEL_STYLES.get(model, (BLACK, "X"))


def score_label(unit: str) -> str:
    """Axis label of scores; the unit is ``percent`` or the name of an error."""
    return "test accuracy (%)" if unit == "percent" else "test MAE"


@dataclass(frozen=True)
class Panels:
    """A figure with panels of equal size, row by row, ``columns`` in a row."""

    figure: Figure
    axes: list[Axes]
    columns: int

    def label(self, xlabel: str = "", ylabel: str = "") -> None:
        """Label the lowest x axes and the leftmost y axes."""
        for place, axes in enumerate(self.axes):
            if ylabel and place % self.columns == 0:
                axes.set_ylabel(ylabel)
            if xlabel and place >= len(self.axes) - self.columns:
                axes.set_xlabel(xlabel)


def small_multiples(
    count: int,
    height: float,
    headers: Collection[Sequence[str]] = (),
    max_columns: int = 4,
    width: float | None = None,
    **options: Any,
) -> Panels:
    """Make a figure with ``count`` panels of a height in inches.

    The lines of ``headers`` above the panels add to the height. Without a ``width``, up to two
    columns take one column of a page. ``options`` go to ``Figure.subplots``.
    """
    height += LINE_HEIGHT / 72 * max(map(len, headers), default=0)
    rows = -(-count // max_columns)
    columns = -(-count // rows)  # rows of equal length look better than a full one and a rest
    rows = -(-count // columns)
    width = width or (COLUMN_WIDTH if columns <= 2 else PAGE_WIDTH)
    figure = Figure((width, height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for axes in grid[count:]:
        axes.set_visible(False)
    return Panels(figure, list(grid[:count]), columns)


def data_panels(rows: Rows, height: float, notes: Sequence[str] = ()) -> Panels:
    """Make a panel per row, titled with its ``data``, ``source``, note and ``options``."""
    headers = [
        header_lines([row["source"], note, *map(option_words, row["options"].split())])
        for row, note in zip(rows, notes or [""] * len(rows), strict=True)
    ]
    panels = small_multiples(len(rows), height, headers)
    deepest = max(map(len, headers), default=0)
    for axes, row, lines in zip(panels.axes, rows, headers, strict=True):
        blank = [" "] * (deepest - len(lines))  # titles stand at equal heights
        panel_title(axes, data_name(row["data"]), *lines, *blank)
    return panels


def header_lines(words: Sequence[str]) -> list[str]:
    """Wrap words to the width of a panel, if possible between words, and cut too many lines."""
    fixed = [
        word if len(word) >= HEADER_CHARACTERS else word.replace(" ", "\xa0") for word in words
    ]
    lines = wrap(", ".join(filter(None, fixed)), HEADER_CHARACTERS, break_on_hyphens=False)
    if len(lines) <= MAX_HEADER_LINES:
        return lines
    return [*lines[: MAX_HEADER_LINES - 1], "… (all in the table)"]


def panel_title(axes: Axes, title: str, *header: str) -> None:
    """Set the title of a panel, with small grey lines below it."""
    lines = [line for line in header if line]
    axes.set_title(title, loc="left", pad=3 + LINE_HEIGHT * len(lines))
    for rank, line in enumerate(reversed(lines)):
        axes.annotate(
            line, (0, 1), (0, 3 + LINE_HEIGHT * rank), xycoords="axes fraction",
            textcoords="offset points", fontsize=6, color=GREY,
        )  # fmt: skip


def corner_text(axes: Axes, line: int, text: str, colour: str) -> None:
    """Write a line of small text into the upper right corner of a panel."""
    axes.text(0.98, 0.98 - 0.13 * line, text, color=colour, fontsize=6.5, ha="right", va="top",
              transform=axes.transAxes)  # fmt: skip


def log_axis(axes: Axes) -> None:
    """Make the y axis logarithmic, with several ticks in plain numbers."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    subs = (1.0,) if high / low > 1e3 else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


@dataclass(frozen=True)
class Dot:
    """A mean with its interval, in a row of a panel.

    Attributes:
        row: index of the row.
        mean: place on the x axis.
        style: colour and marker.
        low: lower end of the interval; None for fewer than three runs.
        high: upper end.
        runs: single runs, drawn small and pale; without an interval, in place of the mean.
        published: the paper's mean, drawn as a grey bar.
        hollow: whether the marker is not filled.
        shift: distance below the middle of the row.
        note: small text at its right.
    """

    row: int
    mean: float
    style: tuple[str, str]
    low: float | None = None
    high: float | None = None
    runs: Sequence[float] = field(default=())
    published: float | None = None
    hollow: bool = False
    shift: float = 0.0
    note: str = ""


def draw_dots(
    axes: Axes, dots: Sequence[Dot], labels: Sequence[str] = (), count: int = 0, size: float = 4.0
) -> None:
    """Draw dots in rows with these labels, from top to bottom; ``count`` reserves more rows."""
    for dot in dots:
        y, (colour, marker) = dot.row + dot.shift, dot.style
        if dot.published is not None:
            half = 0.36 - abs(dot.shift)  # not into its neighbour
            axes.plot([dot.published] * 2, [y - half, y + half], color=GREY, lw=2.5, alpha=0.5,
                      solid_capstyle="butt")  # fmt: skip
        face = "w" if dot.hollow else colour
        if dot.low is None or dot.high is None:
            shown = dot.runs or [dot.mean]
            axes.plot(shown, [y] * len(shown), marker, color=colour, mfc=face, ms=0.8 * size)
            right = max(shown)
        else:
            ends = [[max(dot.mean - dot.low, 0)], [max(dot.high - dot.mean, 0)]]
            below = [y + 0.26] * len(dot.runs)
            axes.plot(dot.runs, below, ".", color=colour, ms=3, alpha=0.45, mew=0)
            axes.errorbar(dot.mean, y, xerr=ends, color=colour, marker=marker, ms=size, mfc=face,
                          capsize=2, elinewidth=0.9, capthick=0.9, linestyle="")  # fmt: skip
            right = max(dot.high, dot.mean)
        if dot.note:
            right = max(right, dot.published or right)  # not on the grey bar
            axes.annotate(dot.note, (right, y), (4, 0), textcoords="offset points", va="center",
                          fontsize=6, color=GREY, zorder=3)  # fmt: skip
    rows = count or max(len(labels), 1 + max((dot.row for dot in dots), default=0))
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(rows - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color="0.92", lw=0.5)
    axes.set_axisbelow(True)


def draw_curve(
    axes: Axes,
    x: Sequence[float] | Array,
    y: Sequence[float] | Array,
    band: tuple[Any, Any] | None = None,
    *,
    colour: str,
    line: str = "-",
    label: str | None = None,
) -> None:
    """Draw a line (or its only point) with a band from a lower to an upper curve."""
    single: dict[str, Any] = {"marker": "o", "markersize": 3} if len(x) == 1 else {}
    axes.plot(x, y, line, color=colour, label=label, **single)
    if band is not None:
        axes.fill_between(x, *band, color=colour, alpha=0.18, linewidth=0)


def draw_means(axes: Axes, rows: Rows, x: str, y: str, *, colour: str, line: str = "-") -> None:
    """Draw column ``y`` over ``x``; several runs get a band from ``lowest`` to ``highest``."""
    columns = {name: [row[name] for row in rows] for name in (x, y, "lowest", "highest")}
    band = (columns["lowest"], columns["highest"]) if rows and rows[0]["n"] > 1 else None
    draw_curve(axes, columns[x], columns[y], band, colour=colour, line=line)


def histogram_rows(values: Any, edges: Array, **columns: Any) -> list[dict[str, Any]]:
    """CSV rows of a histogram over neurons, one per bin."""
    counts = np.histogram(values, edges)[0]
    return [
        {**columns, "low": float(low), "high": float(high), "neurons": int(count)}
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]


def draw_histograms(axes: Axes, named: Mapping[str, Rows]) -> None:
    """Draw :func:`histogram_rows` over each other, with their names in the corner."""
    for place, (name, rows) in enumerate(named.items()):
        colour = SERIES_COLOURS[place % len(SERIES_COLOURS)]
        edges = [rows[0]["low"], *(row["high"] for row in rows)]
        counts = [row["neurons"] for row in rows]
        axes.stairs(counts, edges, fill=True, color=colour, alpha=0.2)
        axes.stairs(counts, edges, color=colour)
        corner_text(axes, place, name, colour)
    axes.set_ylim(0, 1.45 * axes.get_ylim()[1])  # space for the names


def signed_image(axes: Axes, values: Array, limit: float, **options: Any) -> AxesImage:
    """Show an image with positive values in red and negative ones in blue."""
    return axes.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit, **options)


def legend_entry(
    label: str,
    colour: str,
    line: Any = "",
    marker: str = "",
    size: float = 4.0,
    hollow: bool = False,
    **options: Any,
) -> Line2D:
    """Make a legend entry with a line, a marker, or both."""
    face = "w" if hollow else colour
    return Line2D([], [], linestyle=line, marker=marker, color=colour, mfc=face, ms=size,
                  label=label, **options)  # fmt: skip


def legend_above(figure: Figure, entries: Sequence[Line2D], **options: Any) -> None:
    """Put a legend of one line above the panels, at the right."""
    spacing = {"handletextpad": 0.4, "columnspacing": 1.0, "handlelength": 1.4, **options}
    figure.legend(handles=list(entries), loc="outside upper right", ncols=len(entries), **spacing)


def legend_start_and_end(figure: Figure, colour: str) -> None:
    """Add the legend of moving foci: hollow squares at the start, triangles at the end."""
    start = legend_entry("start", GREY, marker="s", hollow=True)
    legend_above(figure, [start, legend_entry("end", colour, marker="^")])


def end_labels(axes: Axes, entries: Sequence[tuple[float, float, str, str]], height: float) -> None:
    """Write names at the right ends of lines, moved apart where they would overlap.

    ``entries`` hold x, y, text and colour. The axes have their final limits and a height in points.
    """
    low, high = axes.get_ylim()
    scale = axes.get_yaxis().get_transform().transform  # also of a logarithmic axis
    bottom, top = (float(scale(edge)) for edge in (low, high))
    ordered = sorted(entries, key=lambda entry: entry[1])
    wanted = [(float(scale(y)) - bottom) / (top - bottom) * height for _, y, _, _ in ordered]
    for (x, y, text, colour), at, moved in zip(ordered, wanted, spread_apart(wanted), strict=True):
        axes.annotate(
            text, (x, y), (4, moved - at), textcoords="offset points", color=colour,
            fontsize=7, va="center", annotation_clip=False,
        )  # fmt: skip


def spread_apart(places: Sequence[float], distance: float = LINE_HEIGHT) -> list[float]:
    """Move ordered places as little as needed to keep this distance from each other."""

    def first(group: Sequence[float]) -> float:
        return sum(group) / len(group) - distance * (len(group) - 1) / 2

    groups: list[list[float]] = []  # wanted places of labels that touch each other
    for place in places:
        groups.append([place])
        while len(groups) > 1:
            last, previous = groups[-1], groups[-2]
            if first(last) >= first(previous) + distance * len(previous):
                break
            groups[-2:] = [previous + last]
    return [first(group) + rank * distance for group in groups for rank in range(len(group))]


def spaced_ticks(values: Sequence[float], distance: float = 0.28) -> list[float]:
    """Ticks of a logarithmic axis that keep a distance, as a share of its length."""
    places = np.log(values)
    chosen = [len(values) - 1]
    for at in reversed(range(len(values) - 1)):
        if places[chosen[-1]] - places[at] >= distance * (places[-1] - places[0]):
            chosen.append(at)
    return [values[at] for at in reversed(chosen)]
