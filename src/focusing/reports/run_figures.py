"""The figures of one run, from its ``result.json`` and arrays."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from focusing import drawing
from focusing.drawing import COLUMN_WIDTH, GREY, Array, LayerFoci, figure_style
from focusing.errors import DamagedError
from focusing.reports.figures.plotting import draw_curve, legend_start_and_end, signed_image
from focusing.reports.foci import read_foci
from focusing.reports.tables import file_name
from focusing.results.arrays import evenly_spaced
from focusing.results.store import FIGURES_COMPLETE, atomic_write, read_record
from focusing.window_drawing import read_windows, windows_figure, windows_gif

log = logging.getLogger(__name__)

SPLIT_COLOURS = {"train": GREY, "val": drawing.colour(0), "test": drawing.colour(1)}
SCORE_LABELS = {"acc": "accuracy", "mae": "mean absolute error", "mse": "mean squared error"}
MAX_WEIGHT_PANELS = 6
"""Most neurons whose weights are drawn."""


def draw_run(run_dir: Path) -> list[Path]:
    """Draw a run's figures into ``figures/``, as PNG and SVG.

    For every focused layer: ``foci_<layer>`` (initial dotted, final solid), ``trajectory_<layer>``
    (from square to triangle) and ``weights_<layer>`` (phi o W before and after). For the run: the
    figures of :func:`record_figures`.

    Files are written atomically, and a stamp comes last: see
    :func:`focusing.results.store.has_figures`. Damaged arrays are skipped with a warning.
    """
    record = read_record(run_dir) or {}
    folder = run_dir / "figures"
    paths = []
    for name, figure in record_figures(record).items():
        paths += drawing.save_figure(figure, folder, name)
    try:
        layers = read_foci(run_dir, record.get("data") or {})
    except DamagedError as error:
        log.warning("%s Its foci are not drawn.", error)
        layers = []
    for foci in layers:
        for name, figure in layer_figures(foci).items():
            paths += drawing.save_figure(figure, folder, file_name(name, foci.layer))
    folder.mkdir(exist_ok=True)
    paths += _draw_windows(run_dir, folder)
    atomic_write(run_dir / FIGURES_COMPLETE, b"", sync=False)
    return paths


def _draw_windows(run_dir: Path, folder: Path) -> list[Path]:
    """Draw the windows of dynamic foci, and a film of them over epochs."""
    try:
        windows = read_windows(run_dir)
    except DamagedError as error:
        log.warning("%s Its windows are not drawn.", error)
        return []
    if windows is None:
        return []
    atomic_write(folder / "windows.gif", windows_gif(windows), sync=False)
    return [
        *drawing.save_figure(windows_figure(windows), folder, "windows"),
        folder / "windows.gif",
    ]


def record_figures(record: Mapping[str, Any]) -> dict[str, Figure]:
    """Figures that need only the record, by file name; add new ones here."""
    figures = {
        "losses": series_figure(record.get("series") or {}, record.get("scores") or {}),
        "confusion": confusion_figure(record.get("test_metrics") or {}),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def confusion_figure(test_metrics: Mapping[str, Any]) -> Figure | None:
    """Confusion matrix of the test data, as shares of the true class; None without one."""
    counts = np.array(test_metrics.get("confusion_matrix") or [], dtype=float)
    if not counts.size:
        return None
    shares = counts / counts.sum(1, keepdims=True).clip(1)
    with figure_style():
        figure = Figure((COLUMN_WIDTH, 0.85 * COLUMN_WIDTH), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        figure.colorbar(image, ax=axes, label="share of the true class")
        if len(counts) <= drawing.MAX_CURVES:
            cell = 0.65 * COLUMN_WIDTH * 72 / len(counts)  # points, beside the colour bar
            size = min(8.0, 1.5 * cell / len(f"{counts.max():.0f}"))  # a digit is 0.6 of it wide
            for (true, predicted), count in np.ndenumerate(counts):
                shade = "w" if shares[true, predicted] > 0.5 else "k"
                axes.text(predicted, true, f"{count:.0f}", color=shade, size=size, ha="center",
                          va="center")  # fmt: skip
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True, nbins=10, min_n_ticks=1))
        axes.set(xlabel="predicted class", ylabel="true class")
    return figure


def layer_figures(foci: LayerFoci) -> dict[str, Figure]:
    """Foci, trajectory and, if they can be drawn, focused weights of a layer."""
    weights = weights_figure(foci)
    figures = {"foci": drawing.foci_figure(foci), "trajectory": trajectory_figure(foci)}
    return figures if weights is None else {**figures, "weights": weights}


def trajectory_figure(foci: LayerFoci) -> Figure:
    """Paths of (mu, sigma), from squares to triangles.

    In the plane, mu has its own panel, and sigma (geometric mean of its axes) is drawn over epochs.
    """
    mu, on_line = foci.mu, foci.dimensions == 1
    sigma = np.exp(np.log(foci.sigma).mean(-1))
    with figure_style():
        figure = Figure((COLUMN_WIDTH, 2.3 if on_line else 1.95), layout="constrained")
        if on_line:
            axes = figure.subplots()
            draw_paths(axes, mu[:, :, 0], sigma)
            drawing.shade_noise(axes, foci.informative, foci.tau[:, 0])
            axes.set(xlabel=r"centre $\mu$", ylabel=r"aperture $\sigma$")
            margin = 0.1 * float(np.ptp(sigma)) + 0.01
            axes.set_ylim(max(0.0, sigma.min() - margin), sigma.max() + margin)
        else:
            axes, over_epochs = figure.subplots(1, 2)
            draw_paths(axes, mu[:, :, -1], mu[:, :, -2])
            drawing.frame_plane(axes)
            axes.set(xlabel=r"$\mu$, column", ylabel=r"$\mu$, row")
            low, median, high = np.quantile(sigma, (0.1, 0.5, 0.9), axis=1)
            draw_curve(over_epochs, foci.epochs, median, (low, high), colour=drawing.colour(0))
            over_epochs.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            over_epochs.set(xlabel="epochs", ylabel=r"aperture $\sigma$")
            over_epochs.set_ylim(0, 1.1 * float(high.max()))
        legend_start_and_end(figure, "k")
        return figure


def draw_paths(axes: Axes, x: Array, y: Array) -> None:
    """Draw paths of (x, y), both (E, n); of many neurons a sample, over the ends of all."""
    many = x.shape[1] > drawing.MAX_CURVES
    size, width = (2.5, 0.6) if many else (5, 1.0)
    if many:
        axes.plot(x[-1], y[-1], ".", color="0.8", markersize=2, rasterized=True)
    for index, neuron in enumerate(evenly_spaced(x.shape[1], drawing.MAX_MARKS)):
        shade = GREY if many else drawing.colour(index)
        axes.plot(x[:, neuron], y[:, neuron], color=shade, linewidth=width)
        axes.plot(x[0, neuron], y[0, neuron], "s", color=shade, mfc="w", ms=size, mew=0.7)
        shade = drawing.colour(0) if many else shade
        axes.plot(x[-1, neuron], y[-1, neuron], "^", color=shade, ms=size)


def weights_figure(foci: LayerFoci) -> Figure | None:
    """Focused weights phi o W of up to six neurons before and after training.

    None if the inputs are neither on a line nor on a grid in the plane.
    """
    rows = evenly_spaced(len(foci.shown), MAX_WEIGHT_PANELS)
    with figure_style():
        if foci.dimensions == 1:
            return _weight_curves(foci, rows)
        positions = [np.unique(foci.tau[:, axis]) for axis in range(foci.dimensions)]
        grid = [len(along) for along in positions]
        if len(grid) != 2 or min(grid) < 2 or len(foci.tau) % (grid[0] * grid[1]):
            return None
        # Positions are those of pixel centres, so the image is half a pixel wider.
        (upper, lower), (left, right) = (
            drawing.edges((0, len(along)), along) for along in positions
        )
        height = min(2 * COLUMN_WIDTH / len(rows) + 0.25, COLUMN_WIDTH)
        figure = Figure((COLUMN_WIDTH, height), layout="constrained")
        panels = figure.subplots(2, len(rows), squeeze=False)
        for at, weights, title in ((0, foci.first, "initial"), (-1, foci.last, "final")):
            for axes, row in zip(panels[at], rows, strict=True):
                neuron = foci.shown[row]
                image = weights[row].reshape(*grid, -1).mean(-1)  # over channels
                drawing.frame_plane(axes)
                limit = float(np.abs(image).max()) or 1.0
                signed_image(axes, image, limit, extent=(left, right, lower, upper))
                drawing.mark_focus(axes, foci.mu[at, neuron], foci.sigma[at, neuron], "k")
                axes.set(xticks=(), yticks=(), xlim=(left, right), ylim=(lower, upper))
                if at == 0:
                    axes.set_title(f"neuron {neuron}", fontsize=6)
            panels[at, 0].set_ylabel(title)
        return figure


def _weight_curves(foci: LayerFoci, rows: Array) -> Figure:
    """Weights along the line of inputs, a panel per neuron."""
    tau = foci.tau[:, 0]
    order = np.argsort(tau, kind="stable")
    figure = Figure((COLUMN_WIDTH, 0.8 + 0.62 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for index, (axes, row) in enumerate(zip(panels, rows, strict=True)):
        drawing.shade_noise(axes, foci.informative, tau, label=index == 0)
        axes.axhline(0, color="0.75", linewidth=0.5)
        axes.plot(tau[order], foci.first[row, order], ":", color=drawing.colour(index))
        axes.plot(tau[order], foci.last[row, order], "-", color=drawing.colour(index))
        axes.set_ylabel(f"neuron {foci.shown[row]}", fontsize=7)
        axes.yaxis.set_major_locator(MaxNLocator(3))
    panels[-1].set_xlabel(r"input position $\tau$")
    figure.legend(handles=drawing.before_after(), loc="outside upper right", ncols=2)
    figure.suptitle(r"focused weights $\phi \circ W$", x=0.02, ha="left", fontsize=8)
    return figure


def series_figure(
    series: Mapping[str, Sequence[float | None]], scores: Mapping[str, Any]
) -> Figure | None:
    """Loss, and score if recorded, over epochs; rings mark the scores of the protocols.

    Both arguments are as in a record. None if there are no series.
    """
    recorded = [s for s in SCORE_LABELS if any(f"{split}/{s}" in series for split in SPLIT_COLOURS)]
    labels = {"loss": "loss"} | {score: SCORE_LABELS[score] for score in recorded[:1]}
    if not any(f"{split}/{key}" in series for split in SPLIT_COLOURS for key in labels):
        return None
    with figure_style():
        figure = Figure((COLUMN_WIDTH, 1.9), layout="constrained")
        panels = figure.subplots(1, len(labels), squeeze=False)[0]
        for axes, (key, label) in zip(panels, labels.items(), strict=True):
            for split, shade in SPLIT_COLOURS.items():
                values = np.array(series.get(f"{split}/{key}", []), dtype=float)
                if len(values):
                    epochs = np.arange(1, len(values) + 1)
                    draw_curve(axes, epochs, values, colour=shade, label=split)
            if key in recorded:
                _mark_scores(axes, scores)
            axes.set(xlabel="epochs", ylabel=label)
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        handles, names = panels[-1].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper right", ncols=3)
        return figure


def _mark_scores(axes: Axes, scores: Mapping[str, Any]) -> None:
    for row, protocol in enumerate(("best_test", "holdout")):
        score = scores.get(protocol)
        if score:
            at, below = (score["epoch"] + 1, score["value"]), (0, -6 - 8 * row)
            axes.plot(*at, "o", mfc="none", color="k", ms=5, mew=0.8)
            label = axes.annotate(protocol, at, below, textcoords="offset points", fontsize=6)
            label.set(ha="right", va="top")
