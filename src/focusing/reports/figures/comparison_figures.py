"""Figures that compare focused with dense networks: the forest plot and the random trials."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import stats as scipy_stats  # type: ignore[import-untyped]

from focusing.drawing import COLUMN_WIDTH, GREY
from focusing.reports.figures import plotting
from focusing.reports.figures.chart import (
    PROTOCOL_TITLES,
    Chart,
    Charts,
    Row,
    Rows,
    Runs,
    chart,
    protocols_to_show,
)
from focusing.reports.figures.plotting import ROW_HEIGHT, Dot
from focusing.reports.names import PROTOCOLS, SIZES, data_name, model_name
from focusing.reports.paper import REPEATS, Published, paper, published_tables
from focusing.reports.plans import is_unchanged
from focusing.reports.tables import format_interval, interval_record, signed
from focusing.reports.tables.files import all_tables
from focusing.reports.tables.trial_tables import BASE, Trials, all_trials
from focusing.results.collect import Collection
from focusing.results.stats import CONFIDENCE, mean_interval

SERIES = {
    "published": ("the paper", GREY, "s"),
    "text": ("ours, settings of the text", plotting.BLACK, "o"),
    "author": ("ours, settings of the author's code", plotting.SERIES_COLOURS[1], "^"),
    "author2018": ("ours, the author's code of 2018", plotting.SERIES_COLOURS[2], "v"),
    "holdout": ("ours, epoch chosen by validation", plotting.SERIES_COLOURS[3], "D"),
}
"""Series of the forest plot -> name, colour and marker."""
GROUPS = {
    "table2_simple": "Table 2, simple networks",
    "table2_cnn": "Table 2, CNNs",
    "table3_transfer": "Table 3, VGG16",
    "table4_other": "Table 4, other data",
}
BEYOND, BEYOND_MODELS = ("dynamic", "topology"), ("focus_2d", "dynamic_2d")
"""Experiments beyond the paper, and their networks, that the forest plot shows."""
SYNTHETIC = {"learning_to_focus": "noise left", "sides": "noise on both sides"}
NOISE_LEVELS = {"0": "no noise", "0.5": "some noise", "1": "much noise"}
"""Noise columns per informative one -> row of the forest plot."""
NOISE_TITLES = {"0": "no noise", "0.5": "half as much noise as signal", "1": "as much noise"}
"""Noise columns per informative one -> title of a panel of trials."""
LINEAR_RANGE = 1.0
"""Points up to which the axis is linear; beyond, it is logarithmic."""
TICKS = (-10, -3, -1, 0, 1, 3, 10, 30)
TRIAL_TITLE = "Random trials, focused against dense"
FOREST_CAPTION = (
    "Difference of test accuracy, focused − dense, in points, with 95 % intervals (not "
    "corrected for the number of tests; none below three runs: their number stands at the left); "
    "right of zero the focused network is better. The axis is linear up to one point and "
    "logarithmic beyond. Ours at the "
    "best test epoch, as in the paper, or at validation's choice; hollow where runs are shorter or "
    "have less data than the paper's. The paper's intervals are Student's, from its means and "
    "standard deviations, where these can be. Boston: by how much the mean absolute error is "
    "smaller. Grey points of the random trials are those of the author's notebook, of "
    "synthetic data a stored run. Beyond the paper: foci in the picture, and foci that follow the "
    "input with such foci behind them."
)


def forest_charts(runs: Runs) -> Charts:
    """All differences in one figure, if any are ours."""
    points = [*_forest_points(runs.collection), *_synthetic_points(runs), *_beyond_points(runs)]
    if not all(point["series"] == "published" for point in points):
        title = "All differences, focused − dense"
        yield Chart("forest", title, FOREST_CAPTION, points, partial(_draw_forest, points))


def _forest_points(collection: Collection) -> Iterator[Row]:
    """Points of the paper's experiments, from top to bottom."""
    records = [row for table in all_tables(collection) for row in table.records]
    for experiment, table in published_tables().items():
        rows = [row for row in records if row.get("table") == experiment]
        for data, cells in table.cells.items():
            dense, *models = cells
            for model in models:
                about = {
                    "group": GROUPS[experiment],
                    "row": f"{data_name(data)}, {model_name(model)}",
                    "column": int(experiment != "table2_simple"),
                }
                sign = -1 if data == "boston" else 1
                yield {**about, **_published_point(cells[model], cells[dense], sign)}
                same = [row for row in rows if (row["data"], row["model"]) == (data, model)]
                for series in ("text", "author", "holdout"):
                    chosen = closest_to_paper(same, series)
                    if chosen:
                        yield {**about, "series": series, **_own_point(chosen, sign)}
    yield from _trial_points(records)


def closest_to_paper(rows: Rows, series: str) -> Row | None:
    """Of records of one data set and model, the one nearest to the paper: by size, length, runs."""
    wanted = ("text", "holdout") if series == "holdout" else (series, "best_test")
    candidates = [
        row
        for row in rows
        if (row["variant"], row["protocol"]) == wanted
        and row["difference"] is not None
        and row["source"] != "fake"
        and (row["size"] == "full" or row["n"] > 1)
    ]
    sizes = [*SIZES, *(row["size"] for row in candidates)]

    def distance(row: Row) -> tuple[Any, ...]:
        unlike = row["minus_published"] is None
        return unlike, sizes.index(row["size"]), -row["epochs"], -row["n"], row["options"] or ""

    return min(candidates, key=distance, default=None)


def _own_point(row: Row, sign: int) -> Row:
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


def _published_point(ours: Published, dense: Published, sign: int) -> Row:
    """The paper's difference, with the interval of Student's test of five repeats each."""
    difference = sign * (ours.mean - dense.mean)
    low = high = None
    if ours.possible and dense.possible:
        error = math.hypot(ours.std_points, dense.std_points) / math.sqrt(REPEATS - 1)
        half = error * float(scipy_stats.t.ppf((1 + CONFIDENCE) / 2, 2 * REPEATS - 2))
        low, high = difference - half, difference + half
    shown = {"series": "published", "difference": round(difference, 4), "as_published": True}
    return {**shown, "low": low, "high": high}


def _trial_points(records: Rows) -> Iterator[Row]:
    """Differences of the random trials by level of noise."""
    rows = [row for row in records if row.get("experiment") == "table1" and "noise" in row]
    for level, name in NOISE_LEVELS.items():
        about = {"group": "Table 1, random trials", "row": name, "column": 1, "as_published": True}
        wanted = {"noise": level, "position": "all", "size": "full", "protocol": "best_test"}
        there = [row for row in rows if wanted.items() <= row.items()]
        if there:
            yield {**about, "series": "published", "difference": there[0]["notebook_difference"]}
        for row in there:
            ends = {"low": row["low"], "high": row["high"], "n": row["pairs"]}
            yield {**about, "series": row["variant"], "difference": row["difference"], **ends}


def _synthetic_points(runs: Runs) -> Iterator[Row]:
    """Differences on synthetic data, preferably over many generated data sets."""
    for experiment, name in SYNTHETIC.items():
        about = {"group": "Synthetic data, four neurons", "row": name, "column": 0}
        about["as_published"] = True
        points = []
        for series in ("text", "author", "author2018"):
            tested = [
                (setting, test)
                for edition, setting in runs.settings()
                if (edition.experiment, edition.size, edition.variant)
                == (experiment, "full", series)
                and (test := edition.tests.get((setting, "best_test")))
            ]
            varied = [test for setting, test in tested if setting.varied]
            unchanged = [test for setting, test in tested if is_unchanged(setting)]
            for test in (varied or unchanged)[:1]:
                ends = interval_record(test.interval)
                point = {"difference": test.difference, **ends, "n": test.n[0]}
                points.append({**about, "series": series, **point})
        stored = paper()["synthetic"].get(experiment)
        if points and stored:
            gap = round(stored["focus_s"] - stored["dense"], 4)
            yield {**about, "series": "published", "difference": gap}
        yield from points


def _beyond_points(runs: Runs) -> Iterator[Row]:
    """Differences of networks beyond the paper: unchanged settings, epochs chosen by validation."""
    for edition, setting in runs.settings():
        test = edition.tests.get((setting, "holdout"))
        if (
            edition.experiment not in BEYOND
            or (edition.size, edition.variant) != ("full", "text")
            or setting.model not in BEYOND_MODELS
            or setting.fake
            or test is None
            or not is_unchanged(setting)
        ):
            continue
        yield {
            "group": "Beyond the paper",
            "row": f"{data_name(setting.data)}, {model_name(setting.model)}",
            "column": 1,
            "series": "holdout",
            "difference": test.difference,
            **interval_record(test.interval),
            "n": test.n[0],
            "size": edition.size,
            "as_published": True,
        }


def _draw_forest(points: Rows) -> Figure:
    columns = [[point for point in points if point["column"] == side] for side in (0, 1)]
    height = max(len(_forest_rows(column)) for column in columns)
    figure = Figure((plotting.PAGE_WIDTH, 0.75 + 1.25 * ROW_HEIGHT * height), layout="constrained")
    for axes, column in zip(figure.subplots(1, 2), columns, strict=True):
        _draw_forest_panel(axes, column, height)
    drawn = {point["series"] for point in points}
    entries = [
        plotting.legend_entry(name, colour, marker=marker)
        for series, (name, colour, marker) in SERIES.items()
        if series in drawn
    ]
    figure.supxlabel("focused − dense (points of accuracy; logarithmic beyond ±1)", fontsize=8)
    hollow = "hollow: shorter, or less data"
    entries.append(plotting.legend_entry(hollow, "k", marker="o", hollow=True))
    figure.legend(handles=entries, loc="outside upper center", ncols=3, columnspacing=1.5)
    return figure


def _forest_rows(points: Rows) -> list[tuple[str, str]]:
    """Rows of a panel: a heading ``(group, "")`` before the rows ``(group, row)`` of each group."""
    pairs = [(point["group"], row) for point in points for row in ("", point["row"])]
    return list(dict.fromkeys(pairs))


def _draw_forest_panel(axes: Axes, points: Rows, height: int) -> None:
    rows = _forest_rows(points)
    axes.set_xscale("symlog", linthresh=LINEAR_RANGE)
    dots = []
    for place, (group, name) in enumerate(rows):
        in_row = [point for point in points if (point["group"], point["row"]) == (group, name)]
        if name and place % 2:
            axes.axhspan(place - 0.5, place + 0.5, color="0.97", lw=0, zorder=0)
        for rank, point in enumerate(in_row):
            dots.append(
                Dot(place, point["difference"], SERIES[point["series"]][1:], point.get("low"),
                    point.get("high"), hollow=not point["as_published"],
                    shift=min(0.27, 0.8 / len(in_row)) * (rank - (len(in_row) - 1) / 2))
            )  # fmt: skip
        few = [point for point in in_row if point.get("n") and point.get("low") is None]
        for rank, point in enumerate(few):  # at the left: beside the markers they would overlap
            axes.annotate(f"n={point['n']}", (0, place), (2 + 14 * rank, 0), va="center",
                          xycoords=axes.get_yaxis_transform(), textcoords="offset points",
                          fontsize=5.5, color=SERIES[point["series"]][1])  # fmt: skip
    plotting.draw_dots(axes, dots, [name or group for group, name in rows], height, size=3)
    axes.axvline(0, color="k", lw=0.7, zorder=1)
    for label, (_, name) in zip(axes.get_yticklabels(), rows, strict=True):
        if not name:
            label.set_fontweight("bold")
    axes.set_xticks(TICKS, [f"{tick}".replace("-", "−") for tick in TICKS])
    axes.set_xlim(-20, 60)


def trial_charts(runs: Runs) -> Charts:
    """Random trials as points: accuracy of the focused network over that of the dense one."""
    for trials in all_trials(runs.collection):
        scores = {name for run in (*trials.focused, *trials.dense) for name in run.scores}
        for protocol in protocols_to_show(name for name in PROTOCOLS if name in scores):
            rows = _trial_rows(trials, protocol)
            number = [str(trials.number + 1)] if trials.number else []
            caption = (
                f"Test accuracy of {model_name(trials.model)} and {model_name(BASE)} on the same "
                f"data from the same seed, {PROTOCOL_TITLES[protocol]}, {len(rows)} pairs. Above "
                "the diagonal the focused network is better. Noise: columns of noise for each "
                "informative one. Above each panel: mean difference, focused − dense, in points "
                "with its 95 % interval (bootstrap; Student's t below 20 pairs)."
            )
            if rows:
                yield chart(
                    trials.edition, ("trials", *number, trials.model, protocol), TRIAL_TITLE,
                    caption, rows, partial(_draw_trials, rows, trials.model),
                    data=[trials.focused[0].data], model=[BASE, trials.model],
                    options=trials.overrides, protocol=protocol,
                )  # fmt: skip


def _trial_rows(trials: Trials, protocol: str) -> list[Row]:
    rows = [
        {
            "trial": pair["run"].trial,
            "seed": pair["run"].seed,
            "noise": pair["noise"],
            "position": pair["noise position"],
            "protocol": protocol,
            "dense": pair["base"],
            "focused": pair["model"],
            "difference": pair["difference"],
        }
        for pair in trials.table(protocol).to_dict("records")
    ]
    return sorted(rows, key=lambda row: (row["trial"], row["seed"]))


def _draw_trials(rows: Rows, model: str) -> Figure:
    levels = [level for level in NOISE_LEVELS if any(row["noise"] == level for row in rows)]
    width = plotting.PAGE_WIDTH if len(levels) > 1 else COLUMN_WIDTH
    figure = Figure((width, 2.7), layout="constrained")
    grid = figure.subplots(1, len(levels), sharex=True, sharey=True, squeeze=False)[0]
    scores = [row[name] for row in rows for name in ("dense", "focused")]
    margin = 0.03 * (max(scores) - min(scores)) + 0.5
    limits = max(0.0, min(scores) - margin), min(100.5, max(scores) + margin)
    for axes, level in zip(grid, levels, strict=True):
        x, y, differences = (
            [row[name] for row in rows if row["noise"] == level]
            for name in ("dense", "focused", "difference")
        )
        axes.plot(limits, limits, color=GREY, lw=0.8, zorder=1)
        axes.plot(x, y, "o", color=plotting.BLACK, ms=2.6, mew=0, alpha=0.4)
        interval = format_interval(mean_interval(differences), sign=True)
        mean = f"{signed(float(np.mean(differences)))} {interval}".rstrip()
        plotting.panel_title(axes, NOISE_TITLES[level], f"{mean}, n={len(differences)}")
        axes.set_xlabel(f"test accuracy of {model_name(BASE)} (%)")
        axes.set(xlim=limits, ylim=limits, aspect="equal")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_locator(MaxNLocator(5))
    grid[0].set_ylabel(f"test accuracy of {model_name(model)} (%)")
    return figure
