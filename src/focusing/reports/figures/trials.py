"""The random trials of Table 1: each a point, the dense network across, the focused one up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from focusing.drawing import COLUMN_WIDTH, GREY, figure_style
from focusing.reports.figures.chart import Chart, Drawn, missing
from focusing.reports.figures.chart_layout import BLUE, GREEN, ORANGE, WIDE, head
from focusing.reports.figures.chart_runs import MEANING, shown_protocols
from focusing.reports.names import PROTOCOLS, edition, model_name
from focusing.reports.tables import between, file_name, signed
from focusing.reports.tables.blocks import TRIALS_EXPERIMENT, Block, blocks
from focusing.reports.tables.trial_tables import BASE, noise_level, trial_pairs
from focusing.results.collect import Collection
from focusing.results.frame import group_by, replicate_key
from focusing.results.stats import mean_interval

TITLE = "Random trials, focused against dense"
COLOURS = {"0": BLUE, "0.5": GREEN, "1": ORANGE}
NAMES = {"0": "no noise", "0.5": "noise 0.5", "1": "noise 1"}
"""Columns of noise for each informative one -> what a panel is called."""


def trial_charts(collection: Collection) -> Drawn:
    """A scatter for each experiment of trials, size, variant, focused model and protocol."""
    trials = [run for run in collection.runs if run.trial is not None]
    drawn: Drawn = []
    groups = group_by(trials, lambda run: (run.experiment, run.size, run.variant))
    for key in sorted(groups, key=lambda key: (key[0], *edition(*key[1:]))):
        for place, block in enumerate(blocks(groups[key])):
            for model in sorted(set(block.models) - {BASE}):
                drawn += _charts(key, place, block, model)
    if not any(isinstance(each, Chart) for each in drawn):
        drawn.append(missing(TITLE, TRIALS_EXPERIMENT))
    return drawn


def _charts(key: tuple[str, str, str], place: int, block: Block, model: str) -> list[Chart]:
    given = {name for runs in block.models.values() for run in runs for name in run.scores}
    charts = []
    for protocol in shown_protocols(name for name in PROTOCOLS if name in given):
        rows = _pairs(block, model, protocol)
        if not rows:
            continue
        experiment, size, variant = key
        number = [str(place + 1)] if place else []
        options = "".join(f", {each}" for each in block.options)
        charts.append(
            Chart(
                file_name("trials", *key, *number, model, protocol),
                f"{TITLE} ({experiment}, size={size}, variant={variant}{options})",
                f"Test accuracy of {model_name(model)} and {model_name(BASE)} on the same data "
                f"from the same seed, {MEANING[protocol]}, {len(rows)} pairs. Above the diagonal "
                "the focused network is better. Noise: columns of noise for each informative "
                "one. Above each panel: mean difference, focused − dense, in points with its 95 % "
                "interval (bootstrap; Student's t below 20 pairs).",
                tuple(rows),
                partial(_draw, rows, model),
                {
                    "experiment": experiment,
                    "size": size,
                    "variant": variant,
                    "data": block.data,
                    "model": f"{BASE} {model}",
                    "protocol": protocol,
                },
            )
        )
    return charts


def _pairs(block: Block, model: str, protocol: str) -> list[dict[str, Any]]:
    pairs = trial_pairs(block, model, protocol)
    runs = {replicate_key(run): run for run in block.models[model]}
    rows = [
        {
            "trial": runs[key].trial,
            "seed": runs[key].seed,
            "noise": noise_level(runs[key]),
            "position": runs[key].config["data"]["noise_position"],
            "protocol": protocol,
            "dense": dense,
            "focused": focused,
            "difference": focused - dense,
        }
        for key, (focused, dense) in pairs.items()
    ]
    return sorted(rows, key=lambda row: (row["trial"], row["seed"]))


def _draw(rows: Sequence[Mapping[str, Any]], model: str) -> Figure:
    levels = [level for level in COLOURS if any(row["noise"] == level for row in rows)]
    with figure_style():
        figure = Figure((WIDE if len(levels) > 1 else COLUMN_WIDTH, 2.7), layout="constrained")
        grid = figure.subplots(1, len(levels), sharex=True, sharey=True, squeeze=False)[0]
        low, high = _limits(rows)
        for axes, level in zip(grid, levels, strict=True):
            some = [row for row in rows if row["noise"] == level]
            gaps = [row["difference"] for row in some]
            x, y = ([row[name] for row in some] for name in ("dense", "focused"))
            axes.plot([low, high], [low, high], color=GREY, lw=0.8, zorder=1)
            axes.plot(x, y, "o", color=COLOURS[level], ms=2.6, mew=0, alpha=0.6)
            mean = f"{signed(float(np.mean(gaps)))} {between(mean_interval(gaps), sign=True)}"
            head(axes, NAMES[level], f"{mean}, n={len(gaps)}")
            axes.set_xlabel(f"test accuracy of {model_name(BASE)} (%)")
            axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.yaxis.set_major_locator(MaxNLocator(5))
        grid[0].set_ylabel(f"test accuracy of {model_name(model)} (%)")
        return figure


def _limits(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    values = [row[name] for row in rows for name in ("dense", "focused")]
    margin = 0.03 * (max(values) - min(values)) + 0.5
    return max(0.0, min(values) - margin), min(100.5, max(values) + margin)
