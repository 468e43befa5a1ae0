"""Figures of the course of a run: trajectories, focused weights, losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from focusing.drawing import (
    COLUMN_WIDTH,
    GREY,
    MAX_CURVES,
    Array,
    before_after,
    colour,
    edges,
    evenly_spaced,
    figure_style,
    frame_plane,
    mark_focus,
    shade_noise,
)

SPLITS = {"train": GREY, "val": colour(0), "test": colour(1)}
SCORES = {"acc": "accuracy", "mae": "mean absolute error", "mse": "mean squared error"}
PANELS = 6
"""Neurons whose weights are drawn: what a page can hold."""


def trajectory_figure(
    tau: Array, mu: Array, sigma: Array, epochs: Array, informative: Sequence[int] | None = None
) -> Figure:
    """Paths of (mu, sigma) from a square to a triangle.

    In the plane mu has its own panel, and sigma (geometric mean of its axes) runs over epochs.

    Args:
        tau: positions (m, d).
        mu: centres (E, n, d).
        sigma: apertures (E, n, d).
        epochs: epochs of the records (E,).
        informative: see :func:`focusing.drawing.shade_noise`.
    """
    line = mu.shape[2] == 1
    spread = np.exp(np.log(sigma).mean(-1))
    with figure_style():
        figure = Figure((COLUMN_WIDTH, 2.3 if line else 1.95), layout="constrained")
        if line:
            axes = figure.subplots()
            _paths(axes, mu[:, :, 0], spread)
            shade_noise(axes, informative, tau[:, 0])
            axes.set(xlabel=r"centre $\mu$", ylabel=r"aperture $\sigma$")
            margin = 0.1 * float(np.ptp(spread)) + 0.01
            axes.set_ylim(max(0.0, spread.min() - margin), spread.max() + margin)
        else:
            axes, over = figure.subplots(1, 2)
            _paths(axes, mu[:, :, -1], mu[:, :, -2])
            frame_plane(axes)
            axes.set(xlabel=r"$\mu$, column", ylabel=r"$\mu$, row")
            _bands(over, epochs, spread)
            over.set(xlabel="epochs", ylabel=r"aperture $\sigma$")
        marks = [
            Line2D([], [], linestyle="", marker="s", color=GREY, mfc="w", ms=4, label="start"),
            Line2D([], [], linestyle="", marker="^", color="k", ms=4, label="end"),
        ]
        figure.legend(handles=marks, loc="outside upper right", ncols=2)
        return figure


def _paths(axes: Axes, x: Array, y: Array) -> None:
    """Paths of (x, y), each (E, n); of many neurons a sample, over the ends of all."""
    many = x.shape[1] > MAX_CURVES
    size, width = (2.5, 0.6) if many else (5, 1.0)
    if many:
        axes.plot(x[-1], y[-1], ".", color="0.8", markersize=2)
    for index, neuron in enumerate(evenly_spaced(x.shape[1], 40)):
        shade = GREY if many else colour(index)
        axes.plot(x[:, neuron], y[:, neuron], color=shade, linewidth=width)
        axes.plot(x[0, neuron], y[0, neuron], "s", color=shade, mfc="w", ms=size, mew=0.7)
        axes.plot(x[-1, neuron], y[-1, neuron], "^", color=colour(0) if many else shade, ms=size)


def _bands(axes: Axes, epochs: Array, values: Array) -> None:
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9), axis=1)
    axes.fill_between(epochs, low, high, color=colour(0), alpha=0.2, linewidth=0)
    axes.plot(epochs, middle, color=colour(0))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_ylim(0, 1.1 * float(high.max()))


def weights_figure(
    tau: Array,
    mu: Array,
    sigma: Array,
    shown: Array,
    first: Array,
    last: Array,
    informative: Sequence[int] | None = None,
) -> Figure | None:
    """Focused weights phi o W of up to six neurons before and after training.

    Args:
        tau: positions (m, d).
        mu: centres (E, n, d).
        sigma: apertures (E, n, d).
        shown: neurons of the stored weights (k,).
        first: their weights at the start, (k, m).
        last: their weights at the end, (k, m).
        informative: see :func:`focusing.drawing.shade_noise`.

    Returns:
        The figure; None if the inputs are neither on a line nor on a grid in the plane.
    """
    rows = evenly_spaced(len(shown), PANELS)
    with figure_style():
        if tau.shape[1] == 1:
            return _stacked(tau, shown[rows], first[rows], last[rows], informative)
        grid = [len(np.unique(tau[:, axis])) for axis in range(tau.shape[1])]
        if len(grid) != 2 or min(grid) < 2 or len(tau) % (grid[0] * grid[1]):
            return None
        neurons = shown[rows]
        height = min(2 * COLUMN_WIDTH / len(rows) + 0.25, COLUMN_WIDTH)
        figure = Figure((COLUMN_WIDTH, height), layout="constrained")
        panels = figure.subplots(2, len(rows), squeeze=False)
        for at, weights, title in ((0, first, "initial"), (-1, last, "final")):
            for column, neuron in enumerate(neurons):
                axes = panels[at, column]
                image = weights[rows[column]].reshape(*grid, -1).mean(-1)  # over channels
                top = float(np.abs(image).max()) or 1.0
                frame_plane(axes)
                # Positions are those of pixel centres, so the image is half a pixel wider.
                (top_row, bottom), (left, right) = (
                    edges((0, size), np.unique(tau[:, axis])) for axis, size in enumerate(grid)
                )
                extent = (left, right, bottom, top_row)
                axes.imshow(image, cmap="RdBu_r", vmin=-top, vmax=top, extent=extent)
                mark_focus(axes, mu[at, neuron], sigma[at, neuron], "k")
                axes.set(xticks=(), yticks=(), xlim=extent[:2], ylim=extent[2:])
                if at == 0:
                    axes.set_title(f"neuron {neuron}", fontsize=6)
            panels[at, 0].set_ylabel(title)
        return figure


def _stacked(
    tau: Array, neurons: Array, first: Array, last: Array, informative: Sequence[int] | None
) -> Figure:
    order = np.argsort(tau[:, 0], kind="stable")
    figure = Figure((COLUMN_WIDTH, 0.8 + 0.62 * len(neurons)), layout="constrained")
    panels = figure.subplots(len(neurons), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for index, (axes, neuron) in enumerate(zip(panels, neurons, strict=True)):
        shade_noise(axes, informative, tau[:, 0], label=index == 0)
        axes.axhline(0, color="0.75", linewidth=0.5)
        axes.plot(tau[order, 0], first[index, order], ":", color=colour(index))
        axes.plot(tau[order, 0], last[index, order], "-", color=colour(index))
        axes.set_ylabel(f"neuron {neuron}", fontsize=7)
        axes.yaxis.set_major_locator(MaxNLocator(3))
    panels[-1].set_xlabel(r"input position $\tau$")
    figure.legend(handles=before_after(), loc="outside upper right", ncols=2)
    figure.suptitle(r"focused weights $\phi \circ W$", x=0.02, ha="left", fontsize=8)
    return figure


def series_figure(
    series: Mapping[str, Sequence[float | None]], scores: Mapping[str, Any]
) -> Figure | None:
    """Loss, and the score if there is one, over epochs; rings mark the scores of the protocols.

    Args:
        series: metric name -> value per epoch, as in a record.
        scores: protocol -> ``{"value", "epoch"}``, as in a record.

    Returns:
        The figure; None if there is no series at all.
    """
    score = next((s for s in SCORES if any(f"{p}/{s}" in series for p in SPLITS)), None)
    drawn = {"loss": "loss"} | ({score: SCORES[score]} if score else {})
    if not any(f"{split}/{key}" in series for split in SPLITS for key in drawn):
        return None
    with figure_style():
        figure = Figure((COLUMN_WIDTH, 1.9), layout="constrained")
        panels = figure.subplots(1, len(drawn), squeeze=False)[0]
        for axes, (key, label) in zip(panels, drawn.items(), strict=True):
            for split, shade in SPLITS.items():
                values = np.array(series.get(f"{split}/{key}", []), dtype=float)
                if len(values):
                    one = {"marker": "o", "markersize": 3} if len(values) == 1 else {}
                    axes.plot(
                        np.arange(1, len(values) + 1), values, color=shade, label=split, **one
                    )
            if key == score:
                _rings(axes, scores)
            axes.set(xlabel="epochs", ylabel=label)
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        handles, labels = panels[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=3)
        return figure


def _rings(axes: Axes, scores: Mapping[str, Any]) -> None:
    for row, name in enumerate(("paper", "holdout")):
        given = scores.get(name)
        if given:
            at, below = (given["epoch"] + 1, given["value"]), (0, -6 - 8 * row)
            axes.plot(*at, "o", mfc="none", color="k", ms=5, mew=0.8)
            label = axes.annotate(name, at, below, textcoords="offset points", fontsize=6)
            label.set(ha="right", va="top")
