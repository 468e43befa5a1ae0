"""Figures of curves: losses over epochs, and scores over a swept option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from focusing.drawing import GREY
from focusing.reports.figures import plotting
from focusing.reports.figures.chart import (
    MEASUREMENT_EXPERIMENTS,
    PROTOCOL_TITLES,
    Charts,
    Row,
    Rows,
    Runs,
    chart,
    count_range,
    protocols_to_show,
    run_count,
)
from focusing.reports.figures.plotting import model_style, score_label
from focusing.reports.names import (
    MODELS,
    data_name,
    data_order,
    dense_twin,
    label_words,
    model_name,
    option_words,
)
from focusing.reports.paper import published_tables
from focusing.reports.plans import show_option
from focusing.reports.settings import Edition, Setting
from focusing.reports.tables.experiments import author_mean, limited_note
from focusing.results.collect import Run
from focusing.results.frame import group_by

COMPARED_MODELS = ("focus_s", "cnn_focus", "vgg_focus", "fasttext_focus")
LOSS_TITLES = {
    "table2_simple": "Losses of simple networks",
    "table2_cnn": "Losses of convolutional networks",
    "table4_other": "Losses on other data",
}
SPLIT_LINES = {"train": ":", "val": "-", "test": "-"}
SPLIT_NAMES = {"val": "validation split", "test": "test data, which chose the paper's epoch"}
Pair = tuple[Setting, Setting]
"""A focused network and its dense twin."""
SWEEP_TITLES = {
    "n_hidden": "Accuracy against the number of hidden neurons",
    "sigma_reg": "Accuracy against the penalty on sigma",
}
SWEEP_LABELS = {
    "model.hidden": "hidden neurons in each layer",
    "optim.sigma_l2": r"weight of the penalty on $\sigma^2$",
    "trainer.max_epochs": "epochs",
}
MAX_SWEEP_LINES = 6
SWEEP_HEIGHT = 1.95
"""Height of a panel in inches; its axes take about two thirds of it."""


def loss_charts(runs: Runs) -> Charts:
    """Loss over epochs, for editions with a dense and a focused network on the same data."""
    for edition in runs.editions:
        if edition.experiment in MEASUREMENT_EXPERIMENTS:
            continue
        pairs = [
            (block[model], block[dense_twin(model)])
            for _, block in sorted(edition.blocks.items(), key=lambda item: data_order(item[0][0]))
            for model in COMPARED_MODELS
            if {model, dense_twin(model)} <= block.keys()
        ]
        longest = _longest(pairs)
        rows = [row for panel, pair in enumerate(longest) for row in _loss_rows(panel, *pair)]
        if rows:
            left_out = [focused for focused, dense in pairs if (focused, dense) not in longest]
            yield chart(
                edition, ("losses",), "Loss of the dense and the focused network",
                _loss_caption(rows, left_out), rows, partial(_draw_losses, rows),
            )  # fmt: skip


def _longest(pairs: Sequence[Pair]) -> list[Pair]:
    """The longest training of every network on every data set.

    Of several equally long ones it is the one with the paper's settings, or the experiment's own
    options, and the most runs; or none.
    """
    longest: list[Pair] = []
    groups = group_by(pairs, lambda pair: (pair[0].data, pair[0].source, pair[0].model))
    for group in groups.values():
        epochs = max(focused.epochs for focused, _ in group)
        last = [pair for pair in group if pair[0].epochs == epochs]
        own = [pair for pair in last if pair[0].as_published or not pair[0].overrides]
        most = sorted(own, key=lambda pair: -min(len(setting.runs) for setting in pair))
        longest += last if len(last) == 1 else most[:1]
    return longest


def _loss_caption(rows: Rows, left_out: Sequence[Setting]) -> str:
    counts = sorted({row["n"] for row in rows})
    runs = "1 run each" if counts == [1] else f"means of {run_count(counts)}"
    splits = {row["split"] for row in rows} - {"train"} or {"test"}
    caption = (
        f"Cross entropy (mean squared error for regression), {runs}. Dotted: training, in training "
        f"mode; solid: {' or '.join(SPLIT_NAMES[split] for split in sorted(splits, reverse=True))}"
        f"{', as each panel says' if len(splits) > 1 else ''}."
    )
    if counts[-1] > 1:
        caption += " Bands: from the lowest to the highest run."
    if left_out:
        names = ", ".join(map(_training_words, left_out))
        caption += f" The longest training on each data set is drawn; left out: {names}."
    return caption


def _training_words(setting: Setting) -> str:
    options = [o for o in setting.overrides if not o.startswith("trainer.max_epochs=")]
    training = f"{data_name(setting.data)} of {setting.epochs} epochs"
    return " ".join([training, *map(option_words, options)])


def _loss_rows(panel: int, focused: Setting, dense: Setting) -> list[Row]:
    """Mean, lowest and highest loss of both networks at every epoch."""
    models, check = comparable_runs({setting.model: setting.runs for setting in (dense, focused)})
    about = focused.block_columns()
    rows: list[Row] = []
    for model, runs in models.items():
        series = [run.series() for run in runs]
        for split in ("train", check):
            losses = [one[f"{split}/loss"] for one in series if one.get(f"{split}/loss")]
            for epoch, at in enumerate(zip(*losses, strict=False)):
                values = np.array(at, dtype=float)
                rows.append(
                    {"panel": panel, **about, "model": model, "split": split, "epoch": epoch + 1}
                    | {"n": len(values), "mean": float(values.mean())}
                    | {"lowest": float(values.min()), "highest": float(values.max())}
                )
    return rows


def comparable_runs(models: Mapping[str, Sequence[Run]]) -> tuple[dict[str, list[Run]], str]:
    """Runs of all models to draw in a panel, and the split to show besides training.

    Runs with a validation split, if all models have as many of them as of those without; otherwise
    preferably those without.
    """
    held_out = {name: [run for run in runs if run.holdout] for name, runs in models.items()}
    whole = {name: [run for run in runs if not run.holdout] for name, runs in models.items()}
    if min(map(len, held_out.values())) >= max(1, *map(len, whole.values())):
        every = [run for runs in held_out.values() for run in runs]
        return held_out, "val" if all("val/loss" in run.series() for run in every) else "test"
    return {name: whole[name] or list(runs) for name, runs in models.items()}, "test"


def _draw_losses(rows: Rows) -> Figure:
    groups = list(group_by(rows, lambda row: row["panel"]).values())
    solid = [
        "validation" if any(row["split"] == "val" for row in points) else "test"
        for points in groups
    ]
    differ = len(set(solid)) > 1
    notes = [
        f"n = {count_range(row['n'] for row in points)}" + (f", solid: {split}" if differ else "")
        for points, split in zip(groups, solid, strict=True)
    ]
    panels = plotting.data_panels([points[0] for points in groups], 1.65, notes)
    for axes, points in zip(panels.axes, groups, strict=True):
        _draw_loss_panel(axes, points)
    panels.label("epochs", "loss")
    models = dict.fromkeys(row["model"] for row in rows)
    entries = [
        *(plotting.legend_entry(model_name(name), model_style(name)[0], "-") for name in models),
        plotting.legend_entry("training", GREY, ":"),
        plotting.legend_entry("see panel" if differ else solid[0], GREY, "-"),
    ]
    plotting.legend_above(panels.figure, entries, fontsize=6.5)
    return panels.figure


def _draw_loss_panel(axes: Axes, rows: Rows) -> None:
    for (model, split), points in group_by(rows, lambda row: (row["model"], row["split"])).items():
        plotting.draw_means(axes, points, "epoch", "mean", colour=model_style(model)[0],
                            line=SPLIT_LINES[split])  # fmt: skip
    positive = [row["lowest"] for row in rows if row["lowest"] > 0]
    if positive and max(row["highest"] for row in rows) / min(positive) > 10:
        plotting.log_axis(axes)
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    if max(row["epoch"] for row in rows) == 1:
        axes.set_xlim(0, 2)


def sweep_charts(runs: Runs) -> Charts:
    """Score over a swept option: width of the layers, penalty on sigma, or any other number."""
    for edition in runs.editions:
        option = swept_option(edition.settings)
        if option is None or edition.experiment in published_tables():
            continue
        title = SWEEP_TITLES.get(edition.experiment, f"Score against {_axis_label(option)}")
        values = {setting: _number(setting.values[option]) for setting in edition.settings}
        for protocol, scored in score_rows(edition, x=values).items():
            for setting, row in scored.items():
                row["author"] = author_mean(setting) if option == "model.hidden" else None
            yield chart(
                edition, (edition.experiment, protocol), title, _sweep_caption(scored, protocol),
                list(scored.values()), partial(_draw_sweep, option, scored, protocol),
                protocol=protocol,
            )  # fmt: skip


def score_rows(
    edition: Edition, **columns: Mapping[Setting, Any]
) -> dict[str, dict[Setting, dict[str, Any]]]:
    """CSV rows of the scores of an edition, by protocol and setting.

    ``columns`` are further columns: name -> value by setting.
    """
    settings = edition.settings
    protocols = protocols_to_show(name for setting in settings for name in setting.scores)
    return {
        protocol: {
            setting: {
                **edition.columns,
                **setting.columns(),
                "protocol": protocol,
                **{name: values[setting] for name, values in columns.items()},
                **setting.scores[protocol].record(),
            }
            for setting in settings
            if protocol in setting.scores
        }
        for protocol in protocols
    }


def swept_option(settings: Sequence[Setting]) -> str | None:
    """The option to use as x axis: a number, or the width of equal layers; None if there is none.

    It is one of ``SWEEP_LABELS``, or the only option that differs.
    """
    options = list(settings[0].values) if settings else []
    for option in options:
        if option not in SWEEP_LABELS and len(options) > 1:
            continue
        values = {_number(setting.values[option]) for setting in settings}
        lines = {_sweep_line(setting, option) for setting in settings}
        panels = {_sweep_panel(setting) for setting in settings}
        if None not in values and len(values) > 1 and len(lines) <= MAX_SWEEP_LINES * len(panels):
            return option
    return None


def _number(value: Any) -> float | None:
    """A number, or the common width of a list of layers; None for anything else."""
    if isinstance(value, list) and value and value.count(value[0]) == len(value):
        value = value[0]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number else None


def _sweep_panel(setting: Setting) -> tuple[int, tuple[int, str], str]:
    """Key of a panel. Kinds of networks have panels of their own: their scores differ in scale."""
    kind = list(MODELS).index(dense_twin(setting.model))
    return kind, data_order(setting.data), setting.source


def _sweep_line(setting: Setting, option: str) -> tuple[str, ...]:
    """Key of a line: data, source, model, and the name of the line."""
    others = (
        f"{name}={show_option(value)}"
        for name, value in setting.values.items()
        if name != option and value is not None
    )
    name = ", ".join([model_name(setting.model), *others])
    return setting.data, setting.source, setting.model, name


def _sweep_caption(scored: Mapping[Setting, Row], protocol: str) -> str:
    models = ", ".join(dict.fromkeys(model_name(setting.model) for setting in scored))
    counts = [row["n"] for row in scored.values()]
    sentences = [f"{models}: {PROTOCOL_TITLES[protocol]}, {run_count(counts)} a point."]
    sentences.append(
        "Points: means; whiskers: 95 % intervals of the mean (Student's t; bootstrap from 20 "
        "runs on)."
        if max(counts) > 1
        else "A single run has no interval."
    )
    if any(row["author"] is not None for row in scored.values()):
        sentences.append("Grey crosses: means of five repeats in the author's scripts.")
    if any(setting.scores[protocol].mark for setting in scored):
        sentences.append("Of runs that kept part of the training data for validation.")
    return " ".join([*sentences, *limited_note(list(scored))])


def _axis_label(option: str) -> str:
    return SWEEP_LABELS.get(option, option.rpartition(".")[2].replace("_", " "))


def _draw_sweep(option: str, scored: Mapping[Setting, Row], protocol: str) -> Figure:
    groups = group_by(scored, _sweep_panel)
    panels = plotting.small_multiples(len(groups), SWEEP_HEIGHT, sharex=True)
    several = len({_sweep_line(setting, option)[2:] for setting in scored}) > 1
    for place, (axes, key) in enumerate(zip(panels.axes, sorted(groups), strict=True)):
        rows = {setting: scored[setting] for setting in groups[key]}
        lines = group_by(rows, lambda setting: _sweep_line(setting, option))
        names = [
            _draw_line(axes, {setting: rows[setting] for setting in line}, name, protocol)
            for (*_, name), line in lines.items()
        ]
        _scale_sweep(axes, sorted({row["x"] for row in rows.values()}))
        first = groups[key][0]
        alone = several and len(names) == 1
        title = ", ".join([data_name(first.data), *([names[0][2]] if alone else [])])
        counts = count_range(row["n"] for row in rows.values())
        plotting.panel_title(axes, title, f"{first.source}, n = {counts}")
        if place % panels.columns == 0:
            axes.set_ylabel(score_label(first.unit.name))
        if several and not alone:
            plotting.end_labels(axes, names, 72 * SWEEP_HEIGHT * 0.6)
        axes.margins(x=0.08)
    panels.figure.supxlabel(_axis_label(option), fontsize=8)
    return panels.figure


def _draw_line(
    axes: Axes, points: Mapping[Setting, Row], name: str, protocol: str
) -> tuple[float, float, str, str]:
    """Draw a line of a sweep; returns the place of its name, the name and its colour."""
    ordered = sorted(points.items(), key=lambda point: point[1]["x"])
    table = pd.DataFrame([row for _, row in ordered])
    x, mean, low, high = (table[key].to_numpy(float) for key in ("x", "mean", "low", "high"))
    colour, marker = model_style(ordered[0][0].model)
    axes.errorbar(x, mean, np.maximum([mean - low, high - mean], 0), color=colour, marker=marker,
                  ms=4, lw=1, elinewidth=0.9, capsize=2, capthick=0.9)  # fmt: skip
    for setting, row in ordered:
        runs = list(setting.scores[protocol].values.values())
        if row["low"] is None and len(runs) > 1:  # too few for an interval
            axes.plot([row["x"]] * len(runs), runs, ".", color=colour, ms=3, alpha=0.6, mew=0)
        if row["author"] is not None:
            axes.plot(row["x"], row["author"], "x", color=GREY, ms=3.5, mew=0.7, zorder=1)
    return float(x[-1]), float(mean[-1]), label_words(name), colour


def _scale_sweep(axes: Axes, values: Sequence[float]) -> None:
    """Make the x axis logarithmic for a wide range, with ticks at the values."""
    if values[0] <= 0 or values[-1] / values[0] < 8:
        return
    axes.set_xscale("log")
    labelled = plotting.spaced_ticks(values)
    axes.set_xticks(labelled)
    axes.set_xticks([value for value in values if value not in labelled], minor=True)
    if values[-1] / values[0] < 1e3:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
