"""Where the foci of larger networks went, on each data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from focusing.drawing import GREY, MAX_CURVES, evenly_spaced, figure_style, frame_plane
from focusing.reports.figures.chart import Chart, Drawn
from focusing.reports.figures.chart_layout import BLUE, above, head, panels
from focusing.reports.figures.chart_runs import Edition, by_model, foci_of, joined, sample, typical
from focusing.reports.foci import Foci
from focusing.reports.names import data_name, model_name
from focusing.reports.tables import file_name
from focusing.reports.tables.blocks import Block
from focusing.results.collect import Collection

EXPERIMENTS = ("table2_simple", "table2_cnn", "table3_transfer", "topology")
DRAWN = 40
"""Neurons of a panel."""
Panel = tuple[Block, Foci, str]


def field_charts(collection: Collection) -> Drawn:
    """For each model of the paper's tables the paths of its first focused layer's foci."""
    drawn: Drawn = []
    for edition, model, found in by_model(collection, EXPERIMENTS):
        shown = []
        for block in found:
            runs = block.models[model]
            run = typical(runs)
            foci = foci_of(run, drawn)[:1]
            if foci and foci[0].mu.shape[1] > MAX_CURVES and foci[0].mu.shape[2] <= 2:
                shown.append((block, foci[0], sample(run, runs)))
        if shown:
            drawn.append(_chart(edition, model, shown))
    return drawn


def _chart(edition: Edition, model: str, shown: Sequence[Panel]) -> Chart:
    plane = shown[0][1].mu.shape[2] == 2
    what = "centres in the picture" if plane else "aperture against centre"
    runs = "; ".join(f"{data_name(block.data)}: {which}" for block, _, which in shown)
    return Chart(
        file_name("paths", edition.experiment, edition.size, edition.variant, model),
        f"Paths of the foci of {model_name(model)} {edition.title}",
        f"First focused layer, {what}, from squares to triangles; {DRAWN} neurons, evenly chosen, "
        f"and the ends of all others in light grey. {runs}.",
        tuple(row for block, foci, _ in shown for row in _rows(block, foci)),
        partial(_draw, shown),
        edition.tags(data=joined(block.data for block, _, _ in shown), model=model),
    )


def _rows(block: Block, foci: Foci) -> list[Mapping[str, Any]]:
    """The neurons that are drawn, at both ends."""
    axes = range(foci.mu.shape[2])
    return [
        {"data": block.data, "source": block.source, "options": " ".join(block.options)}
        | {"layer": foci.layer, "neuron": int(neuron), "epoch": int(foci.epochs[at])}
        | {f"mu{axis}": float(foci.mu[at, neuron, axis]) for axis in axes}
        | {f"sigma{axis}": float(foci.sigma[at, neuron, axis]) for axis in axes}
        for neuron in range(foci.mu.shape[1])
        for at in (0, -1)
    ]


def _draw(shown: Sequence[Panel]) -> Figure:
    with figure_style():
        heads = [above(block.source, block.options) for block, *_ in shown]
        figure, grid, columns = panels(len(shown), 1.7, heads)
        for place, (axes, (block, foci, _)) in enumerate(zip(grid, shown, strict=True)):
            plane = foci.mu.shape[2] == 2
            x, y = (foci.mu[..., 1], foci.mu[..., 0]) if plane else (foci.mu, foci.sigma)
            x, y = (each.reshape(len(foci.epochs), -1) for each in (x, y))
            some = evenly_spaced(x.shape[1], DRAWN)
            axes.plot(x[-1], y[-1], ".", color="0.8", ms=1.5, mew=0, rasterized=True)
            axes.plot(x[:, some], y[:, some], color=GREY, lw=0.5)
            axes.plot(x[0, some], y[0, some], "s", color=GREY, mfc="w", ms=2.2, mew=0.5)
            axes.plot(x[-1, some], y[-1, some], "^", color=BLUE, ms=2.6, mew=0)
            head(axes, data_name(block.data), *heads[place])
            if plane:
                frame_plane(axes)
            else:
                axes.set_ylim(0, 1.1 * max(float(y[0].max()), float(y[-1].max())))
            if place % columns == 0:
                axes.set_ylabel("row" if plane else r"aperture $\sigma$")
            if place >= len(shown) - columns:
                axes.set_xlabel("column" if plane else r"centre $\mu$")
        marks = [
            Line2D([], [], linestyle="", marker="s", color=GREY, mfc="w", ms=3, label="start"),
            Line2D([], [], linestyle="", marker="^", color=BLUE, ms=3, label="end"),
        ]
        figure.legend(handles=marks, loc="outside upper right", ncols=2)
        return figure
