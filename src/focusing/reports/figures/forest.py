"""All differences in one figure: focused − dense, the paper's beside ours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats as scipy_stats  # type: ignore[import-untyped]

from focusing.drawing import GREY, figure_style
from focusing.reports.figures.chart import Chart, Drawn
from focusing.reports.figures.chart_layout import BLUE, GREEN, ORANGE, WIDE, whisker
from focusing.reports.names import SIZES, data_name, model_name
from focusing.reports.paper import REPEATS, Published, paper, published_tables
from focusing.reports.tables.files import all_tables
from focusing.results.collect import Collection
from focusing.results.stats import CONFIDENCE, Interval

Point = Mapping[str, Any]
SERIES = {
    "published": ("the paper", GREY, "s"),
    "paper": ("ours, settings of the text", BLUE, "o"),
    "author": ("ours, settings of the author's code", ORANGE, "^"),
    "holdout": ("ours, on held-out data", GREEN, "D"),
}
"""Series -> its name, colour and marker."""
TITLES = {
    "table2_simple": "Table 2, simple networks",
    "table2_cnn": "Table 2, CNNs",
    "table3_transfer": "Table 3, VGG16",
    "table4_other": "Table 4, other data",
}
LEFT = ("table2_simple",)
"""Tables of the left column."""
SYNTHETIC = {"learning_to_focus": "noise left", "sides": "noise on both sides"}
LEVELS = {"0": "no noise", "0.5": "some noise", "1": "much noise"}
LINEAR = 1.0
"""Points up to which the axis is linear; beyond it is logarithmic."""
TICKS = (-10, -3, -1, 0, 1, 3, 10)
ROW = 0.22
"""Height of a row in inches."""


def forest_charts(collection: Collection) -> Drawn:
    """One figure, if there is anything to compare."""
    points = list(_points(collection))
    if all(point["series"] == "published" for point in points):
        return []
    caption = (
        "Difference of test accuracy, focused − dense, in points, with 95 % intervals (not "
        "corrected for the number of tests); right of zero the focused network is better. The axis "
        "is linear up to one point and logarithmic beyond. Ours at the best test epoch, as in the "
        "paper, or on held-out data; hollow where runs are shorter or have less data than the "
        "paper's. The paper's intervals are Student's, from its means and standard deviations, "
        "where these can be. Boston: by how much the mean absolute error is smaller. Grey points "
        "of the random trials are those of the author's notebook, of synthetic data a stored run."
    )
    title = "All differences, focused − dense"
    return [Chart("forest", title, caption, tuple(points), partial(_draw, points))]


def _points(collection: Collection) -> Iterator[Point]:
    """All that is drawn, from top to bottom and left to right."""
    records = [row for table in all_tables(collection) for row in table.records]
    for experiment, table in published_tables().items():
        rows = [row for row in records if row.get("table") == experiment]
        for data, cells in table.cells.items():
            dense, *models = cells
            for model in models:
                about = {
                    "group": TITLES[experiment],
                    "row": f"{data_name(data)}, {model_name(model)}",
                    "column": 0 if experiment in LEFT else 1,
                }
                sign = -1 if data == "boston" else 1
                yield {**about, **_published(cells[model], cells[dense], sign)}
                same = [row for row in rows if (row["data"], row["model"]) == (data, model)]
                for series in ("paper", "author", "holdout"):
                    chosen = nearest(same, series)
                    if chosen:
                        yield {**about, "series": series, **_ours(chosen, sign)}
    yield from _trials(records)
    yield from _synthetic(records)


def nearest(rows: Sequence[Mapping[str, Any]], series: str) -> Mapping[str, Any] | None:
    """Of one data set and model the runs that are nearest to the paper's: size, then length."""
    wanted = ("paper", "holdout") if series == "holdout" else (series, "paper")
    fit = [
        row
        for row in rows
        if (row["variant"], row["protocol"]) == wanted
        and row["difference"] is not None
        and row["source"] != "fake"
        and (row["size"] == "paper" or row["difference_low"] is not None)
    ]
    sizes = [*SIZES]
    return min(
        fit,
        key=lambda row: (
            row["minus_published"] is None,
            sizes.index(row["size"]) if row["size"] in sizes else len(sizes),
            -row["epochs"],
            row["options"] or "",
        ),
        default=None,
    )


def _ours(row: Mapping[str, Any], sign: int = 1) -> Point:
    ends = [row["difference_low"], row["difference_high"]]
    low, high = ends if None in ends else sorted(sign * end for end in ends)
    return {
        "difference": sign * row["difference"],
        "low": low,
        "high": high,
        "n": row["n"],
        "size": row["size"],
        "options": row["options"],
        "as_published": row["minus_published"] is not None,
    }


def _published(ours: Published, dense: Published, sign: int) -> Point:
    """The paper's difference; its interval is that of Student's test of five repeats each."""
    difference = sign * (ours.mean - dense.mean)
    half = math.nan
    if ours.possible and dense.possible:
        error = math.hypot(ours.std_points, dense.std_points) / math.sqrt(REPEATS - 1)
        freedom = 2 * REPEATS - 2
        half = error * float(scipy_stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
    known = not math.isnan(half)
    return {
        "series": "published",
        "difference": round(difference, 4),
        "low": difference - half if known else None,
        "high": difference + half if known else None,
        "as_published": True,
    }


def _trials(records: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    """Table 1 by level of noise; ``table1_paper_author`` is the notebook's own grid."""
    rows = [row for row in records if row.get("experiment") == "table1" and "noise" in row]
    for level, name in LEVELS.items():
        about = {"group": "Table 1, random trials", "row": name, "column": 1}
        there = [
            row
            for row in rows
            if (row["noise"], row["position"]) == (level, "all")
            and (row["size"], row["protocol"]) == ("paper", "paper")
        ]
        if there:
            notebook = there[0]["notebook_difference"]
            yield {**about, "series": "published", "difference": notebook, "as_published": True}
        for row in there:
            ends = {"low": row["low"], "high": row["high"], "n": row["pairs"]}
            difference = {"difference": row["difference"], "as_published": True, **ends}
            yield {**about, "series": row["variant"], **difference}


def _synthetic(records: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    """Four neurons, over data sets that nobody picked where there are any."""
    for experiment, name in SYNTHETIC.items():
        about = {"group": "Synthetic data, four neurons", "row": name, "column": 0}
        stored = paper()["synthetic"].get(experiment)
        rows = [
            row
            for row in records
            if row.get("experiment") == experiment
            and (row.get("size"), row.get("protocol")) == ("paper", "paper")
            and row.get("difference") is not None
        ]
        if rows and stored:
            gap = round(stored["focus_s"] - stored["dense"], 4)
            yield {**about, "series": "published", "difference": gap, "as_published": True}
        for series in ("paper", "author"):
            there = [row for row in rows if row["variant"].startswith(series)]
            if there:  # author2018 rather than author
                row = max(there, key=lambda row: (row["variant"], row.get("data.seed") == "varied"))
                ends = {"low": row["difference_low"], "high": row["difference_high"], "n": row["n"]}
                difference = {"difference": row["difference"], "as_published": True, **ends}
                yield {**about, "series": series, **difference}


def _draw(points: Sequence[Point]) -> Figure:
    columns = [[point for point in points if point["column"] == side] for side in (0, 1)]
    heights = [len(_rows(column)) for column in columns]
    with figure_style():
        figure = Figure((WIDE, 0.75 + ROW * max(heights)), layout="constrained")
        grid = figure.subplots(1, 2)
        for axes, column in zip(grid, columns, strict=True):
            _panel(axes, column)
            axes.set_ylim(max(heights) - 0.4, -0.6)
        drawn = {point["series"] for point in points}
        handles = [
            Line2D([], [], ls="", marker=marker, color=colour, ms=4, label=name)
            for series, (name, colour, marker) in SERIES.items()
            if series in drawn
        ]
        handles.append(Line2D([], [], ls="", marker="o", color="k", mfc="w", ms=4,
                              label="hollow: shorter, or less data"))  # fmt: skip
        figure.legend(handles=handles, loc="outside upper center", ncols=3, columnspacing=1.5)
        return figure


def _rows(points: Sequence[Point]) -> list[tuple[str, str]]:
    """Groups, each before its rows: (group, "") and (group, row)."""
    rows: dict[tuple[str, str], None] = {}
    for point in points:
        rows.setdefault((point["group"], ""))
        rows.setdefault((point["group"], point["row"]))
    return list(rows)


def _panel(axes: Axes, points: Sequence[Point]) -> None:
    rows = _rows(points)
    axes.set_xscale("symlog", linthresh=LINEAR)
    axes.axvline(0, color="k", lw=0.7)
    axes.grid(axis="x", color="0.92", lw=0.5)
    for place, (group, row) in enumerate(rows):
        there = [point for point in points if (point["group"], point["row"]) == (group, row)]
        if row and place % 2:
            axes.axhspan(place - 0.5, place + 0.5, color="0.97", lw=0, zorder=0)
        for rank, point in enumerate(there):
            _, colour, marker = SERIES[point["series"]]
            low, high = point.get("low"), point.get("high")
            interval = None if low is None or high is None else Interval(low, high, "")
            y = place + 0.27 * (rank - (len(there) - 1) / 2)
            whisker(axes, point["difference"], y, interval, along="x", color=colour, marker=marker,
                    size=3, hollow=not point["as_published"])  # fmt: skip
    axes.set_yticks(range(len(rows)), [row or group for group, row in rows])
    for label, (_, row) in zip(axes.get_yticklabels(), rows, strict=True):
        if not row:
            label.set_fontweight("bold")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xticks(TICKS, [f"{tick:+g}".replace("-", "−") if tick else "0" for tick in TICKS])
    axes.set_xlim(-20, 20)
    axes.set_xlabel("focused − dense (points)")
