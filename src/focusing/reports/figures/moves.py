"""Where the foci of all runs went: to the informative inputs, or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from focusing.drawing import GREY, MAX_CURVES, figure_style, shade_noise
from focusing.reports.figures.chart import Chart, Drawn
from focusing.reports.figures.chart_layout import BLUE, ORANGE, head, panels
from focusing.reports.figures.chart_runs import Edition, editions, ends_of, joined
from focusing.reports.names import model_name
from focusing.reports.tables.settings import Setting, settings_of, short_labels, varied_note
from focusing.results.collect import Collection, Run
from focusing.results.frame import FOCI

MOST = 12
"""Settings of a figure."""
ROW = 0.07
"""Height of a run in inches."""
INSIDE = ("inside_first", "inside_last")
Rows = list[Mapping[str, Any]]
TITLE = "Where the foci of all runs went"


def move_charts(collection: Collection) -> Drawn:
    """For each experiment with few neurons on data with noise, all runs of each setting."""
    drawn: Drawn = []
    for edition in editions(collection):
        told = [run for run in edition.runs if any("inside_last" in e for e in run.focus.values())]
        found = settings_of(edition.runs) if told else []
        shown = [(each, rows) for each in found if (rows := _rows(each, drawn))]
        if 0 < len(shown) <= MOST:
            drawn.append(_chart(edition, shown))
    return drawn


def _rows(each: Setting, drawn: Drawn) -> Rows:
    """Both ends of every neuron; none if there are too many neurons, or if nothing is noise."""
    rows: Rows = []
    for number, run in enumerate(sorted(each.runs, key=_place)):
        region = run.sizes.get("informative")
        mu = next(iter(ends_of(run, "mu", drawn).values()), None)
        if not region or mu is None or mu[0].shape[0] > MAX_CURVES or mu[0].shape[1] != 1:
            continue
        line = _line(run)
        ends = [end[:, 0] for end in mu]
        inside = [(end >= line[region[0]]) & (end <= line[region[1] - 1]) for end in ends]
        rows += [
            {
                **each.about(),
                "seed": run.seed,
                "data.seed": (run.config.get("data") or {}).get("seed"),
                "run": number,
                "neuron": neuron,
                "first": float(ends[0][neuron]),
                "last": float(ends[1][neuron]),
                "inside_first": bool(inside[0][neuron]),
                "inside_last": bool(inside[1][neuron]),
                "informative_from": region[0],
                "informative_to": region[1] - 1,
                "inputs": len(line),
                "last_input": float(line[-1]),
            }
            for neuron in range(len(ends[0]))
        ]
    return rows


def _place(run: Run) -> tuple[Any, ...]:
    return run.seed, str((run.config.get("data") or {}).get("seed")).rjust(9)


def _line(run: Run) -> Any:
    """Positions of the inputs."""
    grid = (run.config.get("model") or {}).get("grid", "linspace")
    inputs = run.sizes["inputs"]
    return np.linspace(0, 1, inputs, endpoint=grid == "linspace", dtype=np.float32)


def _chart(edition: Edition, shown: Sequence[tuple[Setting, Rows]]) -> Chart:
    return Chart(
        edition.name("moves"),
        f"{TITLE} {edition.title}",
        "A row for each run, with the centres of its neurons at the start (squares) and at the end "
        "(triangles: blue among the informative columns, orange not). Grey: columns of noise. "
        "Above: share of all centres among the informative columns, at the start and at the end."
        + "".join(f" {note}" for note in varied_note([each for each, _ in shown])),
        tuple(row for _, rows in shown for row in rows),
        partial(_draw, shown),
        edition.tags(
            data=joined(each.data[0] for each, _ in shown),
            model=joined(each.model for each, _ in shown),
        ),
    )


def _draw(shown: Sequence[tuple[Setting, Rows]]) -> Figure:
    most = max(rows[-1]["run"] for _, rows in shown) + 1
    with figure_style():
        figure, grid, columns = panels(len(shown), 0.75 + ROW * max(most, 6), sharex=True)
        names = short_labels([each for each, _ in shown])
        for place, (axes, (each, rows)) in enumerate(zip(grid, shown, strict=True)):
            _panel(axes, rows)
            first, last = (each.measured[FOCI[name][0]].mean for name in INSIDE)
            told = f"inside: {first:.0f} % → {last:.0f} %"
            head(axes, model_name(each.model), *names[place], told)
            if place % columns == 0:
                axes.set_ylabel("runs")
            if place >= len(shown) - columns:
                axes.set_xlabel(r"centre $\mu$")
        looks = {"start": ("s", GREY), "end, inside": ("^", BLUE), "end, in noise": ("^", ORANGE)}
        marks = [
            Line2D([], [], ls="", marker=marker, color=colour, ms=3.5, label=name,
                   mfc="w" if name == "start" else colour)
            for name, (marker, colour) in looks.items()
        ]  # fmt: skip
        figure.legend(handles=marks, loc="outside upper right", ncols=3, handletextpad=0.1,
                      columnspacing=0.8)  # fmt: skip
        return figure


def _panel(axes: Axes, rows: Rows) -> None:
    first = rows[0]
    region = first["informative_from"], first["informative_to"] + 1
    line = np.linspace(0, first["last_input"], first["inputs"])
    shade_noise(axes, region, line, label=False)
    runs, begin, end = (np.array([row[name] for row in rows]) for name in ("run", "first", "last"))
    inside = np.array([row["inside_last"] for row in rows])
    axes.hlines(runs, np.minimum(begin, end), np.maximum(begin, end), color="0.75", lw=0.5)
    axes.plot(begin, runs, "s", color=GREY, mfc="w", ms=2, mew=0.5)
    for chosen, colour in ((inside, BLUE), (~inside, ORANGE)):
        axes.plot(end[chosen], runs[chosen], "^", color=colour, ms=2.8, mew=0)
    axes.set(yticks=(), ylim=(runs.max() + 1, -1))
    axes.set_xticks((0, 0.5, 1), ("0", "0.5", "1"))
