"""The random trials of Table 1: each a point, the dense network across, the focused one up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from focusing.callbacks.style import COLUMN, GREY, house_style
from focusing.reports.figures.chart import Chart, Drawn, missing
from focusing.reports.figures.chart_layout import BLUE, ORANGE, YELLOW
from focusing.reports.figures.chart_runs import MEANING, shown_protocols
from focusing.reports.names import PROTOCOLS, edition, model_name
from focusing.reports.tables import between, file_name, signed
from focusing.reports.tables.cells import Block, blocks
from focusing.reports.tables.trials import BASE, EXPERIMENT, noise_level, trial_pairs
from focusing.results.collect import Collection
from focusing.results.groups import group_by, repeat, trial
from focusing.results.stats import mean_interval

TITLE = "Random trials, focused against dense"
LOOKS = {"0": (BLUE, "o"), "0.5": (YELLOW, "^"), "1": (ORANGE, "s")}
"""Columns of noise as a share of the informative ones -> colour and marker."""


def trial_charts(collection: Collection) -> Drawn:
    """A scatter for each experiment of trials, size, variant, focused model and protocol."""
    trials = [run for run in collection.runs if trial(run) is not None]
    drawn: Drawn = []
    groups = group_by(trials, lambda run: (run.experiment, run.size, run.variant))
    for key in sorted(groups, key=lambda key: (key[0], *edition(*key[1:]))):
        for place, block in enumerate(blocks(groups[key])):
            for model in sorted(set(block.models) - {BASE}):
                drawn += _charts(key, place, block, model)
    if not any(isinstance(each, Chart) for each in drawn):
        drawn.append(missing(TITLE, EXPERIMENT))
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
                "the focused network is better. Noise: columns of noise as a share of the "
                "informative ones. Differences: means with 95 % intervals (bootstrap; Student's t "
                "below 20 pairs).",
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
    runs = {repeat(run): run for run in block.models[model]}
    rows = [
        {
            "trial": trial(runs[key]),
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
    with house_style():
        figure = Figure((COLUMN, 3.3), layout="constrained")
        axes = figure.subplots()
        low, high = _limits(rows)
        axes.plot([low, high], [low, high], color=GREY, lw=0.8, zorder=1)
        lines = []
        for level, (colour, marker) in LOOKS.items():
            some = [row for row in rows if row["noise"] == level]
            if not some:
                continue
            gaps = [row["difference"] for row in some]
            x, y = ([row[name] for row in some] for name in ("dense", "focused"))
            axes.plot(x, y, marker, color=colour, ms=3.2, mew=0.5, mec="w", alpha=0.85, ls="")
            mean = f"{signed(float(np.mean(gaps)))} {between(mean_interval(gaps), sign=True)}"
            lines.append((f"noise {level}: {mean}, n={len(gaps)}", colour, marker))
        axes.set(
            xlabel=f"test accuracy of {model_name(BASE)} (%)",
            ylabel=f"test accuracy of {model_name(model)} (%)",
            xlim=(low, high),
            ylim=(low, high),
            aspect="equal",
        )
        # The labels are the legend: what they say of each colour is the finding.
        axes.set_title("focused − dense, points [95 %]", loc="left", fontsize=7, color=GREY,
                       pad=5 + 9 * len(lines))  # fmt: skip
        for place, (text, colour, marker) in enumerate(reversed(lines)):
            at: dict[str, Any] = {
                "xycoords": "axes fraction",
                "textcoords": "offset points",
                "fontsize": 7,
            }
            axes.annotate(text, (0, 1), (9, 5 + 9 * place), **at)  # yellow letters are hard to read
            axes.plot(
                0.012, 1 + (7.5 + 9 * place) / 175, marker, color=colour, ms=3.5,
                transform=axes.transAxes, clip_on=False,
            )  # fmt: skip
        return figure


def _limits(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    values = [row[name] for row in rows for name in ("dense", "focused")]
    margin = 0.03 * (max(values) - min(values)) + 0.5
    return max(0.0, min(values) - margin), min(100.5, max(values) + margin)
