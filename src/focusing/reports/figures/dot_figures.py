"""Figures of means with intervals: the paper's tables, settings, times and optimism."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from matplotlib.figure import Figure

from focusing.drawing import COLUMN_WIDTH, GREY
from focusing.reports.figures import plotting
from focusing.reports.figures.chart import (
    INTERVALS,
    MEASUREMENTS,
    PROTOCOL_TITLES,
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
    numbers,
    or_missing,
    protocols_to_show,
    run_count,
    score_charts,
    table_tags,
    titled,
)
from focusing.reports.figures.curve_figures import swept_option
from focusing.reports.figures.plotting import (
    INKS,
    PAGE_WIDTH,
    ROW_HEIGHT,
    Dot,
    draw_dots,
    model_style,
    score_label,
)
from focusing.reports.names import (
    MODELS,
    data_name,
    data_order,
    edition_words,
    label_words,
    model_name,
)
from focusing.reports.paper import published_tables
from focusing.reports.tables.diagnostics import optimism_tables
from focusing.reports.tables.experiments import limited_note
from focusing.reports.tables.files import all_tables
from focusing.reports.tables.run_blocks import Block, blocks
from focusing.reports.tables.settings import Setting, labels, settings_of, varied_note
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by, stuck_share

SETTING_TITLES = {
    "topology": "Foci on a line against foci in the picture",
    "focus_functions": "Focus functions",
    "rescue": "What helps neurons that are stuck in noise",
}
MAX_SETTINGS, MAX_OPTIMISM_ROWS = 40, 48
"""Rows of a figure; the table has all."""
OPTIMISM_TITLE = "How much the best test epoch flatters"
TIMING_TITLE = "Time of focused networks relative to dense ones"
TIMING_KINDS = {"train": ("training step", INKS[0], "o"), "test": ("test", INKS[1], "^")}
PUBLISHED_RATIOS = {
    ("synthetic", "train"): 1.3,
    ("mnist", "train"): 24 / 21,
    ("cifar10", "train"): 49 / 42,
    ("mnist", "test"): 0.056 / 0.053,
}
"""The paper's, on a Tesla K40; its text, section Training and test time."""


def table_charts(collection: Collection) -> Charts:
    """The paper's tables as figures: ours with intervals beside the published means."""
    charts: Charts = []
    ran = set()
    for table in all_tables(collection):
        records = [row for row in table.records if row.get("table") in published_tables()]
        ran |= {row["table"] for row in records}
        for protocol in protocols_to_show(row["protocol"] for row in records) if records else ():
            rows = [row for row in records if row["protocol"] == protocol]
            charts.append(_table_chart(f"{table.name}_{protocol}", protocol, rows))
    lacking = [name for name in published_tables() if name not in ran]
    return [*charts, *(missing(published_tables()[name].title, name) for name in lacking)]


def _table_chart(name: str, protocol: str, rows: Rows) -> Chart:
    experiment, size, variant = (rows[0][key] for key in ("table", "size", "variant"))
    held_out = any(row["trained_on"] != "all" for row in rows)
    words = [*edition_words(size, variant), *([] if protocol == "best_test" else [protocol])]
    return Chart(
        name,
        titled(published_tables()[experiment].title, *words),
        f"{PROTOCOL_TITLES[protocol].capitalize()}, {run_count(row['n'] for row in rows)} each: "
        f"{INTERVALS}."
        + (" Grey bars: the paper's means." if any(map(_is_published, rows)) else "")
        + (" Of runs that kept part of the training data for validation." if held_out else ""),
        rows,
        partial(_draw_table, rows),
        {**table_tags(rows), "experiment": experiment, "protocol": protocol},
    )


def _is_published(row: Row) -> bool:
    """There is a published number that the row may be compared with."""
    return row["minus_published"] is not None


def _draw_table(rows: Rows) -> Figure:
    groups = list(group_by(rows, itemgetter("data", "source", "options")).values())
    names = [[model_name(row["model"]) for row in points] for points in groups]
    notes = [numbers(row["n"] for row in points) for points in groups]
    height = 0.95 + 1.15 * ROW_HEIGHT * max(map(len, groups))
    panels = plotting.data_panels([points[0] for points in groups], height, notes)
    for number, (axes, points) in enumerate(zip(panels.axes, groups, strict=True)):
        repeated = number % panels.columns and names[number] == names[number - 1]
        dots = [
            Dot(place, row["mean"], model_style(row["model"]), row["low"], row["high"],
                [row["best"], 2 * row["mean"] - row["best"]] if row["n"] == 2 else (),
                row["published_mean"] if _is_published(row) else None)
            for place, row in enumerate(points)
        ]  # fmt: skip
        draw_dots(axes, dots, [""] * len(points) if repeated else names[number])
        axes.set_xlabel(score_label(points[0]["unit"]))
        plotting.few_ticks(axes)
        axes.margins(x=0.1)
    if any(map(_is_published, rows)):
        bar = plotting.legend_entry("the paper", GREY, "-", lw=2.5, alpha=0.5)
        plotting.legend_above(panels.figure, [bar])
    return panels.figure


def setting_charts(collection: Collection) -> Charts:
    """All settings of an experiment below each other, unless it is a sweep of one number."""
    charts: Charts = []
    for edition in editions(collection):
        settings = settings_of(edition.runs)
        places = {setting.data for setting in settings}
        if (
            edition.experiment not in (*published_tables(), *MEASUREMENTS)
            and len(places) < len(settings) <= MAX_SETTINGS
            and swept_option(settings) is None
        ):
            title = SETTING_TITLES.get(edition.experiment, "Scores of all settings")
            charts += score_charts(edition, settings, title, _setting_row, _setting_caption,
                                   _draw_settings)  # fmt: skip
    return [*charts, *never_run(collection, SETTING_TITLES)]


def _setting_row(setting: Setting, protocol: str) -> Row:
    return {
        **setting.scores[protocol].record(),
        "runs": " ".join(f"{v:.6g}" for v in setting.scores[protocol].values.values()),
        "stuck_percent": " ".join(f"{share:.4g}" for share in _stuck_shares(setting)),
    }


def _stuck_shares(setting: Setting) -> list[float]:
    """Percent of the neurons with trained foci that were stuck at the end of the runs."""
    return [share for run in setting.runs if (share := stuck_share(run)) is not None]


def _setting_caption(settings: Sequence[Setting], rows: Rows, protocol: str) -> str:
    counts = [row["n"] for row in rows]
    sentences = [f"{PROTOCOL_TITLES[protocol].capitalize()}, {run_count(counts)} each."]
    if max(counts) > 1:
        sentences.append(f"Filled: {INTERVALS}; small and pale: single runs.")
    if any(map(any, map(_stuck_shares, settings))):
        sentences.append("Stuck: neurons that went nowhere and see nothing, means and single runs.")
    return " ".join([*sentences, *varied_note(settings), *limited_note(settings)])


def _draw_settings(settings: Sequence[Setting], rows: Rows, protocol: str) -> Figure:
    places = sorted({setting.data for setting in settings}, key=lambda place: data_order(place[0]))
    names = list(map(label_words, labels(settings)))
    distinct = list(dict.fromkeys(names))
    stuck = len(places) == 1 and any(map(any, map(_stuck_shares, settings)))
    count = len(places) + stuck
    width = PAGE_WIDTH if count > 1 else COLUMN_WIDTH
    figure = Figure((width, 0.8 + ROW_HEIGHT * len(distinct)), layout="constrained")
    grid = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for place, axes in enumerate(grid):
        here = [
            (distinct.index(name), setting, row)
            for name, setting, row in zip(names, settings, rows, strict=True)
            if place == len(places) or setting.data == places[place]
        ]
        if place < len(places):
            dots = [
                Dot(at, row["mean"], model_style(setting.model), row["low"], row["high"],
                    list(setting.scores[protocol].values.values()))
                for at, setting, row in here
            ]  # fmt: skip
            axes.set_xlabel(score_label("mae" if here[0][1].runs[0].metric == "mae" else "percent"))
            note = numbers(row["n"] for _, _, row in here)
            plotting.panel_title(axes, data_name(places[place][0]), f"{places[place][1]}, {note}")
        else:
            shares = [(at, _stuck_shares(setting), setting.model) for at, setting, _ in here]
            dots = [
                Dot(at, mean, model_style(model), mean, mean, values)
                for at, values, model in shares
                if values and (mean := sum(values) / len(values)) is not None
            ]
            axes.set(xlabel="stuck neurons (%)", xlim=(-4, 104))
        draw_dots(axes, dots, distinct, size=3.5)
    return figure


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
        "quartile. Test: as trained over folded, which is a dense network. Grey bars: "
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
    models, seeds = ({row[name] for row in rows} for name in ("model", "seed"))
    names = [
        data_name(row["data"])
        + (f", {model_name(row['model'])}" if len(models) > 1 else "")
        + (f", seed {row['seed']}" if len(seeds) > 1 else "")
        for row in rows
    ]
    distinct = list(dict.fromkeys(names))
    figure = Figure((COLUMN_WIDTH, 0.8 + 0.42 * len(distinct)), layout="constrained")
    axes = figure.subplots()
    dots = [
        Dot(distinct.index(name), row["ratio"], TIMING_KINDS[row["kind"]][1:],
            row["first_quartile"], row["third_quartile"], published=row["paper"],
            shift=0.18 if row["kind"] == "test" else -0.18, note=f"{row['ratio']:.2f}")
        for row, name in zip(rows, names, strict=True)
    ]  # fmt: skip
    draw_dots(axes, dots, distinct)
    axes.axvline(1, color="k", lw=0.7, zorder=1)
    axes.annotate("dense", (1, 1), (0, 2), xycoords=("data", "axes fraction"), ha="center",
                  textcoords="offset points", fontsize=7, color=GREY)  # fmt: skip
    entries = [
        plotting.legend_entry(label, colour, marker=marker)
        for label, colour, marker in TIMING_KINDS.values()
    ]
    if any(row["paper"] is not None for row in rows):
        entries.append(plotting.legend_entry("paper", GREY, "-", lw=2.5, alpha=0.5))
    plotting.legend_above(figure, entries)
    right = max(row[name] or 1.0 for row in rows for name in ("third_quartile", "paper"))
    left = min(1.0, *(row["first_quartile"] for row in rows))
    axes.set_xlim(right=right + 0.16 * (right - left) + 0.02)  # space for the numbers
    axes.set_xlabel("time, focused over dense")
    return figure


def optimism_charts(collection: Collection) -> Charts:
    """How much the best test epoch flatters: the optimism tables as figures, from three runs on."""
    charts: Charts = []
    tables = optimism_tables(collection)
    for table in tables:
        records = [row for row in table.records if row["unit"] == "percent" and "data" in row]
        if max((row["n"] for row in records), default=0) < 3:
            continue
        most_runs = sorted(records, key=lambda row: -row["n"])[:MAX_OPTIMISM_ROWS]
        rows = sorted(most_runs, key=_optimism_order)
        hidden = len(records) - len(rows)
        words = edition_words(rows[0]["size"], rows[0]["variant"])
        charts.append(
            Chart(
                table.name,
                titled(OPTIMISM_TITLE, *words),
                "Test accuracy at the best test epoch − at the best validation epoch, both of the "
                f"same run: {INTERVALS}; behind each its number of runs."
                + (f" {hidden} more are in its table." if hidden else ""),
                rows,
                partial(_draw_optimism, rows),
                {**table_tags(rows), "protocol": "best_test holdout"},
            )
        )
    lacking = missing(OPTIMISM_TITLE, "table2_simple", "protocol=holdout")
    return charts if tables else [lacking]  # errors have a table only: another unit


def _optimism_order(row: Row) -> tuple[Any, ...]:
    models = [*MODELS, row["model"]]
    return row["experiment"], data_order(row["data"]), row["options"], models.index(row["model"])


def _draw_optimism(rows: Rows) -> Figure:
    figure = Figure((COLUMN_WIDTH, 0.6 + ROW_HEIGHT * len(rows)), layout="constrained")
    axes = figure.subplots()
    short = [f"{data_name(row['data'])}, {model_name(row['model'])}" for row in rows]
    names = [
        name if short.count(name) == 1 else f"{row['experiment']}: {name} {row['options']}".strip()
        for name, row in zip(short, rows, strict=True)
    ]
    dots = [
        Dot(place, row["optimism"], model_style(row["model"]), row["low"], row["high"],
            note=f"n={row['n']}")
        for place, row in enumerate(rows)
    ]  # fmt: skip
    draw_dots(axes, dots, names, size=3.5)
    axes.axvline(0, color="k", lw=0.7, zorder=1)
    axes.margins(x=0.12)
    axes.set_xlabel("optimism (points of accuracy)")
    return figure
