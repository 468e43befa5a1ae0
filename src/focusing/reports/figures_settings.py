"""Scores of all settings of an experiment below each other: points with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from focusing.callbacks.style import COLUMN, house_style
from focusing.reports.chart import Chart, Drawn, missing
from focusing.reports.chart_layout import WIDE, head, look, whisker
from focusing.reports.chart_runs import (
    MEANING,
    MEASURED,
    Edition,
    editions,
    joined,
    shown_protocols,
)
from focusing.reports.figures_sweep import swept_number
from focusing.reports.names import data_name, data_order, model_name
from focusing.reports.paper import published_tables
from focusing.reports.tables import NOTHING
from focusing.reports.tables_cells import score_record
from focusing.reports.tables_settings import Setting, settings_of
from focusing.results.collect import Collection

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
    ran = {edition.experiment for edition in editions(collection)}
    return [*drawn, *(missing(t, name) for name, t in EXPECTED.items() if name not in ran)]


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
                **score_record(each.scores[protocol]),
                "runs": " ".join(f"{v:.6g}" for v in each.scores[protocol].values.values()),
            }
            for each in given
        )
        counts = sorted({each.scores[protocol].spread.n for each in given})
        runs = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        caption = f"{MEANING[protocol].capitalize()}, {runs} runs each."
        if counts[-1] > 1:
            caption += (
                " Filled: means with 95 % intervals (Student's t; bootstrap from 20 runs on); "
                "small and pale: single runs."
            )
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
    with house_style():
        wide = len(places) > 1
        size = (min(WIDE, 1.6 + 1.7 * len(places)) if wide else COLUMN, 0.75 + ROW * len(rows))
        figure = Figure(size, layout="constrained")
        grid = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
        for place, axes in zip(places, grid, strict=True):
            for name, each in zip(names, found, strict=True):
                if each.data == place:
                    point(axes, rows.index(name), each, protocol)
            head(axes, data_name(place[0]), place[1])
            accurate = metrics.get(place[0]) != "mae"
            axes.set_xlabel("test accuracy (%)" if accurate else "test MAE")
            axes.grid(axis="x", color="0.9", lw=0.5)
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
        grid[0].set_yticks(range(len(rows)), rows)
        grid[0].set_ylim(len(rows) - 0.4, -0.6)
        return figure


def labels(found: Sequence[Setting]) -> list[str]:
    """What tells each setting from the others, in few words: options that do nothing are left out.

    They stay where two settings of the same data would have the same name.
    """
    short = [_label(each, ("null", "0", "0.0", NOTHING), found) for each in found]
    pairs = [(each.data, name) for each, name in zip(found, short, strict=True)]
    if len(set(pairs)) == len(pairs):
        return short
    return [_label(each, (NOTHING,), found) for each in found]


def _label(each: Setting, idle: Sequence[str], found: Sequence[Setting]) -> str:
    several = len(each.options) > 1
    options = [
        f"{name}={value}" if several else value
        for name, value in each.options.items()
        if value not in idle
    ]
    named = len({other.model for other in found}) > 1 or not options
    return ", ".join([*([model_name(each.model)] if named else []), *options])


def point(axes: Axes, row: float, each: Setting, protocol: str, dodge: float = 0.22) -> None:
    """A setting: its mean and interval, and single runs below it."""
    score = each.scores[protocol]
    colour, marker = look(each.model)
    values = list(score.values.values())
    if len(values) > 1:
        axes.plot(values, np.full(len(values), row + dodge), ".", color=colour, ms=3, alpha=0.4,
                  mew=0)  # fmt: skip
    whisker(axes, score.spread.mean, row, score.spread.interval, along="x", color=colour,
            marker=marker, size=3.5)  # fmt: skip
