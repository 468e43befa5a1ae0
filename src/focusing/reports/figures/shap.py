"""Which inputs speak for a class: SHAP values of a few test samples."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from focusing.drawing import GREY, Array, figure_style
from focusing.errors import DamagedError
from focusing.reports.figures.chart import Chart, Drawn, LeftOut, missing
from focusing.reports.figures.chart_layout import WIDE
from focusing.reports.figures.chart_runs import Edition, editions, sample, typical
from focusing.reports.names import data_name, model_name
from focusing.reports.tables import file_name
from focusing.reports.tables.blocks import Block, blocks
from focusing.results.arrays import check_arrays, read_arrays
from focusing.results.collect import Collection, Run

TITLE = "SHAP values"
KINDS = {
    "values": "f n k ...",
    "inputs": "fi n ...",
    "classes": "i n k",
    "outputs": "f n k",
    "expected": "f n k",
    "targets": "fi n",
}
"""What the callback writes; see :func:`check_arrays`."""
CELL = 0.85
"""Inches of a picture."""


def shap_charts(collection: Collection) -> Drawn:
    """A figure for each network that was explained."""
    drawn: Drawn = []
    for edition in editions(collection):
        for block in blocks(edition.runs):
            for model, runs in block.models.items():
                explained = [run for run in runs if _file(run)]
                if explained:
                    try:
                        drawn.append(_chart(edition, block, model, explained))
                    except DamagedError as error:
                        drawn.append(LeftOut.of(error))
    return drawn or [missing(TITLE, "explain")]


def _file(run: Run) -> str | None:
    name = (run.measured.get("explanation") or {}).get("file")
    return name if name and (run.path / name).exists() else None


def _chart(edition: Edition, block: Block, model: str, runs: list[Run]) -> Chart:
    run = typical(runs, str(_file(runs[0])))
    path = run.path / str(_file(run))
    arrays = read_arrays(path)
    check_arrays(path, arrays, KINDS)
    if arrays["values"].shape[2:] != arrays["inputs"].shape[1:]:
        raise DamagedError(path, "has values for other inputs")
    told = run.measured["explanation"]
    gap = told["gap"]
    return Chart(
        file_name(
            "shap", edition.experiment, edition.size, edition.variant, block.data,
            *block.options, model,
        ),
        f"{TITLE}: {data_name(block.data)}, {model_name(model)} {edition.title}",
        f"{data_name(block.data)} ({block.source}), {model_name(model)}, {sample(run, runs)}. "
        "Rows: test samples; columns: the classes with the highest outputs, before the softmax. "
        "Red: speaks for the class, blue: against; above each its class and output, the true one "
        "black; channels are added; one scale for each sample. "
        f"Method {told['method']}, background of {told['background']} training samples. "
        "Completeness: the values miss the outputs that they should add up to by "
        f"{gap['largest']:.2g} at most, {100 * gap['relative']:.2g} % of the largest.",
        tuple(_rows(arrays)),
        partial(_draw, arrays),
        edition.tags(data=block.data, model=model),
    )  # fmt: skip


def _rows(arrays: Mapping[str, Array]) -> list[Mapping[str, Any]]:
    """A line for each sample, class and input, channels added as they are drawn."""
    values, inputs = flat(arrays["values"], 2), arrays["inputs"]
    shown = inputs.reshape(len(inputs), *_grid(inputs.shape[1:]), -1).mean(-1)
    shown = shown.reshape(len(inputs), -1)
    return [
        {
            "sample": n,
            "target": arrays["targets"][n].item(),
            "class": int(arrays["classes"][n, k]),
            "output": float(arrays["outputs"][n, k]),
            "expected": float(arrays["expected"][n, k]),
            "input": place,
            "mean_input": f"{shown[n, place]:.4g}",
            "shap": f"{value:.4g}",
        }
        for n in range(len(values))
        for k in range(values.shape[1])
        for place, value in enumerate(values[n, k].reshape(-1))
    ]


def _grid(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Height and width of images, channels last; a line otherwise."""
    return shape[:2] if len(shape) == 3 else (int(np.prod(shape)),)


def flat(values: Array, leading: int) -> Array:
    """Values of images (..., H, W) or of a line (..., m), summed over channels."""
    grid = _grid(values.shape[leading:])
    summed: Array = values.reshape(*values.shape[:leading], *grid, -1).sum(-1)
    return summed


def _draw(arrays: Mapping[str, Array]) -> Figure:
    values = flat(arrays["values"], 2)
    samples, classes = values.shape[:2]
    with figure_style():
        image = values.ndim == 4
        cell = (CELL, CELL) if image else (WIDE / (classes + 1), 0.8)
        size = (cell[0] * (classes + 1) + 0.1, cell[1] * samples * 1.16 + 0.1)
        figure = Figure(size, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.01, h_pad=0.01, wspace=0.02, hspace=0.02)  # type: ignore[union-attr, call-arg]
        grid = figure.subplots(samples, classes + 1, squeeze=False)
        for n in range(samples):
            _input(grid[n, 0], arrays["inputs"][n], image)
            target = arrays["targets"][n].item()
            grid[n, 0].set_title(f"{target:.3g}", loc="left", fontsize=7, pad=2)
            top = float(np.quantile(np.abs(values[n]), 0.999)) or 1.0
            for k in range(classes):
                axes = grid[n, k + 1]
                _values(axes, values[n, k], top)
                label, output = int(arrays["classes"][n, k]), float(arrays["outputs"][n, k])
                axes.set_title(f"{label}: {output:.1f}", loc="left", fontsize=7, pad=2,
                               color="k" if label == target else GREY)  # fmt: skip
        for axes in grid.ravel():
            axes.set(xticks=(), yticks=())
            axes.spines[:].set(visible=image, linewidth=0.4, color="0.7")
        return figure


def _input(axes: Axes, sample: Array, image: bool) -> None:
    if not image:
        axes.plot(sample.reshape(-1), color=GREY, lw=0.6)
        axes.set_xlim(-0.5, sample.size - 0.5)
        return
    low, high = float(sample.min()), float(sample.max())
    scaled = (sample - low) / max(high - low, 1e-12)
    if scaled.shape[-1] == 3:
        axes.imshow(scaled, interpolation="nearest")
    else:
        axes.imshow(scaled.mean(-1), cmap="gray_r", interpolation="nearest")


def _values(axes: Axes, values: Array, top: float) -> None:
    if values.ndim == 2:
        axes.imshow(values, cmap="RdBu_r", vmin=-top, vmax=top, interpolation="nearest")
    else:
        shades = np.where(values > 0, "#B2182B", "#2166AC")
        axes.bar(np.arange(len(values)), values, color=shades.tolist(), width=1.0)
        axes.set(xlim=(-0.5, len(values) - 0.5), ylim=(-1.05 * top, 1.05 * top))
