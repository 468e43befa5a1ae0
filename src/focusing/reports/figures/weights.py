"""What neurons of the first focused layer look at: all of them, three of them, in the picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from focusing.drawing import GREY, MAX_CURVES, Array, figure_style
from focusing.reports.figures.chart import Chart, Drawn, missing
from focusing.reports.figures.chart_layout import WIDE
from focusing.reports.figures.chart_runs import Edition, editions, foci_of, sample, typical
from focusing.reports.foci import Foci
from focusing.reports.names import data_name, model_name
from focusing.reports.tables import file_name
from focusing.reports.tables.blocks import blocks
from focusing.results.collect import Collection, Run

MODELS = ("focus_s", "focus_2d")
PREFERRED = ("table2_simple", "topology", "sparsity", "n_hidden")
FAKE = "fake"
THREE = (1 / 6, 1 / 2, 5 / 6)
"""Where on the line of inputs the three neurons look."""
TITLE = "Focused weights of the first layer"
CHANNELS = ("#D62728", "#2CA02C", "#1F77B4")
"""Of lines: near the channels of the picture."""
LINES = ("-", "--", ":")


def weight_charts(collection: Collection) -> Drawn:
    """For each data set of images, its source and model, a typical run of the first edition."""
    drawn: Drawn = []
    for edition, runs in _first_of_each(collection):
        run = typical(runs)
        foci = foci_of(run, drawn)
        shape = picture(run.sizes, len(foci[0].tau)) if foci else None
        if shape is None or foci[0].mu.shape[1] <= MAX_CURVES:
            continue
        drawn.append(_chart(edition, run, runs, foci[0], shape))
    if not any(isinstance(each, Chart) for each in drawn):
        drawn.append(missing(TITLE, "table2_simple", "data=mnist", "model=focus_s"))
    return drawn


def _first_of_each(collection: Collection) -> Iterator[tuple[Edition, list[Run]]]:
    """Runs of one setting for each data set, source and model: as published first."""
    order = sorted(
        editions(collection),
        key=lambda each: [*PREFERRED, each.experiment].index(each.experiment),
    )
    seen = set()
    real = {run.data for run in collection.runs if run.source != FAKE}
    for edition in order:
        for block in blocks(edition.runs):
            for model in MODELS:
                runs = block.models.get(model)
                what = (block.data, block.source, model)
                made_up = block.source == FAKE and block.data in real
                if runs and what not in seen and not made_up:
                    seen.add(what)
                    yield edition, runs


def picture(data: Mapping[str, Any], inputs: int) -> tuple[int, int, int] | None:
    """Height, width and channels of samples that are images; None if they are not.

    Args:
        data: what the record says about the data.
        inputs: number of inputs of the layer.
    """
    shape = data.get("shape")
    if shape is None:  # an older record: the paper's images but LFW's are squares
        sides = {math.isqrt(inputs // c): c for c in (1, 3) if inputs % c == 0}
        shape = next(([s, s, c] for s, c in sides.items() if s * s * c == inputs), [])
    if len(shape) == 2:
        shape = [*shape, 1]
    if len(shape) != 3 or math.prod(shape) != inputs or min(shape[:2]) < 4:
        return None
    return int(shape[0]), int(shape[1]), int(shape[2])


def _chart(
    edition: Edition, run: Run, runs: list[Run], foci: Foci, shape: tuple[int, int, int]
) -> Chart:
    three = three_neurons(foci)
    phi, weights = foci.phi(-1, foci.shown[three]), foci.last[three]
    rows = [
        {
            "neuron": int(foci.shown[k]),
            **{f"mu{a}": float(m) for a, m in enumerate(foci.mu[-1, foci.shown[k]])},
            **{f"sigma{a}": float(s) for a, s in enumerate(foci.sigma[-1, foci.shown[k]])},
            **{f"w{place}": f"{weight:.4g}" for place, weight in enumerate(foci.last[k])},
        }
        for k in range(len(foci.shown))
    ]
    count, total = len(foci.shown), foci.mu.shape[1]
    name = ("weights", edition.experiment, edition.size, edition.variant, run.data, run.model)
    sources = {each.source for each in edition.runs if each.data == run.data}
    return Chart(
        file_name(*name, *([run.source] if len(sources) > 1 else [])),
        f"{TITLE}: {data_name(run.data)}, {model_name(run.model)} {edition.title}",
        f"{data_name(run.data)} ({run.source}), layer {foci.layer} after training, "
        f"{sample(run, runs)}. (a) Focused weights phi o W of {count} of {total} neurons, evenly "
        "chosen, in the order of their centres. (b) Three of them; grey: their foci phi, scaled. "
        "(c) The same foci in the picture, a neuron in each of red, green and blue; + centre, s: "
        "sigma. (d) Their weights, absolute values.",
        tuple(rows),
        partial(_draw, foci, three, phi, weights, shape),
        edition.tags(data=run.data, model=run.model),
    )


def three_neurons(foci: Foci) -> list[int]:
    """Places, among those with weights, of neurons that look at three parts of the inputs."""
    first = foci.mu[-1, foci.shown, 0]
    if foci.mu.shape[2] == 1:
        left = list(range(len(first)))
        chosen = []
        for where in THREE:
            nearest = min(left, key=lambda k: abs(float(first[k]) - where))
            left.remove(nearest)
            chosen.append(nearest)
        return sorted(chosen, key=lambda k: float(first[k]))
    corners = ((0.25, 0.3), (0.5, 0.7), (0.75, 0.3))
    centres = foci.mu[-1, foci.shown]
    return [int(np.square(centres - np.array(at)).sum(1).argmin()) for at in corners]


def _draw(
    foci: Foci, three: list[int], phi: Array, weights: Array, shape: tuple[int, int, int]
) -> Figure:
    with figure_style():
        figure = Figure((WIDE, 2.15), layout="constrained")
        grid = figure.subplots(1, 4, width_ratios=(1.25, 1.25, 1, 1))
        _all(grid[0], figure, foci, shape)
        _three(grid[1], foci, three, phi, weights)
        for axes, values, title in (
            (grid[2], phi, "(c) foci"),
            (grid[3], np.abs(weights), "(d) |weights|"),
        ):
            _composite(axes, values, foci, three, shape)
            axes.set_title(title, loc="left")
        return figure


def _all(axes: Axes, figure: Figure, foci: Foci, shape: tuple[int, int, int]) -> None:
    centres = foci.mu[-1, foci.shown]
    order = np.lexsort(centres.T[::-1])
    values = foci.last[order]
    top = float(np.quantile(np.abs(values), 0.995)) or 1.0
    image = axes.imshow(
        values, aspect="auto", cmap="RdBu_r", vmin=-top, vmax=top, origin="lower",
        extent=(0, len(foci.tau), 0, len(values)), interpolation="nearest", rasterized=True,
    )  # fmt: skip
    axes.set(xlabel="input", ylabel=r"neurons by $\mu$")
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_title(rf"(a) $\phi \circ W$, {len(values)} neurons", loc="left")
    figure.colorbar(image, ax=axes, pad=0.02, fraction=0.06)


def _three(axes: Axes, foci: Foci, three: list[int], phi: Array, weights: Array) -> None:
    top = float(np.abs(weights).max()) or 1.0
    step = 2.3 * top
    scale = top / (float(phi.max()) or 1.0)
    for place, (values, focus) in enumerate(zip(weights, phi, strict=True)):
        base = (2 - place) * step  # the first on top, as in the picture
        axes.plot(base + values, color=CHANNELS[place], lw=0.6)
        axes.plot(base + focus * scale, color=GREY, lw=0.8, ls="--")
        axes.axhline(base, color="0.8", lw=0.4, zorder=0)
    axes.set(xlabel="input", xlim=(0, len(foci.tau)), ylim=(-1.15 * top, 2 * step + 1.15 * top))
    names = [f"{foci.shown[k]}" for k in three]
    axes.set_yticks([(2 - place) * step for place in range(3)], names)
    axes.set_ylabel("neuron")
    axes.set_title("(b) three neurons", loc="left")


def _composite(
    axes: Axes, values: Array, foci: Foci, three: list[int], shape: tuple[int, int, int]
) -> None:
    """Three neurons as red, green and blue, each to its own maximum; channels are added."""
    height, width, _ = shape
    layers = values.reshape(3, *shape).sum(-1)
    layers = layers / np.maximum(layers.max((1, 2), keepdims=True), 1e-12)
    axes.imshow(np.moveaxis(layers, 0, -1), interpolation="nearest")
    axes.set(xticks=(), yticks=())
    for place, k in enumerate(three):
        mu, sigma = foci.mu[-1, foci.shown[k]], foci.sigma[-1, foci.shown[k]]
        if len(mu) == 2:
            row, column = mu[0] * (height - 1), mu[1] * (width - 1)
            label = "s=" + ", ".join(dict.fromkeys(f"{each:.2f}" for each in sigma))
        else:  # the line runs through the picture row by row
            at = float(mu[0]) * (len(foci.tau) - 1) / shape[2]
            row, column = at // width, at % width
            label = f"s={sigma[0]:.3f}"
        axes.plot(column, row, "+", color="w", ms=6, mew=1)
        right = column > 0.5 * width
        height_of_label = -9 if place == 1 else 3  # so that neighbours do not cover each other
        axes.annotate(
            label, (column, row), (-5 if right else 5, height_of_label), textcoords="offset points",
            color="w", fontsize=6.5, ha="right" if right else "left",
        )  # fmt: skip
