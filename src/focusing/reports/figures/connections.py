"""How many connections each neuron keeps when faint ones are dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from focusing.drawing import figure_style
from focusing.reports.figures.chart import Chart, Drawn, missing
from focusing.reports.figures.chart_layout import BLUE, ORANGE, head, panels
from focusing.reports.figures.chart_runs import Edition, editions, run_count
from focusing.reports.figures.sparsity import pruned
from focusing.reports.names import data_name, model_name
from focusing.reports.tables import file_name
from focusing.reports.tables.blocks import Block, blocks
from focusing.results.collect import Collection

TITLE = "Connections of each neuron"
BINS = 20
Counts = dict[tuple[str, float], list[int]]
"""Layer and threshold -> number of connections of each neuron of each run."""


def connection_charts(collection: Collection) -> Drawn:
    """A figure for each focused network whose pruning was measured, a panel for each layer."""
    drawn: Drawn = []
    for edition in editions(collection):
        for block in blocks(edition.runs):
            for model, runs in block.models.items():
                counts: Counts = {}
                found = pruned(runs)
                for each in found:
                    for level in each.get("connections") or []:
                        for layer, kept in level["layers"].items():
                            counts.setdefault((layer, level["threshold"]), []).extend(kept)
                if counts:
                    drawn.append(_chart(edition, block, model, counts, len(found)))
    return drawn or [missing(TITLE, "sparsity")]


def _chart(edition: Edition, block: Block, model: str, counts: Counts, runs: int) -> Chart:
    own = () if edition.experiment == "sparsity" else (edition.experiment,)
    several = len({run.data for run in edition.runs}) > 1 or block.options
    what = [block.data] if several else []
    return Chart(
        file_name("connections", *own, edition.size, edition.variant, *what, *block.options, model),
        f"{TITLE} {edition.title}",
        f"{data_name(block.data)} ({block.source}), {model_name(model)}, the weights after the "
        f"last epoch, {run_count([runs])}. Histograms over the neurons of "
        "each focused layer of connections with phi of at least t.",
        tuple(_rows(counts)),
        partial(_draw, counts),
        edition.tags(data=block.data, model=model),
    )


def _edges(counts: Counts, layer: str) -> Any:
    most = max(max(kept) for (name, _), kept in counts.items() if name == layer)
    return np.linspace(0, max(most, 1), BINS + 1)


def _rows(counts: Counts) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    for (layer, threshold), kept in counts.items():
        edges = _edges(counts, layer)
        for low, high, number in zip(
            edges[:-1], edges[1:], np.histogram(kept, edges)[0], strict=True
        ):
            about = {"layer": layer, "threshold": threshold, "median": float(np.median(kept))}
            rows.append({**about, "low": float(low), "high": float(high), "neurons": int(number)})
    return rows


def _draw(counts: Counts) -> Figure:
    layers = list(dict.fromkeys(layer for layer, _ in counts))
    with figure_style():
        figure, grid, columns = panels(len(layers), 1.9, most=2)
        for place, (axes, layer) in enumerate(zip(grid, layers, strict=True)):
            edges, levels = _edges(counts, layer), _levels(counts, layer)
            for (_, kept), shade in zip(levels, (BLUE, ORANGE), strict=False):
                axes.hist(kept, edges, histtype="stepfilled", color=shade, alpha=0.3)
                axes.hist(kept, edges, histtype="step", color=shade)
            lines = [_words(threshold, kept) for threshold, kept in levels]
            head(axes, layer)
            top = axes.get_ylim()[1]
            axes.set_ylim(0, 1.45 * top)
            for row, (text, shade) in enumerate(zip(lines, (BLUE, ORANGE), strict=False)):
                axes.text(0.98, 0.99 - 0.12 * row, text, color=shade, fontsize=6.5, ha="right",
                          va="top", transform=axes.transAxes)  # fmt: skip
            axes.set_xlabel("connections")
            if place % columns == 0:
                axes.set_ylabel("neurons")
        return figure


def _levels(counts: Counts, layer: str) -> Sequence[tuple[float, list[int]]]:
    return [(threshold, kept) for (name, threshold), kept in counts.items() if name == layer]


def _words(threshold: float, kept: Sequence[int]) -> str:
    return f"t = {threshold:g}: median {np.median(kept):.0f}"
