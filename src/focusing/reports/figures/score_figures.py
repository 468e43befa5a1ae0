"""Figures of scores: the paper's tables, all settings of an experiment, sweeps of an option."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from focusing.drawing import COLUMN_WIDTH, GREY
from focusing.reports.figures import plotting
from focusing.reports.figures.chart import (
    INTERVALS,
    MEASUREMENTS,
    PROTOCOL_TITLES,
    Chart,
    Charts,
    Edition,
    Row,
    Rows,
    editions,
    missing,
    never_run,
    protocols_to_show,
    run_count,
    table_tags,
)
from focusing.reports.figures.plotting import PAGE_WIDTH, draw_point, model_style, score_label
from focusing.reports.names import MODELS, data_name, data_order, dense_twin, model_name
from focusing.reports.paper import published_tables
from focusing.reports.tables.experiments import author_mean, limited_note
from focusing.reports.tables.files import all_tables
from focusing.reports.tables.settings import Setting, labels, settings_of, show_option, varied_note
from focusing.results.collect import Collection
from focusing.results.frame import group_by, stuck_share

MAX_NAME_LENGTH = 9
"""Characters of a name that fits below its point."""
SETTING_TITLES = {
    "topology": "Foci on a line against foci in the picture",
    "focus_functions": "Focus functions",
    "rescue": "What helps neurons that are stuck in noise",
}
MAX_SETTINGS = 40
"""Settings in a figure; the table has all."""
SETTING_HEIGHT = 0.16
"""Of a setting, in inches."""
SWEEP_TITLES = {
    "n_hidden": "Accuracy against the number of hidden neurons",
    "sigma_reg": "Accuracy against the penalty on sigma",
}
SWEEP_LABELS = {
    "model.hidden": "hidden neurons in each layer",
    "optim.sigma_l2": r"weight of the penalty on $\sigma^2$",
}
MAX_SWEEP_LINES = 6
SWEEP_HEIGHT = 1.95
"""Of a panel, in inches; its axes take about two thirds."""


def table_charts(collection: Collection) -> Charts:
    """The paper's tables as figures: ours with intervals beside the published means."""
    charts: Charts = []
    ran = set()
    for table in all_tables(collection):
        records = [row for row in table.records if row.get("table") in published_tables()]
        ran |= {row["table"] for row in records}
        for protocol in protocols_to_show(row["protocol"] for row in records) if records else ():
            rows = [row for row in records if row["protocol"] == protocol]
            charts.append(_table_chart(f"{table.name}_{protocol}", table.title, protocol, rows))
    lacking = [name for name in published_tables() if name not in ran]
    return [*charts, *(missing(published_tables()[name].title, name) for name in lacking)]


def _table_chart(name: str, title: str, protocol: str, rows: Rows) -> Chart:
    runs = run_count(row["n"] for row in rows)
    held_out = any(row["trained_on"] != "all" for row in rows)
    return Chart(
        name,
        title,
        f"{PROTOCOL_TITLES[protocol].capitalize()}, {runs} each: {INTERVALS}."
        + (" Grey bars: the paper's means." if any(map(_is_published, rows)) else "")
        + (" Of runs that kept part of the training data for validation." if held_out else ""),
        rows,
        partial(_draw_table, rows),
        {"experiment": rows[0]["table"], **table_tags(rows), "protocol": protocol},
    )


def _is_published(row: Row) -> bool:
    """There is a published number that the row may be compared with."""
    return row["minus_published"] is not None


def _draw_table(rows: Rows) -> Figure:
    key = operator.itemgetter("data", "source", "options")
    places = list(group_by(rows, key).values())
    panels = plotting.data_panels([points[0] for points in places], 1.6)
    for number, (axes, points) in enumerate(zip(panels.axes, places, strict=True)):
        _draw_table_panel(axes, points)
        if number % panels.columns == 0 or points[0]["unit"] != rows[0]["unit"]:
            axes.set_ylabel(score_label(points[0]["unit"]))
    if any(map(_is_published, rows)):
        bar = plotting.legend_entry("paper", GREY, "-", lw=2.5, alpha=0.5)
        panels.figure.legend(handles=[bar], loc="outside upper right")
    return panels.figure


def _draw_table_panel(axes: Axes, rows: Rows) -> None:
    for place, row in enumerate(rows):
        if _is_published(row):
            axes.plot([place - 0.3, place + 0.3], [row["published_mean"]] * 2, color=GREY, lw=2.5,
                      alpha=0.5, solid_capstyle="butt")  # fmt: skip
        draw_point(axes, place, row["mean"], row["low"], row["high"],
                   style=model_style(row["model"]))  # fmt: skip
    names = [model_name(row["model"]) for row in rows]
    crowded = len(names) > 2 or max(map(len, names)) > MAX_NAME_LENGTH
    turned: dict[str, Any] = (
        {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    )
    axes.set_xticks(range(len(names)), names, fontsize=6.5, **turned)
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.grid(axis="y", color="0.92", lw=0.5)


def setting_charts(collection: Collection) -> Charts:
    """All settings of an experiment below each other, unless it is a sweep of one number."""
    charts: Charts = []
    for edition in editions(collection):
        settings = settings_of(edition.runs)
        places = {setting.data for setting in settings}
        if (
            edition.experiment not in (*published_tables(), *MEASUREMENTS)
            and len(places) < len(settings) <= MAX_SETTINGS
            and swept_option(settings) is None
        ):
            title = SETTING_TITLES.get(edition.experiment, "Scores of all settings")
            charts += _score_charts(edition, settings, title, _setting_row, _setting_caption,
                                    _draw_settings)  # fmt: skip
    return [*charts, *never_run(collection, SETTING_TITLES)]


def _score_charts(
    edition: Edition,
    settings: Sequence[Setting],
    title: str,
    columns: Callable[[Setting, str], Row],
    caption: Callable[[Sequence[Setting], Rows, str], str],
    draw: Callable[[Sequence[Setting], Rows, str], Figure],
) -> list[Chart]:
    """A figure of settings for every protocol.

    ``columns`` are those of a setting besides its options; ``caption`` and ``draw`` take settings,
    their rows and protocol.
    """
    charts = []
    for protocol in protocols_to_show(name for setting in settings for name in setting.scores):
        scored = [setting for setting in settings if protocol in setting.scores]
        rows = [
            {
                **edition.tags(),
                **setting.about(),
                "protocol": protocol,
                **columns(setting, protocol),
            }
            for setting in scored
        ]
        charts.append(
            edition.chart(
                (edition.experiment, protocol),
                title,
                caption(scored, rows, protocol),
                rows,
                partial(draw, scored, rows, protocol),
                protocol=protocol,
            )
        )
    return charts


def _unit(setting: Setting) -> str:
    return "mae" if setting.runs[0].metric == "mae" else "percent"


def _setting_row(setting: Setting, protocol: str) -> Row:
    return {
        **setting.scores[protocol].record(),
        "runs": " ".join(f"{v:.6g}" for v in setting.scores[protocol].values.values()),
        "stuck_percent": " ".join(f"{share:.4g}" for share in _stuck_shares(setting)),
    }


def _stuck_shares(setting: Setting) -> list[float]:
    """Percent of the neurons with trained foci that were stuck at the end of the runs."""
    return [share for run in setting.runs if (share := stuck_share(run)) is not None]


def _setting_caption(settings: Sequence[Setting], rows: Rows, protocol: str) -> str:
    counts = [row["n"] for row in rows]
    sentences = [f"{PROTOCOL_TITLES[protocol].capitalize()}, {run_count(counts)} each."]
    if max(counts) > 1:
        sentences.append(f"Filled: {INTERVALS}; small and pale: single runs.")
    if any(map(any, map(_stuck_shares, settings))):
        sentences.append("Stuck: neurons that went nowhere and see nothing, means and single runs.")
    return " ".join([*sentences, *varied_note(settings), *limited_note(settings)])


def _draw_settings(settings: Sequence[Setting], rows: Rows, protocol: str) -> Figure:
    places = sorted({setting.data for setting in settings}, key=lambda place: data_order(place[0]))
    names = labels(settings)
    distinct = list(dict.fromkeys(names))
    stuck = len(places) == 1 and any(map(any, map(_stuck_shares, settings)))
    count = len(places) + stuck
    width = min(PAGE_WIDTH, 1.6 + 1.7 * count) if count > 1 else COLUMN_WIDTH
    figure = Figure((width, 0.75 + SETTING_HEIGHT * len(distinct)), layout="constrained")
    grid = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for name, setting, row in zip(names, settings, rows, strict=True):
        y = distinct.index(name)
        axes = grid[places.index(setting.data)]
        values = list(setting.scores[protocol].values.values())
        _draw_runs(axes, y, values, setting.model, row["low"], row["high"])
        axes.set_xlabel(score_label(_unit(setting)))
        if stuck:
            _draw_runs(grid[-1], y, _stuck_shares(setting), setting.model)
    for place, axes in zip(places, grid, strict=False):
        plotting.panel_title(axes, data_name(place[0]), place[1])
    if stuck:
        grid[-1].set(xlabel="stuck neurons (%)", xlim=(-4, 104))
    for axes in grid:
        axes.grid(axis="x", color="0.9", lw=0.5)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    plotting.label_rows(grid[0], distinct)
    return figure


def _draw_runs(
    axes: Axes,
    y: float,
    values: Sequence[float],
    model: str,
    low: float | None = None,
    high: float | None = None,
) -> None:
    """The mean of runs with its interval, and below it the single runs."""
    style = model_style(model)
    if len(values) > 1:
        below = np.full(len(values), y + 0.22)
        axes.plot(values, below, ".", color=style[0], ms=3, alpha=0.4, mew=0)
    if values:
        draw_point(axes, float(np.mean(values)), y, low, high, style=style, size=3.5,
                   horizontal=True)  # fmt: skip


def sweep_charts(collection: Collection) -> Charts:
    """Score against an option that was swept: width of the layers, penalty on sigma, others."""
    charts: Charts = []
    for edition in editions(collection):
        settings = settings_of(edition.runs)
        option = swept_option(settings)
        if option is not None:
            title = SWEEP_TITLES.get(edition.experiment, f"Score against {option}")
            charts += _score_charts(edition, settings, title, partial(_sweep_row, option),
                                    _sweep_caption, partial(_draw_sweep, option))  # fmt: skip
    return [*charts, *never_run(collection, SWEEP_TITLES)]


def swept_option(settings: Sequence[Setting]) -> str | None:
    """The option whose values make an x axis: a number, or layers of equal width.

    One that is known, or the only one: of several none is more the subject than the others.
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
    """A number as it is, layers by their width."""
    if isinstance(value, list) and value and value.count(value[0]) == len(value):
        value = value[0]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number else None


def _sweep_panel(setting: Setting) -> tuple[int, tuple[int, str], tuple[str, str]]:
    """Kinds of networks apart, as in the paper: their accuracies have scales of their own."""
    kind = list(MODELS).index(dense_twin(setting.model))
    return kind, data_order(setting.data[0]), setting.data


def _sweep_line(setting: Setting, option: str) -> tuple[Any, ...]:
    """What the points of a line have in common: data, and the name of the line."""
    others = (
        f"{name.rpartition('.')[2]}={show_option(value)}"
        for name, value in setting.values.items()
        if name != option and value is not None
    )
    return setting.data, setting.model, ", ".join([model_name(setting.model), *others])


def _sweep_row(option: str, setting: Setting, protocol: str) -> Row:
    score = setting.scores[protocol].record()
    author = author_mean(setting) if option == "model.hidden" else None
    return {"x": _number(setting.values[option]), **score, "author": author}


def _sweep_caption(settings: Sequence[Setting], rows: Rows, protocol: str) -> str:
    models = ", ".join(dict.fromkeys(model_name(setting.model) for setting in settings))
    counts = [row["n"] for row in rows]
    sentences = [f"{models}: {PROTOCOL_TITLES[protocol]}, {run_count(counts)} a point."]
    sentences.append(
        "Points: means; whiskers: 95 % intervals of the mean (Student's t; bootstrap from 20 "
        "runs on)."
        if max(counts) > 1
        else "A single run has no interval."
    )
    if any(row["author"] is not None for row in rows):
        sentences.append("Grey crosses: means of five repeats in the author's scripts.")
    if any(setting.scores[protocol].mark for setting in settings):
        sentences.append("Of runs that kept part of the training data for validation.")
    return " ".join([*sentences, *limited_note(settings)])


def _draw_sweep(option: str, settings: Sequence[Setting], rows: Rows, protocol: str) -> Figure:
    points = list(zip(settings, rows, strict=True))
    groups = group_by(points, lambda point: _sweep_panel(point[0]))
    panels = plotting.small_multiples(len(groups), SWEEP_HEIGHT, sharex=True)
    several = len({_sweep_line(setting, option)[1:] for setting in settings}) > 1
    for place, (axes, key) in enumerate(zip(panels.axes, sorted(groups), strict=True)):
        lines = group_by(groups[key], lambda point: _sweep_line(point[0], option))
        names = [
            _draw_line(axes, [row for _, row in line], name) for (*_, name), line in lines.items()
        ]
        _scale_sweep(axes, sorted({row["x"] for _, row in groups[key]}))
        first = groups[key][0][0]
        alone = several and len(names) == 1
        title = ", ".join([data_name(first.data[0]), *([names[0][2]] if alone else [])])
        plotting.panel_title(axes, title, first.data[1])
        if place % panels.columns == 0:
            axes.set_ylabel(score_label(_unit(first)))
        if several and not alone:
            plotting.end_labels(axes, names, 72 * SWEEP_HEIGHT * 0.6)
        axes.margins(x=0.08)
    panels.figure.supxlabel(SWEEP_LABELS.get(option, option), fontsize=8)
    return panels.figure


def _draw_line(axes: Axes, rows: Rows, name: str) -> tuple[float, float, str, str]:
    """Draw a line of a sweep; returns where its name goes, the name and its colour."""
    style = model_style(rows[0]["model"])
    ordered = sorted(rows, key=lambda row: row["x"])
    axes.plot([r["x"] for r in ordered], [r["mean"] for r in ordered], color=style[0], lw=1)
    for row in rows:
        draw_point(axes, row["x"], row["mean"], row["low"], row["high"], style=style)
    for row in rows:
        if row["author"] is not None:
            axes.plot(row["x"], row["author"], "x", color=GREY, ms=3.5, mew=0.7, zorder=1)
    return ordered[-1]["x"], ordered[-1]["mean"], name, style[0]


def _scale_sweep(axes: Axes, values: Sequence[float]) -> None:
    if values[0] > 0 and values[-1] / values[0] >= 8:
        axes.set_xscale("log")
        if values[-1] / values[0] < 1e3:  # few widths: a tick for every one
            axes.set_xticks(values)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        else:
            low, high = (round(math.log10(value)) for value in (values[0], values[-1]))
            axes.set_xticks([10.0**power for power in (low, (low + high) // 2, high)])
        axes.xaxis.set_minor_locator(NullLocator())
