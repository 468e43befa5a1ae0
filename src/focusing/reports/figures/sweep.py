"""Score against an option that was swept: width of the layers, penalty on sigma, your own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from focusing.drawing import GREY, figure_style
from focusing.reports.figures.chart import Chart, Drawn
from focusing.reports.figures.chart_layout import end_labels, head, look, name_of, panels, whisker
from focusing.reports.figures.chart_runs import (
    MEANING,
    Edition,
    editions,
    joined,
    never_run,
    run_count,
    shown_protocols,
)
from focusing.reports.names import MODELS, data_name, data_order, dense_twin, model_name
from focusing.reports.tables.experiments import author_mean, limited_note
from focusing.reports.tables.settings import Setting, settings_of, show_option
from focusing.results.collect import Collection
from focusing.results.frame import group_by

EXPECTED = {
    "n_hidden": "Accuracy against the number of hidden neurons",
    "sigma_reg": "Accuracy against the penalty on sigma",
}
AXES = {
    "model.hidden": "hidden neurons in each layer",
    "optim.sigma_l2": r"weight of the penalty on $\sigma^2$",
}
MOST_LINES = 6
HEIGHT = 1.95
"""Of a panel, in inches; its axes take about two thirds."""


def sweep_charts(collection: Collection) -> Drawn:
    """A figure for each experiment that sweeps one number, and protocol."""
    drawn: Drawn = []
    for edition in editions(collection):
        found = settings_of(edition.runs)
        option = swept_number(found)
        if option is not None:
            drawn += _charts(edition, found, option)
    return [*drawn, *never_run(collection, EXPECTED)]


def swept_number(found: Sequence[Setting]) -> str | None:
    """The option whose values make an x axis: a number, or layers of equal width.

    One that is known, or the only one: of several none is more the subject than the others.
    """
    names = list(found[0].values) if found else []
    for name in [each for each in names if each in AXES or len(names) == 1]:
        values = {width(each.values[name]) for each in found}
        lines = {_line(each, name) for each in found}
        if (
            None not in values
            and len(values) > 1
            and len(lines) <= MOST_LINES * len(_panels(found))
        ):
            return name
    return None


def width(value: Any) -> float | None:
    """A number as it is, layers by their width."""
    if isinstance(value, list) and value and value.count(value[0]) == len(value):
        value = value[0]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number else None


Panel = tuple[tuple[str, str], str]
"""A data set with its source, and a kind of network, by its dense one."""


def _panel(each: Setting) -> Panel:
    return each.data, dense_twin(each.model)


def _panels(found: Sequence[Setting]) -> list[Panel]:
    """As in the paper, kinds of networks apart: their accuracies have scales of their own."""
    kinds = dict.fromkeys(map(_panel, found))
    return sorted(kinds, key=lambda panel: (list(MODELS).index(panel[1]), data_order(panel[0][0])))


def _line(each: Setting, option: str) -> tuple[Any, ...]:
    """What the points of a line have in common."""
    others = tuple(
        f"{name.rpartition('.')[2]}={show_option(value)}"
        for name, value in each.values.items()
        if name != option and value is not None
    )
    return each.data, each.model, others


def _charts(edition: Edition, found: Sequence[Setting], option: str) -> list[Chart]:
    charts = []
    metrics = {run.data: run.metric for run in edition.runs}
    title = EXPECTED.get(edition.experiment, f"Score against {option}")
    for protocol in shown_protocols(name for each in found for name in each.scores):
        given = [each for each in found if protocol in each.scores]
        authors = {id(each): author_mean(each) for each in given if option == "model.hidden"}
        rows = tuple(
            {
                **edition.tags(),
                **each.about(),
                "protocol": protocol,
                "x": width(each.values[option]),
                **each.scores[protocol].record(),
                "author": authors.get(id(each)),
            }
            for each in given
        )
        counts = sorted({each.scores[protocol].spread.n for each in given})
        whiskers = (
            " Points: means; whiskers: 95 % intervals of the mean (Student's t; bootstrap from 20 "
            "runs on)."
        )
        models = ", ".join(dict.fromkeys(model_name(each.model) for each in given))
        caption = f"{models}: {MEANING[protocol]}, {run_count(counts)} a point."
        caption += whiskers if counts[-1] > 1 else " A single run has no interval."
        if any(mean is not None for mean in authors.values()):
            caption += " Grey crosses: means of five repeats in the author's scripts."
        if any(each.scores[protocol].mark for each in given):
            caption += " Of runs that kept part of the training data for validation."
        caption = " ".join([caption, *limited_note(given)])
        charts.append(
            Chart(
                edition.name(edition.experiment, protocol),
                f"{title} {edition.title}",
                caption,
                rows,
                partial(_draw, given, option, protocol, authors, metrics),
                edition.tags(
                    data=joined(each.data[0] for each in given),
                    model=joined(each.model for each in given),
                    protocol=protocol,
                ),
            )
        )
    return charts


def _draw(
    found: Sequence[Setting],
    option: str,
    protocol: str,
    authors: Mapping[int, float | None],
    metrics: Mapping[str, str],
) -> Figure:
    with figure_style():
        kinds = _panels(found)
        figure, grid, columns = panels(len(kinds), HEIGHT, sharex=True)
        for kind, axes in zip(kinds, grid, strict=True):
            place = kind[0]
            there = [each for each in found if _panel(each) == kind]
            names = []
            for line, points in group_by(there, lambda each: _line(each, option)).items():
                names.append(_plot(axes, points, option, protocol, line))
                for each in points:
                    mean = authors.get(id(each))
                    if mean is not None:
                        x = width(each.values[option]) or 0.0
                        axes.plot(x, mean, "x", color=GREY, ms=3.5, mew=0.7, zorder=1)
            _scale(axes, sorted({width(each.values[option]) or 0.0 for each in there}))
            several = len({_line(each, option)[1:] for each in found}) > 1
            alone = several and len(names) == 1
            title = ", ".join([data_name(place[0]), *([names[0][2]] if alone else [])])
            head(axes, title, place[1])
            if axes in grid[::columns]:
                accurate = metrics.get(place[0]) != "mae"
                axes.set_ylabel("test accuracy (%)" if accurate else "test MAE")
            if several and not alone:
                end_labels(axes, names, 72 * HEIGHT * 0.6)
            axes.margins(x=0.08)
        figure.supxlabel(AXES.get(option, option), fontsize=8)
        return figure


def _plot(
    axes: Axes, points: Sequence[Setting], option: str, protocol: str, line: tuple[Any, ...]
) -> tuple[float, float, str, str]:
    """Draw a line; where its name goes."""
    colour, marker = look(points[0].model)
    xs = [width(each.values[option]) or 0.0 for each in points]
    ys = [each.scores[protocol].spread.mean for each in points]
    order = sorted(range(len(xs)), key=xs.__getitem__)
    axes.plot([xs[i] for i in order], [ys[i] for i in order], color=colour, lw=1)
    for x, y, each in zip(xs, ys, points, strict=True):
        whisker(axes, x, y, each.scores[protocol].spread.interval, color=colour, marker=marker)
    last = order[-1]
    return xs[last], ys[last], name_of(points[0].model, line[2]), colour


def _scale(axes: Axes, values: Sequence[float]) -> None:
    if values[0] > 0 and values[-1] / values[0] >= 8:
        axes.set_xscale("log")
        if values[-1] / values[0] < 1e3:  # widths: each has its tick
            axes.set_xticks(values)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        else:
            low, high = (round(math.log10(value)) for value in (values[0], values[-1]))
            axes.set_xticks([10.0**power for power in (low, (low + high) // 2, high)])
        axes.xaxis.set_minor_locator(NullLocator())
