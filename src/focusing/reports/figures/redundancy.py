"""What training does to weights on inputs that never change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from focusing.drawing import COLUMN_WIDTH, GREY, Array, figure_style
from focusing.errors import DamagedError
from focusing.reports.figures.chart import Chart, Drawn, LeftOut, missing
from focusing.reports.figures.chart_layout import head, look
from focusing.reports.figures.chart_runs import Edition, editions, joined, sample, typical
from focusing.reports.names import MODELS, data_name, model_name
from focusing.reports.tables import file_name
from focusing.reports.tables.blocks import Block, blocks
from focusing.results.arrays import check_arrays, read_arrays
from focusing.results.collect import Collection, Run

TITLE = "Weights on dead inputs before and after training"
KINDS = {"dead": "b m", "shape": "i axes", "before": "f k m", "after": "f k m"}
"""What the callback writes; see :func:`check_arrays`."""
NEURON = 0
"""The one of those stored whose weights are shown as a picture."""
WHEN = {"before": ":", "after": "-"}


def redundancy_charts(collection: Collection) -> Drawn:
    """A figure for each data set, a row for each network."""
    drawn: Drawn = []
    for edition in editions(collection):
        for block in blocks(edition.runs):
            order = [*MODELS, *block.models]
            found = {
                model: [run for run in block.models[model] if _told(run)]
                for model in sorted(block.models, key=order.index)
            }
            found = {model: runs for model, runs in found.items() if runs}
            if found:
                try:
                    drawn.append(_chart(edition, block, found))
                except DamagedError as error:
                    drawn.append(LeftOut.of(error))
    return drawn or [missing(TITLE, "redundancy")]


def _told(run: Run) -> Mapping[str, Any] | None:
    told: Mapping[str, Any] = run.measured.get("dead_inputs") or {}
    whole = "file" in told and told["dead"] and (run.path / told["file"]).exists()
    return told if whole else None


def _chart(edition: Edition, block: Block, found: Mapping[str, list[Run]]) -> Chart:
    runs = {model: typical(runs) for model, runs in found.items()}
    shown = "; ".join(f"{model_name(m)}: {sample(runs[m], found[m])}" for m in runs)
    told = {model: _told(run) or {} for model, run in runs.items()}
    arrays = {model: _arrays(run.path / told[model]["file"]) for model, run in runs.items()}
    first = next(iter(told.values()))
    several = len({run.data for run in edition.runs}) > 1 or block.options
    own = () if edition.experiment == "redundancy" else (edition.experiment,)
    what = (block.data, *block.options) if several else ()
    return Chart(
        file_name("redundancy", *own, edition.size, edition.variant, *what),
        f"{TITLE} {edition.title}",
        f"{data_name(block.data)} ({block.source}): {first['dead']} of {first['inputs']} inputs "
        "never change. Left: effective weights of one neuron before and after; a dashed line "
        "separates dead inputs. Right: histograms of the weights of all neurons on dead inputs, "
        f"with their mean size. {shown}.",
        tuple(row for model in told for row in _rows(model, told[model])),
        partial(_draw, arrays, told),
        edition.tags(data=block.data, model=joined(runs)),
    )


def _arrays(path: Path) -> Mapping[str, Array]:
    arrays = read_arrays(path)
    check_arrays(path, arrays, KINDS)
    if math.prod(arrays["shape"].tolist()) != len(arrays["dead"]) or arrays["shape"].min() < 1:
        raise DamagedError(path, "has a shape for other inputs")
    return arrays


def _rows(model: str, told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    histogram = told["histogram"]
    edges = histogram["edges"]
    rows: list[Mapping[str, Any]] = []
    for when in WHEN:
        for kind in ("dead", "live"):
            size = (told[when][kind] or {}).get("mean_abs")
            counts = histogram[f"{when}_{kind}"]
            for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
                about = {"model": model, "when": when, "inputs": kind, "mean_abs": size}
                rows.append({**about, "low": low, "high": high, "weights": count})
    return rows


def _draw(
    shown: Mapping[str, Mapping[str, Array]], told: Mapping[str, Mapping[str, Any]]
) -> Figure:
    with figure_style():
        figure = Figure((COLUMN_WIDTH, 1.45 * len(shown) + 0.1), layout="constrained")
        grid = figure.subplots(len(shown), 3, squeeze=False, width_ratios=(1, 1, 1.35))
        for row, (model, arrays) in enumerate(shown.items()):
            top = float(np.abs([arrays[when][NEURON] for when in WHEN]).max()) or 1.0
            for axes, when in zip(grid[row], WHEN, strict=False):
                _picture(axes, arrays[when][NEURON], arrays["dead"], arrays["shape"], top)
                axes.set_title(when, loc="left", fontsize=7, pad=2)
            grid[row, 0].set_ylabel(model_name(model), color=look(model)[0])
            _histogram(grid[row, 2], told[model], look(model)[0])
        grid[-1, 2].set_xlabel("weight")
        return figure


def _picture(axes: Axes, weights: Array, dead: Array, shape: Array, top: float) -> None:
    grid = tuple(int(size) for size in shape)
    if len(grid) < 2:
        grid = (1, len(weights))
    image = weights.reshape(*grid[:2], -1).mean(-1)
    axes.imshow(image, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto" if grid[0] == 1 else None)
    live = ~dead.reshape(*grid[:2], -1).all(-1)
    if live.any() and not live.all() and grid[0] > 1:
        axes.contour(live, [0.5], colors="k", linewidths=0.6, linestyles="--")
    axes.set(xticks=(), yticks=())
    axes.spines[:].set_visible(True)


def _histogram(axes: Axes, told: Mapping[str, Any], colour: str) -> None:
    edges = np.array(told["histogram"]["edges"])
    highest = max(max(told["histogram"][f"{when}_dead"]) for when in WHEN)
    for place, (when, line) in enumerate(WHEN.items()):
        counts: Sequence[int] = told["histogram"][f"{when}_dead"]
        shade = GREY if when == "before" else colour
        axes.stairs(counts, edges, color=shade, linestyle=line, linewidth=1)
        size = (told[when]["dead"] or {}).get("mean_abs", float("nan"))
        axes.text(0.99, 0.98 - 0.13 * place, f"{when}: {size:.3g}", color=shade, fontsize=6.5,
                  ha="right", va="top", transform=axes.transAxes)  # fmt: skip
    filled = np.flatnonzero(np.sum([told["histogram"][f"{when}_dead"] for when in WHEN], axis=0))
    reach = float(np.abs(edges[[filled[0], filled[-1] + 1]]).max())
    axes.set_xlim(-reach, reach)
    axes.set_ylim(0, 1.5 * highest)
    axes.set_yticks(())
    axes.spines["left"].set_visible(False)
    head(axes, "")
    axes.set_title("on dead inputs", loc="left", fontsize=7, pad=2)
