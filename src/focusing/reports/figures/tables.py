"""The paper's tables as figures: ours with intervals beside the published means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from focusing.drawing import GREY, figure_style
from focusing.reports.figures.chart import Chart, Drawn, missing
from focusing.reports.figures.chart_layout import above, head, look, panels, whisker
from focusing.reports.figures.chart_runs import MEANING, joined, run_count, shown_protocols
from focusing.reports.names import data_name, model_name
from focusing.reports.paper import published_tables
from focusing.reports.tables.files import all_tables
from focusing.results.collect import Collection
from focusing.results.stats import Interval

Rows = list[Mapping[str, Any]]
LONG = 9
"""Letters of a name that fits below its point."""


def table_charts(collection: Collection) -> Drawn:
    """A figure for each table of the paper, size, variant and protocol."""
    drawn: Drawn = []
    for table in all_tables(collection):
        rows = [row for row in table.records if row.get("table") in published_tables()]
        for protocol in shown_protocols(row["protocol"] for row in rows) if rows else ():
            drawn.append(_chart(table.name, table.title, protocol, rows))
    records = [row for table in all_tables(collection) for row in table.records]
    ran = {row["table"] for row in records if "table" in row}
    for experiment, published in published_tables().items():
        if experiment not in ran:
            drawn.append(missing(published.title, experiment))
    return drawn


def _chart(name: str, title: str, protocol: str, every: Rows) -> Chart:
    rows = [row for row in every if row["protocol"] == protocol]
    runs = run_count(row["n"] for row in rows)
    held = any(row["trained_on"] != "all" for row in rows)
    return Chart(
        f"{name}_{protocol}",
        title,
        f"{MEANING[protocol].capitalize()}, {runs} each: means with 95 % intervals (Student's "
        "t; bootstrap from 20 runs on)."
        + (" Grey bars: the paper's means." if any(map(_published, rows)) else "")
        + (" Of runs that kept part of the training data for validation." if held else ""),
        tuple(rows),
        partial(_draw, rows),
        {
            "experiment": rows[0]["table"],
            "size": rows[0]["size"],
            "variant": rows[0]["variant"],
            "data": joined(row["data"] for row in rows),
            "model": joined(row["model"] for row in rows),
            "protocol": protocol,
        },
    )


def _draw(rows: Rows) -> Figure:
    places = dict.fromkeys((row["data"], row["source"], row["options"]) for row in rows)
    with figure_style():
        heads = {place: above(place[1], place[2].split()) for place in places}
        figure, grid, columns = panels(len(places), 1.6, heads.values())
        for number, (axes, place) in enumerate(zip(grid, places, strict=True)):
            there = [r for r in rows if (r["data"], r["source"], r["options"]) == place]
            _panel(axes, there)
            head(axes, data_name(place[0]), *heads[place])
            if number % columns == 0 or there[0]["unit"] != rows[0]["unit"]:
                accurate = there[0]["unit"] == "percent"
                axes.set_ylabel("test accuracy (%)" if accurate else "test MAE")
        if any(map(_published, rows)):
            paper = Line2D([], [], color=GREY, lw=2.5, alpha=0.5, label="paper")
            figure.legend(handles=[paper], loc="outside upper right")
        return figure


def _published(row: Mapping[str, Any]) -> bool:
    """There is a number to compare with, and something that compares."""
    return row["minus_published"] is not None


def _panel(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    for place, row in enumerate(rows):
        colour, marker = look(row["model"])
        if _published(row):
            axes.plot([place - 0.3, place + 0.3], [row["published_mean"]] * 2, color=GREY, lw=2.5,
                      alpha=0.5, solid_capstyle="butt")  # fmt: skip
        interval = None if row["low"] is None else Interval(row["low"], row["high"], "")
        whisker(axes, place, row["mean"], interval, color=colour, marker=marker)
    names = [model_name(row["model"]) for row in rows]
    crowded = len(names) > 2 or max(map(len, names)) > LONG
    turned: dict[str, Any] = (
        {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    )
    axes.set_xticks(range(len(names)), names, fontsize=6.5, **turned)
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.grid(axis="y", color="0.92", lw=0.5)
