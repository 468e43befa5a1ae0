"""Figures of training: losses over epochs, time, and how much the best epoch flatters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from focusing.drawing import COLUMN_WIDTH, GREY
from focusing.reports.figures import plotting
from focusing.reports.figures.chart import (
    INTERVALS,
    MEASUREMENTS,
    Chart,
    Charts,
    Edition,
    Row,
    Rows,
    block_columns,
    chart_each,
    editions,
    joined,
    missing,
    never_run,
    or_missing,
    run_count,
    table_tags,
)
from focusing.reports.figures.plotting import BLUE, SKY, draw_point, model_style
from focusing.reports.names import MODELS, data_name, data_order, dense_twin, model_name
from focusing.reports.tables.diagnostics import optimism_tables
from focusing.reports.tables.run_blocks import Block, blocks
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by

COMPARED_MODELS = ("focus_s", "cnn_focus", "vgg_focus", "fasttext_focus")
LOSS_TITLES = {
    "table2_simple": "Losses of simple networks",
    "table2_cnn": "Losses of convolutional networks",
    "table4_other": "Losses on other data",
}
SPLIT_LINES = {"train": ":", "val": "-", "test": "-"}
SPLIT_NAMES = {"val": "validation split", "test": "test data, which chose the paper's epoch"}
Pair = tuple[Block, str]
"""Runs that may be compared, and the focused network that is compared with the dense one."""
TIMING_TITLE = "Time of focused networks relative to dense ones"
TIMING_KINDS = {"train": ("training step", BLUE, "o"), "test": ("test", SKY, "^")}
PUBLISHED_RATIOS = {
    ("synthetic", "train"): 1.3,
    ("mnist", "train"): 24 / 21,
    ("cifar10", "train"): 49 / 42,
    ("mnist", "test"): 0.056 / 0.053,
}
"""The paper's, on a Tesla K40; its text, section Training and test time."""
MAX_OPTIMISM_ROWS = 48
"""Rows of a figure; the table has all."""


def loss_charts(collection: Collection) -> Charts:
    """Loss over epochs, for editions with a dense and a focused network on the same data."""
    charts: Charts = []
    for edition in editions(collection):
        pairs = [
            (block, model)
            for block in sorted(blocks(edition.runs), key=lambda block: data_order(block.data))
            for model in COMPARED_MODELS
            if {model, dense_twin(model)} <= block.models.keys()
        ]
        longest = _longest(pairs)
        rows = [row for panel, pair in enumerate(longest) for row in _loss_rows(panel, *pair)]
        if rows and edition.experiment not in MEASUREMENTS:
            left_out = [pair for pair in pairs if pair not in longest]
            charts.append(
                edition.chart(
                    ("losses",),
                    "Loss of the dense and the focused network",
                    _loss_caption(rows, left_out),
                    rows,
                    partial(_draw_losses, rows),
                )
            )
    return [*charts, *never_run(collection, LOSS_TITLES)]


def _longest(pairs: Sequence[Pair]) -> list[Pair]:
    """The longest training of every network on every data set; none if a sweep has several.

    Of several that are as long, the one whose options are the experiment's.
    """
    longest: list[Pair] = []
    groups = group_by(pairs, lambda pair: (pair[0].data, pair[0].source, pair[1]))
    for group in groups.values():
        epochs = max(map(_epochs, group))
        last = [pair for pair in group if _epochs(pair) == epochs]
        unchanged = [pair for pair in last if not pair[0].options]
        longest += last if len(last) == 1 else unchanged[:1]
    return longest


def _epochs(pair: Pair) -> int:
    block, model = pair
    trainer = block.models[model][0].config.get("trainer") or {}
    return int(trainer.get("max_epochs") or 0)


def _loss_caption(rows: Rows, left_out: Sequence[Pair]) -> str:
    counts = sorted({row["n"] for row in rows})
    runs = "1 run each" if counts == [1] else f"means of {run_count(counts)}"
    splits = {row["split"] for row in rows} - {"train"} or {"test"}
    caption = (
        f"Cross entropy (mean squared error for regression), {runs}. Dotted: training, in training "
        f"mode; solid: {' or '.join(SPLIT_NAMES[split] for split in sorted(splits, reverse=True))}"
        f"{', as each panel says' if len(splits) > 1 else ''}."
    )
    if counts[-1] > 1:
        caption += " Bands: from the lowest to the highest run."
    if left_out:
        names = ", ".join(
            " ".join([data_name(pair[0].data), "of", str(_epochs(pair)), "epochs"]
                     + [o for o in pair[0].options if not o.startswith("trainer.max_epochs=")])
            for pair in left_out
        )  # fmt: skip
        caption += f" The longest training on each data set is drawn; left out: {names}."
    return caption


def _loss_rows(panel: int, block: Block, focused: str) -> list[Row]:
    """Mean, least and greatest loss of the runs of both networks at every epoch."""
    models, check = comparable_runs({m: block.models[m] for m in (dense_twin(focused), focused)})
    about = block_columns(block)
    rows: list[Row] = []
    for model, runs in models.items():
        series = [run.series() for run in runs]
        for split in ("train", check):
            losses = [one[f"{split}/loss"] for one in series if one.get(f"{split}/loss")]
            for epoch, at in enumerate(zip(*losses, strict=False)):
                values = np.array(at, dtype=float)
                rows.append(
                    {"panel": panel, **about, "model": model, "split": split, "epoch": epoch + 1}
                    | {"n": len(values), "mean": float(values.mean())}
                    | {"lowest": float(values.min()), "highest": float(values.max())}
                )
    return rows


def comparable_runs(models: Mapping[str, Sequence[Run]]) -> tuple[dict[str, list[Run]], str]:
    """Runs of all models and the split to show of them, the same in a panel.

    Those with a validation split, if all models have some; else rather those without.
    """
    held_out = {name: [run for run in runs if run.holdout] for name, runs in models.items()}
    if all(held_out.values()):
        every = [run for runs in held_out.values() for run in runs]
        return held_out, "val" if all("val/loss" in run.series() for run in every) else "test"
    whole = {name: [run for run in runs if not run.holdout] for name, runs in models.items()}
    return {name: whole[name] or list(runs) for name, runs in models.items()}, "test"


def _draw_losses(rows: Rows) -> Figure:
    groups = list(group_by(rows, lambda row: row["panel"]).values())
    solid = [_solid_split(points) for points in groups]
    differ = len(set(solid)) > 1
    notes = [f"solid: {split}" for split in solid] if differ else []
    panels = plotting.data_panels([points[0] for points in groups], 1.65, notes)
    for axes, points in zip(panels.axes, groups, strict=True):
        _draw_loss_panel(axes, points)
    panels.label("epochs", "loss")
    models = list(dict.fromkeys(row["model"] for row in rows))
    names = [model_name(model) for model in models] if len(models) == 2 else ["dense", "focused"]
    entries = [
        *(
            plotting.legend_entry(name, model_style(model)[0], "-")
            for model, name in zip(models, names, strict=False)
        ),
        plotting.legend_entry("training", GREY, ":"),
        plotting.legend_entry("see panel" if differ else solid[0], GREY, "-"),
    ]
    panels.figure.legend(handles=entries, loc="outside upper right", ncols=len(entries),
                         fontsize=6.5, handlelength=1.4, columnspacing=1.0)  # fmt: skip
    return panels.figure


def _solid_split(rows: Rows) -> str:
    """What the solid lines show."""
    return "validation" if any(row["split"] == "val" for row in rows) else "test"


def _draw_loss_panel(axes: Axes, rows: Rows) -> None:
    for (model, split), points in group_by(rows, lambda row: (row["model"], row["split"])).items():
        plotting.draw_means(axes, points, "epoch", "mean", colour=model_style(model)[0],
                            line=SPLIT_LINES[split])  # fmt: skip
    positive = [row["lowest"] for row in rows if row["lowest"] > 0]
    if positive and max(row["highest"] for row in rows) / min(positive) > 10:
        plotting.log_axis(axes)
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    if max(row["epoch"] for row in rows) == 1:
        axes.set_xlim(0, 2)


def timing_charts(collection: Collection) -> Charts:
    """What focus costs in time: ratios to the dense twin, where times were measured."""
    charts = chart_each(((edition,) for edition in editions(collection)), _timing_chart)
    return or_missing(charts, TIMING_TITLE, "timing")


def _timing_chart(edition: Edition) -> Chart | None:
    runs = ((block, run) for block in blocks(edition.runs) for run in block.runs)
    rows = [row for block, run in runs for row in _timing_rows(block, run)]
    if not rows:
        return None
    devices = joined(f"{row['device']} (threads: {row['threads']})" for row in rows)
    return edition.chart(
        ("timing",),
        TIMING_TITLE,
        f"Each network and its dense twin took turns in one process on {devices}: medians "
        f"of {joined(row['rounds'] for row in rows)} rounds, from the first to the third "
        "quartile. Test: as trained over folded, which is a dense network. Grey crosses: "
        "the paper's, on a Tesla K40.",
        rows,
        partial(_draw_timing, rows),
    )


def _timing_rows(block: Block, run: Run) -> list[Row]:
    timing = run.measured.get("timing") or {}
    ratios = timing.get("ratio") or {}
    return [
        {
            **block_columns(block),
            "model": run.model,
            "seed": run.seed,
            "kind": kind,
            "ratio": ratios[kind],
            "first_quartile": timing["quartiles"][kind][0],
            "third_quartile": timing["quartiles"][kind][1],
            "paper": PUBLISHED_RATIOS.get((block.data, kind)),
            **{name: timing[name] for name in ("rounds", "device", "threads", "batch_size")},
            "step_seconds": timing["step_seconds"]["as_is"],
            "dense_step_seconds": timing["step_seconds"]["dense"],
            "test_seconds_per_1000": timing["test_seconds"]["as_is"],
            "folded_seconds_per_1000": timing["test_seconds"]["folded"],
        }
        for kind in TIMING_KINDS
        if ratios.get(kind) is not None
    ]


def _draw_timing(rows: Rows) -> Figure:
    names = _timing_names(rows)
    distinct = list(dict.fromkeys(names))
    figure = Figure((COLUMN_WIDTH, 0.8 + 0.42 * len(distinct)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(1, color=GREY, lw=0.8)
    axes.annotate("dense", (1, 1), (2, 2), xycoords=("data", "axes fraction"),
                  textcoords="offset points", fontsize=7, color=GREY)  # fmt: skip
    for row, name in zip(rows, names, strict=True):
        _, colour, marker = TIMING_KINDS[row["kind"]]
        y = distinct.index(name) + (0.16 if row["kind"] == "test" else -0.16)
        draw_point(axes, row["ratio"], y, row["first_quartile"], row["third_quartile"],
                            horizontal=True, style=(colour, marker))  # fmt: skip
        axes.annotate(f"{row['ratio']:.2f}", (row["third_quartile"], y), (4, 0), va="center",
                      textcoords="offset points", fontsize=6.5, color=colour,
                      bbox={"facecolor": "w", "edgecolor": "none", "pad": 0.5})  # fmt: skip
        if row["paper"] is not None:
            axes.plot(row["paper"], y, "x", color=GREY, ms=4, mew=0.9, zorder=1)
    entries = [
        plotting.legend_entry(label, colour, marker=marker)
        for label, colour, marker in TIMING_KINDS.values()
    ]
    if any(row["paper"] is not None for row in rows):
        entries.append(plotting.legend_entry("paper", GREY, marker="x"))
    figure.legend(handles=entries, loc="outside upper right", ncols=3, handletextpad=0.2,
                  columnspacing=1)  # fmt: skip
    axes.set_yticks(range(len(distinct)), distinct)
    axes.set_ylim(len(distinct) - 0.5, -0.5)
    right = max(row[name] or 1.0 for row in rows for name in ("third_quartile", "paper"))
    left = min(1.0, *(row["first_quartile"] for row in rows))
    axes.set_xlim(right=right + 0.14 * (right - left) + 0.02)  # space for the numbers
    axes.set_xlabel("time, focused over dense")
    return figure


def _timing_names(rows: Rows) -> list[str]:
    """Data sets, with the model and the seed where there are several."""
    models, seeds = ({row[name] for row in rows} for name in ("model", "seed"))
    return [
        data_name(row["data"])
        + (f"\n{model_name(row['model'])}" if len(models) > 1 else "")
        + (f", seed {row['seed']}" if len(seeds) > 1 else "")
        for row in rows
    ]


def optimism_charts(collection: Collection) -> Charts:
    """How much the best test epoch flatters: the optimism tables as figures."""
    charts: Charts = []
    tables = optimism_tables(collection)
    for table in tables:
        records = [row for row in table.records if row["unit"] == "percent" and "data" in row]
        if not records:
            continue
        most_runs = sorted(records, key=lambda row: -row["n"])[:MAX_OPTIMISM_ROWS]
        rows = sorted(most_runs, key=_optimism_order)
        hidden = len(records) - len(rows)
        charts.append(
            Chart(
                table.name,
                table.title,
                "Test accuracy at the best test epoch − at the best validation epoch, both of the "
                f"same run: {INTERVALS}; behind each its number of runs."
                + (f" {hidden} more are in its table." if hidden else ""),
                rows,
                partial(_draw_optimism, rows),
                {**table_tags(rows), "protocol": "best_test holdout"},
            )
        )
    lacking = missing("Optimism of the paper's protocol", "table2_simple", "protocol=holdout")
    return charts if tables else [lacking]  # errors have a table only: another unit


def _optimism_order(row: Row) -> tuple[Any, ...]:
    models = [*MODELS, row["model"]]
    return row["experiment"], data_order(row["data"]), row["options"], models.index(row["model"])


def _draw_optimism(rows: Rows) -> Figure:
    figure = Figure((COLUMN_WIDTH, 0.6 + 0.155 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=GREY, lw=0.8)
    for y, row in enumerate(rows):
        x, low, high = (row[name] for name in ("optimism", "low", "high"))
        draw_point(axes, x, y, low, high, style=model_style(row["model"]), size=3.5,
                   horizontal=True)  # fmt: skip
        end = x if high is None else max(high, x)
        axes.annotate(f"n={row['n']}", (end, y), (4, 0), textcoords="offset points",
                      va="center", fontsize=6, color=GREY)  # fmt: skip
    short = [f"{data_name(row['data'])}, {model_name(row['model'])}" for row in rows]
    names = [
        name if short.count(name) == 1 else f"{row['experiment']}: {name} {row['options']}".strip()
        for name, row in zip(short, rows, strict=True)
    ]
    plotting.label_rows(axes, names)
    axes.margins(x=0.12)
    axes.set_xlabel("optimism (points of accuracy)")
    return figure
