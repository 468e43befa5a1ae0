"""Figures of means with intervals: the paper's tables, all settings, times, optimism."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from textwrap import shorten
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from focusing.drawing import COLUMN_WIDTH, GREY
from focusing.reports.figures import plotting
from focusing.reports.figures.chart import (
    INTERVAL_NOTE,
    MEASUREMENT_EXPERIMENTS,
    PROTOCOL_TITLES,
    Chart,
    Charts,
    Row,
    Rows,
    Runs,
    chart,
    count_range,
    join_distinct,
    protocols_to_show,
    run_count,
)
from focusing.reports.figures.curve_figures import score_rows, swept_option
from focusing.reports.figures.plotting import ROW_HEIGHT, Dot, draw_dots, model_style
from focusing.reports.names import (
    MODELS,
    data_name,
    data_order,
    edition_words,
    label_words,
    model_name,
    option_words,
)
from focusing.reports.paper import published_tables
from focusing.reports.plans import labels
from focusing.reports.settings import Setting
from focusing.reports.tables.diagnostics import optimism_tables
from focusing.reports.tables.experiments import limited_note, varied_note
from focusing.reports.tables.files import all_tables
from focusing.results.collect import Run
from focusing.results.frame import group_by, stuck_share

TABLE_TITLES = {name: table.title for name, table in published_tables().items()}
SETTING_TITLES = {
    "topology": "Foci on a line against foci in the picture",
    "focus_functions": "Focus functions",
    "rescue": "What helps neurons that are stuck in noise",
}
MAX_SETTING_ROWS, MAX_OPTIMISM_ROWS = 40, 48
"""Most rows of a figure; the table has all."""
MAX_COLUMNS = 3
"""Most panels side by side; their rows have long names."""
MAX_NAME, MAX_COLUMN_NAME = 80, 40
"""Most characters of a row's name, and of one that leaves room for a panel in a column's width."""
OPTIMISM_TITLE = "How much the best test epoch flatters"
TIMING_TITLE = "Time of focused networks relative to dense ones"
TIMING_KINDS = {
    "train": ("training step", plotting.SERIES_COLOURS[0], "o"),
    "test": ("test", plotting.SERIES_COLOURS[1], "^"),
}
"""Kind of time -> name, colour and marker."""
PUBLISHED_RATIOS = {
    ("synthetic", "train"): 1.3,
    ("mnist", "train"): 24 / 21,
    ("cifar10", "train"): 49 / 42,
    ("mnist", "test"): 0.056 / 0.053,
}
"""Ratios on a Tesla K40, from the paper's section on training and test time."""


def table_charts(runs: Runs) -> Charts:
    """The paper's tables as figures: our means with intervals, the published means as bars."""
    for table in all_tables(runs.collection):
        records = [row for row in table.records if row.get("table") in published_tables()]
        for protocol in protocols_to_show(row["protocol"] for row in records):
            rows = [row for row in records if row["protocol"] == protocol]
            held_out = any(row["trained_on"] != "all" for row in rows)
            caption = (
                f"{PROTOCOL_TITLES[protocol].capitalize()}, {run_count(row['n'] for row in rows)} "
                f"each: {INTERVAL_NOTE}."
                + (" Grey bars: the paper's means." if any(map(_is_published, rows)) else "")
                + (" Of runs that kept part of the training data for validation." * held_out)
            )
            words = [protocol] if protocol != "best_test" else []
            title = published_tables()[rows[0]["table"]].title
            tags = {"experiment": rows[0]["table"], "protocol": protocol}
            yield _table_chart(
                f"{table.name}_{protocol}", title, words, caption, rows, _draw_table, **tags
            )


def _table_chart(
    name: str,
    title: str,
    words: Sequence[str],
    caption: str,
    rows: Rows,
    draw: Callable[[Rows], Figure],
    **tags: str,
) -> Chart:
    """Make a chart of a table's records; its title ends with the edition and ``words``."""
    words = [*edition_words(rows[0]["size"], rows[0]["variant"]), *words]
    title = f"{title} ({', '.join(words)})" if words else title
    columns = ("experiment", "size", "variant", "data", "model")
    known = {key: join_distinct(row[key] for row in rows) for key in columns if key in rows[0]}
    return Chart(name, title, caption, rows, partial(draw, rows), {**known, **tags})


def _is_published(row: Row) -> bool:
    """Whether the row may be compared with a published number."""
    return row["minus_published"] is not None


def _draw_table(rows: Rows) -> Figure:
    groups = list(group_by(rows, itemgetter("data", "source", "options")).values())
    names = [[model_name(row["model"]) for row in points] for points in groups]
    notes = [f"n = {count_range(row['n'] for row in points)}" for points in groups]
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
        axes.set_xlabel(plotting.score_label(points[0]["unit"]))
        ticks = MaxNLocator(4, min_n_ticks=2, steps=[1, 2, 5, 10])  # labels would touch
        axes.xaxis.set_major_locator(ticks)
        axes.margins(x=0.1)
    if any(map(_is_published, rows)):
        bar = plotting.legend_entry("the paper", GREY, "-", lw=2.5, alpha=0.5)
        plotting.legend_above(panels.figure, [bar])
    return panels.figure


def setting_charts(runs: Runs) -> Charts:
    """All settings of an edition in rows, unless they sweep a single number."""
    for edition in runs.editions:
        settings = edition.settings
        places = {(setting.data, setting.source) for setting in settings}
        if (
            edition.experiment in (*published_tables(), *MEASUREMENT_EXPERIMENTS)
            or len(places) == len(settings)
            or swept_option(settings) is not None
        ):
            continue
        title = SETTING_TITLES.get(edition.experiment, "Scores of all settings")
        for protocol, scored in score_rows(edition).items():
            if len(set(labels(list(scored)))) > MAX_SETTING_ROWS:
                continue
            for setting, row in scored.items():
                values = setting.scores[protocol].values.values()
                row["runs"] = " ".join(f"{value:.6g}" for value in values)
                shares = _stuck_shares(setting)
                row["stuck_percent"] = " ".join(f"{share:.4g}" for share in shares)
            yield chart(
                edition, (edition.experiment, protocol), title, _setting_caption(scored, protocol),
                list(scored.values()), partial(_draw_settings, scored, protocol),
                protocol=protocol,
            )  # fmt: skip


def _stuck_shares(setting: Setting) -> list[float]:
    """Percent of stuck neurons at the end of every run, as far as counted."""
    return [share for run in setting.runs if (share := stuck_share(run)) is not None]


def _setting_caption(scored: Mapping[Setting, Row], protocol: str) -> str:
    counts = [row["n"] for row in scored.values()]
    sentences = [f"{PROTOCOL_TITLES[protocol].capitalize()}, {run_count(counts)} each."]
    if max(counts) > 1:
        sentences.append(f"Filled: {INTERVAL_NOTE}; small and pale: single runs.")
    if any(map(any, map(_stuck_shares, scored))):
        sentences.append("Stuck: neurons that went nowhere and see nothing, means and single runs.")
    return " ".join([*sentences, *varied_note(list(scored)), *limited_note(list(scored))])


def _draw_settings(scored: Mapping[Setting, Row], protocol: str) -> Figure:
    settings = sorted(scored, key=lambda setting: [*MODELS, setting.model].index(setting.model))
    panels = group_by(settings, lambda setting: (setting.data, setting.source))
    places = sorted(sorted(panels), key=lambda place: data_order(place[0]))
    names = dict(zip(settings, map(label_words, labels(settings)), strict=True))
    distinct = list(dict.fromkeys(names.values()))
    stuck = len(places) == 1 and any(map(any, map(_stuck_shares, settings)))
    count = len(places) + stuck
    wide = count > 1 or max(map(len, distinct)) > MAX_COLUMN_NAME
    width = plotting.PAGE_WIDTH if wide else COLUMN_WIDTH
    height = 0.8 + ROW_HEIGHT * len(distinct)
    multiples = plotting.small_multiples(
        count, height, max_columns=MAX_COLUMNS, width=width, sharey=True
    )
    grid = multiples.axes

    def dot(setting: Setting, mean: float, low: Any, high: Any, runs: Sequence[float]) -> Dot:
        row = distinct.index(names[setting])
        return Dot(row, mean, model_style(setting.model), low, high, runs)

    for axes, place in zip(grid, places, strict=False):
        dots = []
        for setting in panels[place]:
            row, runs = scored[setting], list(setting.scores[protocol].values.values())
            dots.append(dot(setting, row["mean"], row["low"], row["high"], runs))
        axes.set_xlabel(plotting.score_label(panels[place][0].unit.name))
        counts = count_range(scored[setting]["n"] for setting in panels[place])
        plotting.panel_title(axes, data_name(place[0]), f"{place[1]}, n = {counts}")
        draw_dots(axes, dots, distinct, size=3.5)
    if stuck:
        shares = {setting: _stuck_shares(setting) for setting in settings}
        means = {setting: sum(runs) / len(runs) for setting, runs in shares.items() if runs}
        dots = [dot(setting, mean, mean, mean, shares[setting]) for setting, mean in means.items()]
        grid[1].set(xlabel="stuck neurons (%)", xlim=(-4, 104))
        draw_dots(grid[1], dots, distinct, size=3.5)
    return multiples.figure


def timing_charts(runs: Runs) -> Charts:
    """Time of focused networks as a ratio to their dense twins, where it was measured."""
    for edition in runs.editions:
        measured = [(setting, run) for setting in edition.settings for run in setting.runs]
        rows = [row for setting, run in measured for row in _timing_rows(setting, run)]
        if not rows:
            continue
        devices = join_distinct(f"{row['device']} (threads: {row['threads']})" for row in rows)
        caption = (
            f"Each network and its dense twin took turns in one process on {devices}: medians "
            f"of {join_distinct(row['rounds'] for row in rows)} rounds, from the first to the "
            "third quartile. Test: as trained over folded, which is a dense network; windows are "
            "compared with the dense network on the whole frame. Grey bars: the paper's, on a "
            "Tesla K40."
        )
        yield chart(edition, ("timing",), TIMING_TITLE, caption, rows, partial(_draw_timing, rows))


def _timing_rows(setting: Setting, run: Run) -> list[Row]:
    timing = run.measured.get("timing") or {}
    ratios = timing.get("ratio") or {}
    return [
        {
            **setting.block_columns(),
            "model": run.model,
            "seed": run.seed,
            "kind": kind,
            "ratio": ratios[kind],
            "first_quartile": timing["quartiles"][kind][0],
            "third_quartile": timing["quartiles"][kind][1],
            "paper": PUBLISHED_RATIOS.get((setting.data, kind)),
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


def optimism_charts(runs: Runs) -> Charts:
    """The optimism tables as figures, from three runs on."""
    tables = optimism_tables(runs.collection)
    if not tables:
        runs.note_missing(OPTIMISM_TITLE, "table2_simple", "protocol=holdout")
    for table in tables:
        # Errors are in the table only: they have another unit.
        records = [row for row in table.records if row["unit"] == "percent" and "data" in row]
        if max((row["n"] for row in records), default=0) < 3:
            continue
        most_runs = sorted(records, key=lambda row: -row["n"])[:MAX_OPTIMISM_ROWS]
        rows = sorted(most_runs, key=_optimism_order)
        hidden = len(records) - len(rows)
        caption = (
            "Test accuracy at the best test epoch − at the best validation epoch, both of the "
            f"same run: {INTERVAL_NOTE}; behind each its number of runs."
            + (f" {hidden} more are in its table." if hidden else "")
        )
        tags = {"protocol": "best_test holdout"}
        yield _table_chart(table.name, OPTIMISM_TITLE, [], caption, rows, _draw_optimism, **tags)


def _optimism_order(row: Row) -> tuple[Any, ...]:
    models = [*MODELS, row["model"]]
    return row["experiment"], data_order(row["data"]), row["options"], models.index(row["model"])


def _draw_optimism(rows: Rows) -> Figure:
    short = [f"{data_name(row['data'])}, {model_name(row['model'])}" for row in rows]
    names = []
    for name, row in zip(short, rows, strict=True):
        words = [f"{row['experiment']}: {name}", *map(option_words, row["options"].split())]
        whole = name if short.count(name) == 1 else ", ".join(words)
        names.append(shorten(whole, MAX_NAME, placeholder=" …"))
    width = plotting.PAGE_WIDTH if max(map(len, names)) > MAX_NAME / 2 else COLUMN_WIDTH
    figure = Figure((width, 0.6 + ROW_HEIGHT * len(rows)), layout="constrained")
    axes = figure.subplots()
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
