"""What focus costs in time: ratios to the dense twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from focusing.drawing import COLUMN_WIDTH, GREY, figure_style
from focusing.reports.figures.chart import Chart, Drawn, missing
from focusing.reports.figures.chart_layout import BLUE, SKY, whisker
from focusing.reports.figures.chart_runs import Edition, editions, joined
from focusing.reports.names import data_name, model_name
from focusing.reports.tables.blocks import Block, blocks
from focusing.results.collect import Collection
from focusing.results.stats import Interval

TITLE = "Time of focused networks relative to dense ones"
KINDS = {"train": ("training step", BLUE, "o"), "test": ("test", SKY, "^")}
PUBLISHED = {
    ("synthetic", "train"): 1.3,
    ("mnist", "train"): 24 / 21,
    ("cifar10", "train"): 49 / 42,
    ("mnist", "test"): 0.056 / 0.053,
}
"""The paper's, on a Tesla K40; its text, section Training and test time."""
Rows = list[Mapping[str, Any]]


def timing_charts(collection: Collection) -> Drawn:
    """A figure for each experiment, size and variant in which times were measured."""
    drawn: Drawn = []
    for edition in editions(collection):
        rows = [
            row
            for block in blocks(edition.runs)
            for model in block.models
            for row in _rows(block, model)
        ]
        if rows:
            drawn.append(_chart(edition, rows))
    return drawn or [missing(TITLE, "timing")]


def _rows(block: Block, model: str) -> Rows:
    found: Rows = []
    for run in block.models[model]:
        timing = run.measured.get("timing") or {}
        for kind in KINDS:
            ratio = (timing.get("ratio") or {}).get(kind)
            if ratio is None:
                continue
            low, high = timing["quartiles"][kind]
            found.append(
                {
                    "data": block.data,
                    "source": block.source,
                    "options": " ".join(block.options),
                    "model": model,
                    "seed": run.seed,
                    "kind": kind,
                    "ratio": ratio,
                    "first_quartile": low,
                    "third_quartile": high,
                    "paper": PUBLISHED.get((block.data, kind)),
                    "rounds": timing["rounds"],
                    "device": timing["device"],
                    "threads": timing["threads"],
                    "batch_size": timing["batch_size"],
                    "step_seconds": timing["step_seconds"]["as_is"],
                    "dense_step_seconds": timing["step_seconds"]["dense"],
                    "test_seconds_per_1000": timing["test_seconds"]["as_is"],
                    "folded_seconds_per_1000": timing["test_seconds"]["folded"],
                }
            )
    return found


def _chart(edition: Edition, rows: Rows) -> Chart:
    devices = joined(f"{row['device']} (threads: {row['threads']})" for row in rows)
    rounds = joined(row["rounds"] for row in rows)
    return Chart(
        edition.name("timing"),
        f"{TITLE} {edition.title}",
        f"Each network and its dense twin took turns in one process on {devices}: medians of "
        f"{rounds} rounds, from the first to the third quartile. Test: as trained over folded, "
        "which is a dense network. Grey crosses: the paper's, on a Tesla K40.",
        tuple(rows),
        partial(_draw, rows),
        edition.tags(
            data=joined(row["data"] for row in rows), model=joined(row["model"] for row in rows)
        ),
    )


def _draw(rows: Rows) -> Figure:
    names = list(dict.fromkeys(_name(row, rows) for row in rows))
    with figure_style():
        figure = Figure((COLUMN_WIDTH, 0.8 + 0.42 * len(names)), layout="constrained")
        axes = figure.subplots()
        axes.axvline(1, color=GREY, lw=0.8)
        axes.annotate("dense", (1, 1), (2, 2), xycoords=("data", "axes fraction"),
                      textcoords="offset points", fontsize=7, color=GREY)  # fmt: skip
        for row in rows:
            _, colour, marker = KINDS[row["kind"]]
            y = names.index(_name(row, rows)) + (0.16 if row["kind"] == "test" else -0.16)
            quartiles = Interval(row["first_quartile"], row["third_quartile"], "quartiles")
            whisker(axes, row["ratio"], y, quartiles, along="x", color=colour, marker=marker)
            axes.annotate(f"{row['ratio']:.2f}", (row["third_quartile"], y), (4, 0), va="center",
                          textcoords="offset points", fontsize=6.5, color=colour,
                          bbox={"facecolor": "w", "edgecolor": "none", "pad": 0.5})  # fmt: skip
            if row["paper"] is not None:
                axes.plot(row["paper"], y, "x", color=GREY, ms=4, mew=0.9, zorder=1)
        for words, colour, marker in KINDS.values():
            axes.plot([], [], marker, color=colour, label=words, ms=4)
        if any(row["paper"] is not None for row in rows):
            axes.plot([], [], "x", color=GREY, label="paper", ms=4)
        figure.legend(loc="outside upper right", ncols=3, handletextpad=0.2, columnspacing=1)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlim(right=_right(rows))
        axes.set_xlabel("time, focused over dense")
        return figure


def _right(rows: Rows) -> float:
    """Room for the numbers."""
    values: list[float] = [row[name] or 1.0 for row in rows for name in ("third_quartile", "paper")]
    low: float = min(1.0, *(row["first_quartile"] for row in rows))
    return max(values) + 0.14 * (max(values) - low) + 0.02


def _name(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    several = len({each["model"] for each in rows}) > 1
    named = f"{data_name(row['data'])}" + (f"\n{model_name(row['model'])}" if several else "")
    seeds = {each["seed"] for each in rows}
    return f"{named}, seed {row['seed']}" if len(seeds) > 1 else named
