"""Loss over epochs, of the dense and the focused network on each data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter

from focusing.drawing import GREY, figure_style
from focusing.reports.figures.chart import Chart, Drawn
from focusing.reports.figures.chart_layout import above, decades, head, look, panels
from focusing.reports.figures.chart_runs import (
    MEASURED,
    Edition,
    editions,
    joined,
    never_run,
    run_count,
)
from focusing.reports.names import data_name, data_order, dense_twin, model_name
from focusing.reports.tables.blocks import Block, blocks
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by

COMPARED = ("focus_s", "cnn_focus", "vgg_focus", "fasttext_focus")
EXPECTED = {
    "table2_simple": "Losses of simple networks",
    "table2_cnn": "Losses of convolutional networks",
    "table4_other": "Losses on other data",
}
LINES = {"train": ":", "val": "-", "test": "-"}
CHECKS = {"val": "validation split", "test": "test data, which chose the paper's epoch"}
Rows = list[Mapping[str, Any]]
Pair = tuple[Block, str]
"""Runs that may be compared, and which focused network of theirs is compared with the dense one."""


def loss_charts(collection: Collection) -> Drawn:
    """A figure for each experiment, size and variant with both networks on the same data."""
    drawn: Drawn = []
    for edition in editions(collection):
        pairs = [
            (block, model)
            for block in sorted(blocks(edition.runs), key=lambda block: data_order(block.data))
            for model in COMPARED
            if {model, dense_twin(model)} <= block.models.keys()
        ]
        longest = _longest(pairs)
        if longest and edition.experiment not in MEASURED:
            drawn += _charts(edition, longest, [pair for pair in pairs if pair not in longest])
    return [*drawn, *never_run(collection, EXPECTED)]


def _longest(pairs: Sequence[Pair]) -> list[Pair]:
    """The longest training of each network on each data set; none if a sweep has several.

    Of several that are as long, the one whose options are the experiment's.
    """
    longest: list[Pair] = []
    for alike in group_by(pairs, lambda pair: (pair[0].data, pair[0].source, pair[1])).values():
        most = max(map(_epochs, alike))
        last = [pair for pair in alike if _epochs(pair) == most]
        plain = [pair for pair in last if not pair[0].options]
        longest += last if len(last) == 1 else plain[:1]
    return longest


def _epochs(pair: Pair) -> int:
    block, model = pair
    trainer = block.models[model][0].config.get("trainer") or {}
    return int(trainer.get("max_epochs") or 0)


def _name(pair: Pair) -> str:
    options = [each for each in pair[0].options if not each.startswith("trainer.max_epochs=")]
    return " ".join([data_name(pair[0].data), "of", str(_epochs(pair)), "epochs", *options])


def _charts(edition: Edition, pairs: Sequence[Pair], left_out: Sequence[Pair]) -> list[Chart]:
    rows: Rows = []
    for panel, (block, model) in enumerate(pairs):
        chosen, check = compared({name: block.models[name] for name in (dense_twin(model), model)})
        for name, kept in chosen.items():
            rows += _curves(panel, block, name, kept, check)
    if not rows:
        return []
    counts = sorted({row["n"] for row in rows})
    runs = "1 run each" if counts == [1] else f"means of {run_count(counts)}"
    splits = {row["split"] for row in rows} - {"train"} or {"test"}
    caption = (
        f"Cross entropy (mean squared error for regression), {runs}. Dotted: training, in training "
        f"mode; solid: {' or '.join(CHECKS[each] for each in sorted(splits, reverse=True))}"
        f"{', as each panel says' if len(splits) > 1 else ''}."
    )
    if counts[-1] > 1:
        caption += " Bands: from the lowest to the highest run."
    if left_out:
        names = ", ".join(map(_name, left_out))
        caption += f" The longest training on each data set is drawn; left out: {names}."
    return [
        Chart(
            edition.name("losses"),
            f"Loss of the dense and the focused network {edition.title}",
            caption,
            tuple(rows),
            partial(_draw, rows, pairs),
            edition.tags(
                data=joined(block.data for block, _ in pairs),
                model=joined(row["model"] for row in rows),
            ),
        )
    ]


def compared(models: Mapping[str, Sequence[Run]]) -> tuple[dict[str, list[Run]], str]:
    """Runs of each model and the split to show of them, the same of all models of a panel.

    Those with a validation split, if all models have some; else rather those without.
    """
    held = {name: [run for run in runs if run.holdout] for name, runs in models.items()}
    if all(held.values()):
        every = [run for runs in held.values() for run in runs]
        return held, "val" if all("val/loss" in run.series() for run in every) else "test"
    whole = {name: [run for run in runs if not run.holdout] for name, runs in models.items()}
    return {name: whole[name] or list(runs) for name, runs in models.items()}, "test"


def _curves(panel: int, block: Block, model: str, runs: Sequence[Run], check: str) -> Rows:
    series = [run.series() for run in runs]
    rows: Rows = []
    for split in ("train", check):
        values = [each[f"{split}/loss"] for each in series if each.get(f"{split}/loss")]
        for epoch in range(min(map(len, values), default=0)):
            at = np.array([each[epoch] for each in values], dtype=float)
            rows.append(
                {
                    "panel": panel,
                    "data": block.data,
                    "source": block.source,
                    "options": " ".join(block.options),
                    "model": model,
                    "split": split,
                    "epoch": epoch + 1,
                    "n": len(at),
                    "mean": float(at.mean()),
                    "lowest": float(at.min()),
                    "highest": float(at.max()),
                }
            )
    return rows


def _draw(rows: Rows, pairs: Sequence[Pair]) -> Figure:
    with figure_style():
        solid = [
            _solid(row for row in rows if row["panel"] == panel) for panel in range(len(pairs))
        ]
        kinds_differ = len(set(solid)) > 1
        heads = [
            above(block.source, [*([f"solid: {check}"] * kinds_differ), *block.options])
            for (block, _), check in zip(pairs, solid, strict=True)
        ]
        figure, grid, columns = panels(len(pairs), 1.65, heads)
        for panel, (axes, (block, _)) in enumerate(zip(grid, pairs, strict=True)):
            there = [row for row in rows if row["panel"] == panel]
            for model in dict.fromkeys(row["model"] for row in there):
                for split in LINES:
                    _plot(axes, [r for r in there if (r["model"], r["split"]) == (model, split)])
            head(axes, data_name(block.data), *heads[panel])
            positive = [row["lowest"] for row in there if row["lowest"] > 0]
            if positive and max(row["highest"] for row in there) / min(positive) > 10:
                decades(axes)
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            if max(row["epoch"] for row in there) == 1:
                axes.set_xlim(0, 2)
            if panel % columns == 0:
                axes.set_ylabel("loss")
            if panel >= len(pairs) - columns:
                axes.set_xlabel("epochs")
        models = list(dict.fromkeys(row["model"] for row in rows))
        names = [model_name(m) for m in models] if len(models) == 2 else ["dense", "focused"]
        kinds = [
            Line2D([], [], color=look(m)[0], label=name)
            for m, name in zip(models[:2], names, strict=True)
        ]
        check = "see panel" if kinds_differ else _solid(rows)
        kinds += [Line2D([], [], color=GREY, linestyle=":", label="training")]
        kinds += [Line2D([], [], color=GREY, label=check)]
        figure.legend(handles=kinds, loc="outside upper right", ncols=len(kinds), fontsize=6.5,
                      handlelength=1.4, columnspacing=1.0)  # fmt: skip
        return figure


def _solid(rows: Iterable[Mapping[str, Any]]) -> str:
    """What the solid lines are of."""
    splits = {row["split"] for row in rows}
    return "validation" if "val" in splits else "test"


def _plot(axes: Axes, rows: Rows) -> None:
    if not rows:
        return
    colour, line = look(rows[0]["model"])[0], LINES[rows[0]["split"]]
    epochs, mean, low, high = (
        [row[name] for row in rows] for name in ("epoch", "mean", "lowest", "highest")
    )
    one: dict[str, Any] = {"marker": "o", "markersize": 3} if len(rows) == 1 else {}
    axes.plot(epochs, mean, line, color=colour, **one)
    if rows[0]["n"] > 1:
        axes.fill_between(epochs, low, high, color=colour, alpha=0.18, linewidth=0)
