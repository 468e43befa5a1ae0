"""Figures of learnt layers: apertures, weights as pictures, weights on dead inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

from focusing.drawing import COLUMN_WIDTH, GREY, MAX_CURVES, Array, LayerFoci
from focusing.errors import DamagedError
from focusing.reports.figures import plotting
from focusing.reports.figures.chart import (
    Chart,
    Charts,
    Row,
    Rows,
    Runs,
    chart,
    count_range,
    describe_run,
    median_run,
    run_count,
    setting_name,
)
from focusing.reports.figures.plotting import model_style, signed_image
from focusing.reports.foci import focus_columns
from focusing.reports.names import data_name, model_name
from focusing.reports.settings import Edition, Setting
from focusing.results.arrays import check_arrays, read_arrays
from focusing.results.collect import Run
from focusing.results.frame import group_by

APERTURE_EXPERIMENTS = ("table2_simple", "table2_cnn", "table3_transfer", "topology", "sparsity")
APERTURE_BINS = 30
APERTURE_TITLE = "Apertures after training"
WEIGHT_MODELS = ("focus_s", "focus_2d")
WEIGHT_EXPERIMENTS = ("table2_simple", "topology", "sparsity", "n_hidden")
"""Experiments that are preferred for weights of a data set."""
WEIGHT_TITLE = "Focused weights of the first layer"
LINE_CAPTION = (
    "(a) Focused weights phi o W of {} of {} neurons, evenly chosen, in the order of their "
    "centres. (b) Three of them; grey: their foci phi, scaled. (c) The same foci in the picture, "
    "in the colours of the neurons; + centre. (d) Their weights, absolute values."
)
PLANE_CAPTION = (
    "(a) Foci phi of three of {1} neurons, in their colours; + centre. (b) to (d) Their focused "
    "weights phi o W; of colours, the mean."
)
CENTRES_ON_LINE = (1 / 6, 1 / 2, 5 / 6)
CENTRES_IN_PLANE = ((0.25, 0.3), (0.5, 0.7), (0.75, 0.3))
"""Where to look for the three neurons that are drawn one by one."""
NEURON_COLOURS = (plotting.BLUE, plotting.ORANGE, plotting.GREEN)
"""Their colours, which the colour-blind can tell apart, on white."""
DEAD_TITLE = "Weights on dead inputs before and after training"
DEAD_KINDS = {"dead": "b m", "shape": "i axes", "before": "f k m", "after": "f k m"}
"""Arrays that the callback writes; see :func:`check_arrays`."""
DEAD_LINES = {"before": ":", "after": "-"}
Shape = tuple[int, int, int]
"""Height, width and channels of a picture."""


def aperture_charts(runs: Runs) -> Charts:
    """Histograms of sigma after training, a panel per data set."""
    for edition, model, settings in runs.by_model(APERTURE_EXPERIMENTS):
        panels = [rows for setting in settings if (rows := _aperture_rows(setting, runs))]
        rows = [row for rows in panels for row in rows]
        if rows:
            yield chart(
                edition, ("sigma", model), f"{APERTURE_TITLE}: {model_name(model)}",
                "Histograms of sigma over the neurons of each focused layer of "
                f"{run_count(row['runs'] for row in rows)}; dotted: initial mean. In the plane the "
                "geometric mean of both axes.",
                rows, partial(_draw_apertures, panels), model=[model],
            )  # fmt: skip


def _aperture_rows(setting: Setting, runs: Runs) -> list[Row]:
    """Histograms of the sigmas of all runs, with the geometric mean of several axes."""
    ends: dict[str, list[tuple[Array, Array]]] = {}
    for run in setting.runs:
        for name, both in runs.ends(run, "sigma").items():
            ends.setdefault(name, []).append(both)
    sigmas = {
        name: np.concatenate([np.exp(np.log(last).mean(-1)) for _, last in both])
        for name, both in ends.items()
    }
    if not sigmas:
        return []
    every = np.concatenate(list(sigmas.values()))
    low, high = float(every.min()), float(every.max())
    margin = 0.01 if high - low < 1e-6 else 0.0  # equal values need some width
    edges = np.linspace(low - margin, high + margin, APERTURE_BINS + 1)
    return [
        row
        for name, both in ends.items()
        for row in plotting.histogram_rows(
            sigmas[name], edges, **setting.block_columns(), layer=name, runs=len(both),
            initial=float(np.mean(np.concatenate([first for first, _ in both]))),
        )
    ]  # fmt: skip


def _draw_apertures(shown: Sequence[Rows]) -> Figure:
    notes = [f"n = {count_range(row['runs'] for row in rows)}" for rows in shown]
    panels = plotting.data_panels([rows[0] for rows in shown], 1.55, notes)
    for axes, rows in zip(panels.axes, shown, strict=True):
        layers = group_by(rows, itemgetter("layer"))
        for bins in layers.values():
            axes.axvline(bins[0]["initial"], color=GREY, ls=":", lw=1)
        plotting.draw_histograms(axes, layers)
    panels.label(r"aperture $\sigma$", "neurons")
    return panels.figure


def weight_charts(runs: Runs) -> Charts:
    """Weights of a median run, for every image data set, source and model."""
    for edition, setting in _preferred_settings(runs):
        run = median_run(setting.runs)
        layers = runs.foci(run)
        shape = image_shape(run.sizes, len(layers[0].tau)) if layers else None
        if shape is not None and layers[0].neurons > MAX_CURVES:
            yield _weight_chart(edition, run, setting, layers[0], shape)


def _preferred_settings(runs: Runs) -> Iterator[tuple[Edition, Setting]]:
    """One setting per data set, source and model: as published first."""
    seen = set()
    real = {run.data for run in runs.collection.runs if run.source != "fake"}
    order = [*WEIGHT_EXPERIMENTS, *dict.fromkeys(edition.experiment for edition in runs.editions)]
    for edition in sorted(runs.editions, key=lambda edition: order.index(edition.experiment)):
        for (data, source, _), block in edition.blocks.items():
            for model in WEIGHT_MODELS:
                fake = source == "fake" and data in real
                if model in block and (data, source, model) not in seen and not fake:
                    seen.add((data, source, model))
                    yield edition, block[model]


def image_shape(data: Mapping[str, Any], inputs: int) -> Shape | None:
    """Height, width and channels of images with so many inputs; None for other data."""
    shape = data.get("shape") or []
    if len(shape) == 2:
        shape = [*shape, 1]
    if len(shape) != 3 or math.prod(shape) != inputs or min(shape[:2]) < 4:
        return None
    return int(shape[0]), int(shape[1]), int(shape[2])


def _weight_chart(
    edition: Edition, run: Run, setting: Setting, foci: LayerFoci, shape: Shape
) -> Chart:
    rows = [
        {"neuron": int(neuron), **focus_columns(foci, -1, neuron)}
        | {f"w{place}": f"{weight:.4g}" for place, weight in enumerate(weights)}
        for neuron, weights in zip(foci.shown, foci.last, strict=True)
    ]
    sources = {other.source for other in edition.runs if other.data == run.data}
    in_plane = foci.dimensions > 1
    draw = _draw_weight_pictures if in_plane else _draw_weights
    return chart(
        edition, ("weights", run.data, run.model, *([run.source] if len(sources) > 1 else [])),
        f"{WEIGHT_TITLE}: {data_name(run.data)}, {model_name(run.model)}",
        f"{data_name(run.data)} ({run.source}), layer {foci.layer} after training, "
        f"{describe_run(run, setting.runs)}. "
        + (PLANE_CAPTION if in_plane else LINE_CAPTION).format(len(foci.shown), foci.neurons),
        rows, partial(draw, foci, shape), data=[run.data], model=[run.model],
    )  # fmt: skip


def three_neurons(foci: LayerFoci) -> list[int]:
    """Indices, among the stored neurons, of three that look at different regions."""
    targets = np.array(CENTRES_IN_PLANE if foci.dimensions > 1 else CENTRES_ON_LINE)
    ways = targets.reshape(3, 1, -1) - foci.mu[-1, foci.shown]
    chosen: list[int] = linear_sum_assignment(np.square(ways).sum(-1))[1].tolist()
    return chosen


def _draw_weights(foci: LayerFoci, shape: Shape) -> Figure:
    three = three_neurons(foci)
    phi, weights = foci.phi(-1, foci.shown[three]), foci.last[three]
    figure = Figure((plotting.PAGE_WIDTH, 2.15), layout="constrained")
    grid = figure.subplots(1, 4, width_ratios=(1.2, 1.5, 1, 1))
    _draw_all_weights(grid[0], figure, foci)
    _draw_three_weights(grid[1], foci, three, phi, weights)
    _draw_composite(grid[2], phi, foci, three, shape, "(c) foci")
    _draw_composite(grid[3], np.abs(weights), foci, three, shape, "(d) |weights|")
    return figure


def _draw_weight_pictures(foci: LayerFoci, shape: Shape) -> Figure:
    three = three_neurons(foci)
    figure = Figure((plotting.PAGE_WIDTH, 1.75), layout="constrained")
    grid = figure.subplots(1, 4)
    _draw_composite(grid[0], foci.phi(-1, foci.shown[three]), foci, three, shape, "(a) foci")
    pictures = foci.last[three].reshape(3, *shape).mean(-1)
    limit = float(np.abs(pictures).max()) or 1.0
    for axes, letter, k, picture, colour in zip(
        grid[1:], "bcd", three, pictures, NEURON_COLOURS, strict=True
    ):
        image = signed_image(axes, picture, limit, interpolation="nearest")
        _frame_picture(axes, f"({letter}) {_aperture(foci, k)}", color=colour, fontsize=7)
        _mark_centre(axes, foci, k, shape)
    bar = figure.colorbar(image, ax=grid[1:], pad=0.02, fraction=0.03)
    bar.locator = MaxNLocator(3)
    return figure


def _draw_all_weights(axes: Axes, figure: Figure, foci: LayerFoci) -> None:
    order = np.lexsort(foci.mu[-1, foci.shown].T[::-1])
    values = foci.last[order]
    limit = float(np.quantile(np.abs(values), 0.995)) or 1.0
    image = signed_image(
        axes, values, limit, aspect="auto", origin="lower",
        extent=(0, len(foci.tau), 0, len(values)), interpolation="nearest", rasterized=True,
    )  # fmt: skip
    axes.set(xlabel="input", ylabel=r"neurons by $\mu$")
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_title(rf"(a) $\phi \circ W$, {len(values)} neurons", loc="left")
    figure.colorbar(image, ax=axes, pad=0.02, fraction=0.06)


def _draw_three_weights(
    axes: Axes, foci: LayerFoci, three: Sequence[int], phi: Array, weights: Array
) -> None:
    """Draw weights over their foci, labelled with neuron and aperture."""
    top = float(np.abs(weights).max()) or 1.0
    scale = top / (float(phi.max()) or 1.0)
    bases = [2.3 * top * (2 - place) for place in range(3)]  # the first on top, as in the picture
    for base, values, focus, colour in zip(bases, weights, phi, NEURON_COLOURS, strict=True):
        axes.fill_between(np.arange(len(focus)), base, base + focus * scale, color="0.88", lw=0)
        axes.plot(base + values, color=colour, lw=0.6)
        axes.axhline(base, color="0.7", lw=0.4, zorder=0)
    axes.set(xlabel="input", xlim=(0, weights.shape[1]))
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.set_yticks(bases, [_aperture(foci, k) for k in three], fontsize=6.5)
    for label, colour in zip(axes.get_yticklabels(), NEURON_COLOURS, strict=True):
        label.set_color(colour)
    axes.set_ylim(-1.15 * top, bases[0] + 1.15 * top)
    axes.set_title("(b) three neurons", loc="left")


def _aperture(foci: LayerFoci, k: int) -> str:
    neuron = foci.shown[k]
    sigma = ", ".join(dict.fromkeys(f"{value:.2g}" for value in foci.sigma[-1, neuron]))
    return f"neuron {neuron}\n$\\sigma$ = {sigma}"


def _draw_composite(
    axes: Axes, values: Array, foci: LayerFoci, three: Sequence[int], shape: Shape, title: str
) -> None:
    """Draw three neurons in their colours, each scaled to its maximum, with channels added."""
    layers = values.reshape(3, *shape).sum(-1)
    layers = layers / np.maximum(layers.max((1, 2), keepdims=True), 1e-12)
    shares = layers / np.maximum(layers.sum(0), 1)  # where foci overlap, their colours mix
    ink = 1 - np.array([to_rgb(colour) for colour in NEURON_COLOURS])
    picture = 1 - np.einsum("nhw,nc->hwc", shares, ink)
    axes.imshow(picture, interpolation="nearest")
    _frame_picture(axes, title)
    for k in three:
        _mark_centre(axes, foci, k, shape)


def _frame_picture(axes: Axes, title: str, **style: Any) -> None:
    axes.set(xticks=(), yticks=())
    axes.set_title(title, loc="left", **style)
    axes.spines[:].set(visible=True, linewidth=0.5, color="0.6")


def _mark_centre(axes: Axes, foci: LayerFoci, k: int, shape: Shape) -> None:
    height, width, channels = shape
    mu = foci.mu[-1, foci.shown[k]]
    if len(mu) == 2:
        row, column = mu[0] * (height - 1), mu[1] * (width - 1)
    else:  # the line runs through the picture row by row
        row, column = divmod(float(mu[0]) * (len(foci.tau) - 1) / channels, width)
    axes.plot(column, row, "+", color="k", ms=6, mew=0.9)


def dead_input_charts(runs: Runs) -> Charts:
    """Weights on inputs that never change, before and after training, a row per network."""
    for edition in runs.editions:
        for block in edition.blocks.values():
            with runs.skip_damaged():
                yield from _dead_charts(edition, block)


def _dead_inputs(run: Run) -> Mapping[str, Any]:
    """What the callback measured, if its arrays exist."""
    measured: Mapping[str, Any] = run.measured.get("dead_inputs") or {}
    whole = "file" in measured and measured["dead"] and (run.path / measured["file"]).exists()
    return measured if whole else {}


def _dead_charts(edition: Edition, block: Mapping[str, Setting]) -> Charts:
    models = {
        model: runs
        for model, setting in block.items()
        if (runs := [run for run in setting.runs if _dead_inputs(run)])
    }
    if not models:
        return
    shown = {model: median_run(runs) for model, runs in models.items()}
    which = "; ".join(
        f"{model_name(model)}: {describe_run(run, models[model])}" for model, run in shown.items()
    )
    measured = {model: _dead_inputs(run) for model, run in shown.items()}
    arrays = {model: _dead_arrays(shown[model].path / measured[model]["file"]) for model in shown}
    first, setting = next(iter(measured.values())), next(iter(block.values()))
    yield chart(
        edition, ("redundancy", *setting_name(edition, setting)), DEAD_TITLE,
        f"{data_name(setting.data)} ({setting.source}): {first['dead']} of {first['inputs']} "
        "inputs never change. Left: effective weights of one neuron before and after; a dashed "
        "line separates dead inputs. Right: histograms of the weights of all neurons on dead "
        f"inputs, with their mean size. {which}.",
        [row for model in measured for row in _dead_rows(model, measured[model])],
        partial(_draw_dead, arrays, measured), data=[setting.data],
    )  # fmt: skip


def _dead_arrays(path: Path) -> Mapping[str, Array]:
    arrays = read_arrays(path)
    check_arrays(path, arrays, DEAD_KINDS)
    if math.prod(arrays["shape"].tolist()) != len(arrays["dead"]) or arrays["shape"].min() < 1:
        raise DamagedError(path, "has a shape for other inputs")
    return arrays


def _dead_rows(model: str, measured: Mapping[str, Any]) -> list[Row]:
    edges = measured["histogram"]["edges"]
    return [
        {"model": model, "when": when, "inputs": kind}
        | {"mean_abs": (measured[when][kind] or {}).get("mean_abs")}
        | {"low": low, "high": high, "weights": count}
        for when in DEAD_LINES
        for kind in ("dead", "live")
        for low, high, count in zip(
            edges[:-1], edges[1:], measured["histogram"][f"{when}_{kind}"], strict=True
        )
    ]


def _draw_dead(
    arrays: Mapping[str, Mapping[str, Array]], measured: Mapping[str, Mapping[str, Any]]
) -> Figure:
    figure = Figure((COLUMN_WIDTH, 1.45 * len(arrays) + 0.1), layout="constrained")
    grid = figure.subplots(len(arrays), 3, squeeze=False, width_ratios=(1, 1, 1.35))
    for row, (model, stored) in enumerate(arrays.items()):
        limit = float(np.abs([stored[when][0] for when in DEAD_LINES]).max()) or 1.0
        for axes, when in zip(grid[row], DEAD_LINES, strict=False):
            _draw_neuron(axes, stored[when][0], stored["dead"], stored["shape"], limit)
            axes.set_title(when, loc="left", fontsize=7, pad=2)
        grid[row, 0].set_ylabel(model_name(model), color=model_style(model)[0])
        _draw_dead_histogram(grid[row, 2], measured[model], model_style(model)[0])
    grid[-1, 2].set_xlabel("weight")
    return figure


def _draw_neuron(axes: Axes, weights: Array, dead: Array, shape: Array, limit: float) -> None:
    """Draw the weights of a neuron as a picture, with a dashed line around live inputs."""
    grid = tuple(int(size) for size in shape)
    if len(grid) < 2:
        grid = (1, len(weights))
    image = weights.reshape(*grid[:2], -1).mean(-1)
    signed_image(axes, image, limit, aspect="auto" if grid[0] == 1 else None)
    live = ~dead.reshape(*grid[:2], -1).all(-1)
    if live.any() and not live.all() and grid[0] > 1:
        axes.contour(live, [0.5], colors="k", linewidths=0.6, linestyles="--")
    axes.set(xticks=(), yticks=())
    axes.spines[:].set_visible(True)


def _draw_dead_histogram(axes: Axes, measured: Mapping[str, Any], colour: str) -> None:
    edges = np.array(measured["histogram"]["edges"])
    counts = {when: np.array(measured["histogram"][f"{when}_dead"]) for when in DEAD_LINES}
    for place, (when, line) in enumerate(DEAD_LINES.items()):
        shade = GREY if when == "before" else colour
        axes.stairs(counts[when], edges, color=shade, linestyle=line, linewidth=1)
        size = (measured[when]["dead"] or {}).get("mean_abs", float("nan"))
        plotting.corner_text(axes, place, f"{when}: {size:.3g}", shade)
    filled = np.flatnonzero(sum(counts.values()))
    reach = float(np.abs(edges[[filled[0], filled[-1] + 1]]).max())
    axes.set(xlim=(-reach, reach), ylim=(0, 1.5 * max(map(max, counts.values()))), yticks=())
    axes.spines["left"].set_visible(False)
    axes.set_title("on dead inputs", loc="left", fontsize=7, pad=2)
