"""``focusing data show``: draws a picture of a data set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from focusing.config import data_dir
from focusing.data.commands import describe, read_data
from focusing.data.dataset import DataSet
from focusing.drawing import COLOURS, GREY, Array, figure_style

WIDTH = 7.2
"""Width of the picture in inches."""
COLUMNS, ROWS, GAP = 10, 6, 2
"""Columns and rows of samples, and pixels between them."""


def show_data(args: argparse.Namespace) -> None:
    """Draw the data set ``args.name`` with ``args.overrides``."""
    path = Path("outputs") / "data" / f"{args.name}.png"
    draw_data(read_data(args.name, Path(data_dir()), args.overrides), path)
    print(path)


def draw_data(data: DataSet, path: Path) -> None:
    """Write a PNG file with samples and the distribution of classes or values."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with figure_style():
        figure = Figure(figsize=(WIDTH, _height(data)), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(f"{data.name}: {describe(data)}", fontsize=7, color=GREY)
        halves: Any = figure.subfigures(1, 2, width_ratios=(3, 1.1))
        samples, balance = halves
        if data.train.inputs.dim() == 4:
            _draw_images(samples.subplots(), data)
        elif data.vocabulary:
            _draw_lengths(samples.subplots(), data)
        else:
            _draw_table(samples.subplots(), data)
        _draw_balance(balance.subplots(), data)
        figure.savefig(path)


def _draw_images(axes: Axes, data: DataSet) -> None:
    """Draw samples class by class, and in a last row one of them as augmented."""
    inputs, labels = data.train.inputs, data.train.targets.numpy()
    classes = np.linspace(0, data.classes - 1, COLUMNS).round().astype(int)
    rows = []
    for row in range(ROWS):
        for column, label in enumerate(classes):
            same = np.flatnonzero(labels == label)
            turn = row * COLUMNS + column if data.classes < COLUMNS else row
            rows.append(int(same[turn % len(same)]))
    pictures = inputs[torch.tensor(rows)]
    if data.prepare is not None:
        pictures = data.prepare(pictures)
    if data.augment is not None:
        one = pictures[:1].expand(COLUMNS, *pictures.shape[1:])
        pictures = torch.cat([pictures, data.augment(one, torch.Generator().manual_seed(0))])
    mosaic = _mosaic(pictures.numpy())
    height, width = pictures.shape[1] + GAP, pictures.shape[2] + GAP
    # One scale for all; sound has outliers, which would take most of it.
    low, high = np.nanpercentile(mosaic, [1, 99] if data.name == "fsdd" else [0, 100])
    mosaic = np.clip((mosaic - low) / max(high - low, 1e-9), 0, 1)
    gaps = np.isnan(mosaic)
    if mosaic.shape[-1] == 3:
        axes.imshow(np.where(gaps, 1, mosaic), aspect="auto", interpolation="nearest")
    else:
        picture = np.ma.masked_array(mosaic[..., 0], gaps[..., 0])
        cmap = "magma" if data.name == "fsdd" else "gray"
        axes.imshow(picture, cmap=cmap, aspect="auto", interpolation="nearest")
    centres = width * (np.arange(COLUMNS) + 0.5) - GAP / 2
    axes.set_xticks(centres.tolist(), [str(label) for label in classes])
    axes.set(xlabel="class", yticks=[])
    axes.xaxis.set(ticks_position="top", label_position="top")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if data.augment is not None:
        axes.set_yticks([height * (ROWS + 0.5)], ["as\nchanged in\ntraining"])
    if data.name == "fsdd":
        axes.set_ylabel("coefficient, frame by frame", color=GREY)


def _mosaic(pictures: Array) -> Array:
    """Arrange pictures (N, H, W, C) in rows of one picture, with NaN between them."""
    count, height, width, colours = pictures.shape
    lines = count // COLUMNS
    framed = np.full((count, height + GAP, width + GAP, colours), np.nan, dtype=np.float32)
    framed[:, :height, :width] = pictures
    grid = framed.reshape(lines, COLUMNS, height + GAP, width + GAP, colours)
    joined = grid.transpose(0, 2, 1, 3, 4).reshape(lines * (height + GAP), -1, colours)
    return joined[:-GAP, :-GAP]


def _height(data: DataSet) -> float:
    """Height in inches that makes pixels square."""
    if data.train.inputs.dim() != 4 or data.name == "fsdd":
        return 4.2
    height, width = data.train.inputs.shape[1:3]
    rows = ROWS + (data.augment is not None)
    return 0.65 * WIDTH * rows * (height + GAP) / (COLUMNS * (width + GAP)) + 0.7


def _draw_table(axes: Axes, data: DataSet) -> None:
    """Draw the class means of all columns; for regression, all samples sorted by value."""
    inputs, targets = data.train.inputs.numpy(), data.train.targets.numpy()
    if data.classes:
        values = np.stack([inputs[targets == label].mean(0) for label in np.unique(targets)])
        label, title = "class", "mean of each column in each class"
    else:
        values = inputs[np.argsort(targets)]
        label, title = "samples, by increasing value", "all training samples"
    low, high = np.percentile(values, [1, 99])
    image = axes.imshow(values, aspect="auto", vmin=low, vmax=high, interpolation="nearest")
    axes.set(xlabel="column", ylabel=label, title=title)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    assert axes.figure is not None  # noqa: S101 - for the type checker
    axes.figure.colorbar(image, ax=axes, pad=0.01, fraction=0.05)


def _draw_lengths(axes: Axes, data: DataSet) -> None:
    """Draw histograms of text lengths by class."""
    lengths = (data.train.inputs != 0).sum(1).numpy()
    labels = data.train.targets.numpy()
    bins = np.linspace(0, data.inputs, 41).tolist()
    for label in range(data.classes):
        axes.hist(lengths[labels == label], bins, histtype="step", color=COLOURS[label],
                  label=f"class {label}")  # fmt: skip
    axes.set(xlabel=f"tokens, of {data.inputs} at most", ylabel="training texts")
    axes.set_title(f"{data.vocabulary} different tokens")
    axes.legend()


def _draw_balance(axes: Axes, data: DataSet) -> None:
    """Draw the number of samples per class, or of values, in both splits."""
    splits = {"train": data.train.targets.numpy(), "test": data.test.targets.numpy()}
    if not data.classes:
        bins = np.histogram_bin_edges(np.concatenate(list(splits.values())), 25).tolist()
        for (name, values), colour in zip(splits.items(), COLOURS, strict=False):
            axes.hist(values, bins, color=colour, label=name)
        axes.set(xlabel="value", ylabel="samples")
        axes.legend()
        return
    places = np.arange(data.classes)
    left = np.zeros(data.classes, dtype=np.int64)
    for (name, values), colour in zip(splits.items(), COLOURS, strict=False):
        counts = np.bincount(values, minlength=data.classes)
        axes.barh(places, counts, left=left, height=0.85, color=colour, label=name)
        left = left + counts
    axes.set(xlabel="samples", ylabel="class", ylim=(data.classes - 0.5, -0.5))
    # Ticks that depend on the width would change after the layout, which then cuts off the last.
    axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
