"""Accuracy with fewer and fewer connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from focusing.drawing import COLUMN_WIDTH, GREY, figure_style
from focusing.reports.figures.chart import Chart, Drawn, missing
from focusing.reports.figures.chart_layout import look
from focusing.reports.figures.chart_runs import Edition, editions, run_count
from focusing.reports.names import data_name, dense_twin, model_name
from focusing.reports.tables import file_name
from focusing.reports.tables.blocks import Block, blocks
from focusing.results.collect import Collection, Run

TITLE = "Accuracy against sparsity"
ROOM = 0.11
"""Part of the upper axis that a threshold needs."""
SHARES = (0, 50, 75, 90, 95, 98, 99)
FULL = 99.9
Rows = list[Mapping[str, Any]]


def sparsity_charts(collection: Collection) -> Drawn:
    """A figure for each focused network whose pruning was measured, its dense twin beside it."""
    drawn: Drawn = []
    for edition in editions(collection):
        for block in blocks(edition.runs):
            for model in block.models:
                rows = _curve(block.models[model], model, "curve")
                if rows:
                    drawn.append(_chart(edition, block, model, rows))
    return drawn or [missing(TITLE, "sparsity")]


def pruned(runs: Sequence[Run]) -> list[Mapping[str, Any]]:
    """What pruning measured in some runs, without those in which it failed."""
    found = [run.measured.get("pruning") or {} for run in runs]
    return [each for each in found if "error" not in each and each]


def _curve(runs: Sequence[Run], model: str, name: str) -> Rows:
    """Means over runs, point by point: of equal thresholds, or of equal sparsity asked for."""
    curves = [each[name] for each in pruned(runs) if each.get(name)]
    rows: Rows = []
    for points in zip(*curves, strict=False):
        short = "acc" if "acc" in points[0] else "mae"
        scores = [point[short] * (100 if short == "acc" else 1) for point in points]
        rows.append(
            {
                "model": model,
                "rule": "focus" if name == "curve" else "magnitude",
                "threshold": points[0].get("threshold"),
                "sparsity": 100 * float(np.mean([point["sparsity"] for point in points])),
                "unit": "percent" if short == "acc" else short,
                "score": float(np.mean(scores)),
                "lowest": min(scores),
                "highest": max(scores),
                "n": len(points),
            }
        )
    return rows


def _chart(edition: Edition, block: Block, model: str, curve: Rows) -> Chart:
    dense = dense_twin(model)
    rows = [*curve, *_curve(block.models[model], model, "magnitude")]
    rows += _curve(block.models.get(dense, []), dense, "magnitude")
    number = [data for data in {run.data for run in edition.runs} if data != block.data]
    twin = any(row["model"] == dense for row in rows)
    caption = (
        f"{data_name(block.data)} ({block.source}), {model_name(model)}, after the last epoch, "
        f"{run_count([curve[0]['n']])}. Solid: connections with phi < t are dropped in all "
        "focused layers (threshold above); dashed: the smallest weights of the same layers are."
    )
    caption += (
        f" {model_name(dense)}: its smallest weights; dotted line: all of them kept."
        if twin
        else f" {model_name(dense)} was not measured: add model={dense}."
    )
    what = [block.data] if number or block.options else []
    return Chart(
        file_name("sparsity", *_parts(edition), *what, *block.options, model),
        f"{TITLE} {edition.title}",
        caption + " Circle: the best of the solid line.",
        tuple(rows),
        partial(_draw, rows, block, model, dense),
        edition.tags(data=block.data, model=f"{model} {dense}" if twin else model),
    )


def _parts(edition: Edition) -> tuple[str, ...]:
    own = () if edition.experiment == "sparsity" else (edition.experiment,)
    return (*own, edition.size, edition.variant)


def _draw(rows: Rows, block: Block, model: str, dense: str) -> Figure:
    with figure_style():
        figure = Figure((COLUMN_WIDTH, 2.9), layout="constrained")
        axes = figure.subplots()
        curve = [row for row in rows if row["rule"] == "focus"]
        own = [row for row in rows if (row["rule"], row["model"]) == ("magnitude", model)]
        other = [row for row in rows if row["model"] == dense]
        colour, grey = look(model)[0], look(dense)[0]
        for some, style, shade in ((own, "--", colour), (other, "--", grey), (curve, "-", colour)):
            axes.plot(_of(some, "sparsity"), _of(some, "score"), style, color=shade)
            if some and some[0]["n"] > 1:
                band = (_of(some, "sparsity"), _of(some, "lowest"), _of(some, "highest"))
                axes.fill_between(*band, color=shade, alpha=0.15, lw=0)
        accurate = curve[0]["unit"] == "percent"
        top = max(curve, key=lambda row: row["score"] if accurate else -row["score"])
        axes.plot(top["sparsity"], top["score"], "o", mfc="none", color="k", ms=6, mew=0.8)
        if other:
            whole = min(other, key=lambda row: row["sparsity"])["score"]
            axes.axhline(whole, color=grey, ls=":", lw=0.9)
        low, high = _limits(rows, curve)
        end = min(max(_of(curve, "sparsity")) + 1, FULL)
        axes.set_xscale("function", functions=(_spread, _gather))
        axes.set_xticks([tick for tick in SHARES if tick <= end])
        axes.set(xlim=(0, end), ylim=(low, high), xlabel="connections dropped (%)")
        axes.set_ylabel("test accuracy (%)" if accurate else "test MAE")
        _threshold_axis(axes, curve)
        _names(axes, model, dense, bool(other))
        return figure


def _names(axes: Axes, model: str, dense: str, twin: bool) -> None:
    names = [
        (rf"{model_name(model)}, $\phi < t$", look(model)[0], "-"),
        (f"{model_name(model)}, smallest weights", look(model)[0], "--"),
    ]
    if twin:
        names += [
            (f"{model_name(dense)}, smallest weights", look(dense)[0], "--"),
            (f"{model_name(dense)}, all weights", look(dense)[0], ":"),
        ]
    for text, shade, line in names:
        axes.plot([], [], line, color=shade, label=text)
    figure = axes.get_figure()
    assert isinstance(figure, Figure)  # noqa: S101 - for the type checker
    figure.legend(loc="outside lower center", ncols=2, labelcolor="linecolor", fontsize=6.5,
                  handlelength=1.8, columnspacing=1.2)  # fmt: skip


def _threshold_axis(axes: Axes, curve: Rows) -> None:
    """Thresholds above the sparsities they lead to, as many as have room."""
    above = axes.twiny()
    above.set_xscale("function", functions=(_spread, _gather))
    above.spines["top"].set(visible=True, color=GREY)
    above.set_xlim(axes.get_xlim())
    whole = _spread(axes.get_xlim()[1])
    ticks: list[tuple[float, str]] = []
    for row in curve:
        if not ticks or _spread(row["sparsity"]) - _spread(ticks[-1][0]) > ROOM * whole:
            ticks.append((row["sparsity"], f"{row['threshold']:.2g}"))
    above.set_xticks([x for x, _ in ticks], [text for _, text in ticks])
    above.set_xlabel("threshold $t$ of the solid line", color=GREY)
    above.tick_params(colors=GREY)
    above.minorticks_off()


def _spread(sparsity: Any) -> Any:
    """Halving what is left is a step of equal length anywhere."""
    return -np.log2(1 - np.minimum(sparsity, FULL) / 100)


def _gather(place: Any) -> Any:
    return 100 * (1 - np.exp2(-np.asarray(place)))


def _limits(rows: Rows, curve: Rows) -> tuple[float, float]:
    """The part that matters: accuracies down to ten points below the best; all errors."""
    if curve[0]["unit"] != "percent":
        return 0.0, 1.05 * max(_of(rows, "score"))
    best = max(_of(rows, "score"))
    whole = [row["score"] for row in rows if row["sparsity"] == 0]  # must be seen, of each network
    low = min(max(min(_of(curve, "score")), best - 10), *whole, best - 0.1)
    return low - 0.12 * (best - low), best + 0.08 * (best - low)


def _of(rows: Rows, name: str) -> list[float]:
    return [row[name] for row in rows]
