"""Histograms of sigma after training, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from focusing.drawing import COLOURS, GREY, figure_style
from focusing.reports.figures.chart import Chart, Drawn, missing
from focusing.reports.figures.chart_layout import above, head, panels
from focusing.reports.figures.chart_runs import Edition, by_model, ends_of, joined, run_count
from focusing.reports.names import data_name, model_name
from focusing.reports.tables import file_name
from focusing.reports.tables.blocks import Block
from focusing.results.collect import Collection

EXPERIMENTS = ("table2_simple", "table2_cnn", "table3_transfer", "topology", "sparsity")
BINS = 30
TITLE = "Apertures after training"
Layer = tuple[str, np.ndarray[Any, Any], float, int]
"""Name, final sigmas, mean initial one, runs."""


def sigma_charts(collection: Collection) -> Drawn:
    """A figure for each experiment of tables and model, a panel for each data set."""
    drawn: Drawn = []
    for edition, model, found in by_model(collection, EXPERIMENTS):
        shown = [(block, layers) for block in found if (layers := _layers(block, model, drawn))]
        if shown:
            drawn.append(_chart(edition, model, shown))
    if not any(isinstance(each, Chart) for each in drawn):
        drawn.append(missing(TITLE, "table2_simple", "model=focus_s"))
    return drawn


def _layers(block: Block, model: str, drawn: Drawn) -> list[Layer]:
    """Sigmas of all runs of a cell, together; of several axes the geometric mean."""
    first: dict[str, list[Any]] = {}
    last: dict[str, list[Any]] = {}
    for run in block.models[model]:
        for name, (begin, end) in ends_of(run, "sigma", drawn).items():
            first.setdefault(name, []).append(begin)
            last.setdefault(name, []).append(np.exp(np.log(end).mean(-1)))
    return [
        (name, np.concatenate(ends), float(np.mean(np.concatenate(first[name]))), len(ends))
        for name, ends in last.items()
    ]


def _chart(edition: Edition, model: str, shown: Sequence[tuple[Block, list[Layer]]]) -> Chart:
    runs = run_count(runs for _, layers in shown for *_, runs in layers)
    return Chart(
        file_name("sigma", edition.experiment, edition.size, edition.variant, model),
        f"{TITLE}: {model_name(model)} {edition.title}",
        f"Histograms of sigma over the neurons of each focused layer of {runs}; dotted: "
        "initial mean. In the plane the geometric mean of both axes.",
        tuple(row for block, layers in shown for row in _rows(block, layers)),
        partial(_draw, shown),
        edition.tags(data=joined(block.data for block, _ in shown), model=model),
    )


def _edges(layers: Sequence[Layer]) -> Any:
    values = np.concatenate([sigmas for _, sigmas, _, _ in layers])
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-6:
        low, high = low - 0.01, high + 0.01
    return np.linspace(low, high, BINS + 1)


def _rows(block: Block, layers: Sequence[Layer]) -> list[Mapping[str, Any]]:
    edges = _edges(layers)
    return [
        {
            "data": block.data,
            "source": block.source,
            "options": " ".join(block.options),
            "layer": name,
            "runs": runs,
            "initial": initial,
            "low": float(low),
            "high": float(high),
            "neurons": int(count),
        }
        for name, sigmas, initial, runs in layers
        for low, high, count in zip(
            edges[:-1], edges[1:], np.histogram(sigmas, edges)[0], strict=True
        )
    ]


def _draw(shown: Sequence[tuple[Block, list[Layer]]]) -> Figure:
    with figure_style():
        heads = [above(block.source, block.options) for block, *_ in shown]
        figure, grid, columns = panels(len(shown), 1.55, heads)
        for place, (axes, (block, layers)) in enumerate(zip(grid, shown, strict=True)):
            edges = _edges(layers)
            for number, (name, sigmas, initial, _) in enumerate(layers):
                shade = COLOURS[number]
                axes.hist(sigmas, edges, histtype="stepfilled", color=shade, alpha=0.25)
                axes.hist(sigmas, edges, histtype="step", color=shade)
                axes.axvline(initial, color=GREY, ls=":", lw=1)
                axes.text(0.98, 0.97 - 0.13 * number, name, color=shade, fontsize=7, ha="right",
                          va="top", transform=axes.transAxes)  # fmt: skip
            axes.set_ylim(0, 1.45 * axes.get_ylim()[1])  # room for the names
            head(axes, data_name(block.data), *heads[place])
            if place % columns == 0:
                axes.set_ylabel("neurons")
            if place >= len(shown) - columns:
                axes.set_xlabel(r"aperture $\sigma$")
        return figure
