"""How much the best test epoch flatters: the optimism table as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from focusing.drawing import COLUMN_WIDTH, GREY, figure_style
from focusing.reports.figures.chart import Chart, Drawn, missing
from focusing.reports.figures.chart_layout import look, whisker
from focusing.reports.figures.chart_runs import joined
from focusing.reports.names import MODELS, data_name, data_order, model_name
from focusing.reports.tables.diagnostics import optimism_tables
from focusing.results.collect import Collection
from focusing.results.stats import Interval

MOST = 48
"""Lines of a figure; the table has all."""
Rows = list[Mapping[str, Any]]


def optimism_charts(collection: Collection) -> Drawn:
    """A figure for each size and variant with runs that kept a validation split."""
    drawn: Drawn = []
    found = optimism_tables(collection)
    for table in found:
        rows = [row for row in table.records if row["unit"] == "percent" and "data" in row]
        if not rows:
            continue
        shown = sorted(rows, key=lambda row: -row["n"])[:MOST]
        kept = sorted(shown, key=_order)
        left = f" {len(rows) - len(kept)} more are in its table." if len(kept) < len(rows) else ""
        drawn.append(
            Chart(
                table.name,
                table.title,
                "Test accuracy at the best test epoch − at the best validation epoch, both of the "
                "same run: means with 95 % intervals (Student's t; bootstrap from 20 runs on); "
                f"behind each its number of runs.{left}",
                tuple(kept),
                partial(_draw, kept),
                {
                    "size": str(rows[0]["size"]),
                    "variant": str(rows[0]["variant"]),
                    "data": joined(row["data"] for row in kept),
                    "model": joined(row["model"] for row in kept),
                    "protocol": "paper holdout",
                },
            )
        )
    lacking = missing("Optimism of the paper's protocol", "table2_simple", "protocol=holdout")
    return drawn if found else [lacking]  # errors have a table only: another unit


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    models = [*MODELS, row["model"]]
    return row["experiment"], data_order(row["data"]), row["options"], models.index(row["model"])


def _draw(rows: Rows) -> Figure:
    with figure_style():
        figure = Figure((COLUMN_WIDTH, 0.6 + 0.155 * len(rows)), layout="constrained")
        axes = figure.subplots()
        axes.axvline(0, color=GREY, lw=0.8)
        for place, row in enumerate(rows):
            colour, marker = look(row["model"])
            interval = None if row["low"] is None else Interval(row["low"], row["high"], "")
            look_ = {"color": colour, "marker": marker, "size": 3.5}
            whisker(axes, row["optimism"], place, interval, along="x", **look_)
            end = row["optimism"] if row["high"] is None else max(row["high"], row["optimism"])
            axes.annotate(f"n={row['n']}", (end, place), (4, 0), textcoords="offset points",
                          va="center", fontsize=6, color=GREY)  # fmt: skip
        axes.set_yticks(range(len(rows)), _names(rows))
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.12)
        axes.set_xlabel("optimism (points of accuracy)")
        return figure


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Data, model, and the experiment or options where they tell lines apart."""
    short = [f"{data_name(row['data'])}, {model_name(row['model'])}" for row in rows]
    return [
        name if short.count(name) == 1 else f"{row['experiment']}: {name} {row['options']}".strip()
        for name, row in zip(short, rows, strict=True)
    ]
