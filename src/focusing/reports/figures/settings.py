"""Scores of all settings of an experiment below each other: points with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from focusing.drawing import COLUMN_WIDTH, figure_style
from focusing.reports.figures.chart import Chart, Drawn
from focusing.reports.figures.chart_layout import WIDE, head, look, whisker
from focusing.reports.figures.chart_runs import (
    MEANING,
    MEASURED,
    Edition,
    editions,
    joined,
    never_run,
    run_count,
    shown_protocols,
)
from focusing.reports.figures.sweep import swept_number
from focusing.reports.names import data_name, data_order
from focusing.reports.paper import published_tables
from focusing.reports.tables.experiments import limited_note
from focusing.reports.tables.settings import Setting, labels, settings_of, varied_note
from focusing.results.collect import Collection
from focusing.results.frame import stuck_share
from focusing.results.stats import Interval

EXPECTED = {
    "topology": "Foci on a line against foci in the picture",
    "focus_functions": "Focus functions",
    "rescue": "What helps neurons that are stuck in noise",
}
MOST = 40
"""Settings of a figure; the table has all."""
ROW = 0.16
"""Height of a setting in inches."""


def setting_charts(collection: Collection) -> Drawn:
    """A figure for each experiment with several settings that is no sweep of one number."""
    drawn: Drawn = []
    for edition in editions(collection):
        if edition.experiment in (*published_tables(), *MEASURED):
            continue
        found = settings_of(edition.runs)
        places = {each.data for each in found}
        if not len(places) < len(found) <= MOST or swept_number(found) is not None:
            continue
        drawn += _charts(edition, found)
    return [*drawn, *never_run(collection, EXPECTED)]


def _charts(edition: Edition, found: Sequence[Setting]) -> list[Chart]:
    metrics = {run.data: run.metric for run in edition.runs}
    charts = []
    for protocol in shown_protocols(name for each in found for name in each.scores):
        given = [each for each in found if protocol in each.scores]
        rows = tuple(
            {
                **edition.tags(),
                **each.about(),
                "protocol": protocol,
                **each.scores[protocol].record(),
                "runs": " ".join(f"{v:.6g}" for v in each.scores[protocol].values.values()),
                "stuck_percent": " ".join(f"{share:.4g}" for share in stuck_shares(each)),
            }
            for each in given
        )
        counts = sorted({each.scores[protocol].spread.n for each in given})
        caption = f"{MEANING[protocol].capitalize()}, {run_count(counts)} each."
        if counts[-1] > 1:
            caption += (
                " Filled: means with 95 % intervals (Student's t; bootstrap from 20 runs on); "
                "small and pale: single runs."
            )
        if any(map(any, map(stuck_shares, given))):
            caption += " Stuck: neurons that went nowhere and see nothing, means and single runs."
        caption = " ".join([caption, *varied_note(given), *limited_note(given)])
        title = EXPECTED.get(edition.experiment, "Scores of all settings")
        charts.append(
            Chart(
                edition.name(edition.experiment, protocol),
                f"{title} {edition.title}",
                caption,
                rows,
                partial(_draw, given, protocol, metrics),
                edition.tags(
                    data=joined(each.data[0] for each in given),
                    model=joined(each.model for each in given),
                    protocol=protocol,
                ),
            )
        )
    return charts


def _draw(found: Sequence[Setting], protocol: str, metrics: Mapping[str, str]) -> Figure:
    places = sorted({each.data for each in found}, key=lambda place: data_order(place[0]))
    names = labels(found)
    rows = list(dict.fromkeys(names))
    with figure_style():
        stuck = len(places) == 1 and any(map(any, map(stuck_shares, found)))
        count = len(places) + stuck
        size = (min(WIDE, 1.6 + 1.7 * count) if count > 1 else COLUMN_WIDTH, 0.75 + ROW * len(rows))
        figure = Figure(size, layout="constrained")
        grid = figure.subplots(1, count, sharey=True, squeeze=False)[0]
        for place, axes in zip(places, grid, strict=False):
            for name, each in zip(names, found, strict=True):
                if each.data == place:
                    point(axes, rows.index(name), each, protocol)
            head(axes, data_name(place[0]), place[1])
            accurate = metrics.get(place[0]) != "mae"
            axes.set_xlabel("test accuracy (%)" if accurate else "test MAE")
        if stuck:
            for name, each in zip(names, found, strict=True):
                _points(grid[-1], rows.index(name), stuck_shares(each), each.model)
            grid[-1].set(xlabel="stuck neurons (%)", xlim=(-4, 104))
        for axes in grid:
            axes.grid(axis="x", color="0.9", lw=0.5)
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
        grid[0].set_yticks(range(len(rows)), rows)
        grid[0].set_ylim(len(rows) - 0.4, -0.6)
        return figure


def stuck_shares(each: Setting) -> list[float]:
    """Percent of the neurons with trained foci that were stuck at the end of each run."""
    return [share for run in each.runs if (share := stuck_share(run)) is not None]


def point(axes: Axes, row: float, each: Setting, protocol: str) -> None:
    """A setting: its mean and interval, and single runs below it."""
    score = each.scores[protocol]
    interval = score.spread.interval
    _points(axes, row, list(score.values.values()), each.model, interval)


def _points(
    axes: Axes, row: float, values: Sequence[float], model: str, interval: Interval | None = None
) -> None:
    colour, marker = look(model)
    if len(values) > 1:
        below = np.full(len(values), row + 0.22)
        axes.plot(values, below, ".", color=colour, ms=3, alpha=0.4, mew=0)
    if values:
        style = {"color": colour, "marker": marker, "size": 3.5}
        whisker(axes, float(np.mean(values)), row, interval, along="x", **style)
