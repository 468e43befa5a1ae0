"""Figures of foci: before and after training, their paths, of all runs, and a film."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from focusing import drawing
from focusing.drawing import GREY, LayerFoci
from focusing.reports.figures import plotting
from focusing.reports.figures.chart import (
    MEASUREMENT_EXPERIMENTS,
    Charts,
    Row,
    Rows,
    Runs,
    chart,
    data_seed,
    describe_run,
    median_run,
)
from focusing.reports.foci import focus_columns
from focusing.reports.names import data_name, model_name, option_words
from focusing.reports.plans import short_labels
from focusing.reports.run_figures import draw_paths, layer_figures
from focusing.reports.settings import Edition, Setting
from focusing.reports.tables.experiments import varied_note
from focusing.results.arrays import evenly_spaced
from focusing.results.collect import Run
from focusing.results.frame import FOCI

EXPECTED = {
    "learning_to_focus": "Foci that leave noise on the left",
    "sides": "Foci that leave noise on both sides",
    "stuck": "Foci that are stuck in noise",
}
MAX_SETTINGS_WITH_FOCI = 4
"""Most settings of an edition whose foci are drawn: a sweep would fill pages."""
LAYER_TITLES = {
    "foci": "Foci before and after training",
    "trajectory": "Paths of the foci",
    "weights": "Focused weights before and after training",
}
LAYER_CAPTIONS = {
    "foci": "Dotted: initial, solid: final.",
    "trajectory": "From the square to the triangle.",
    "weights": "Focused weights phi o W of single neurons; dotted: initial, solid: final.",
}
MAX_MOVE_PANELS = 12
"""Most settings in a figure of all runs."""
RUN_HEIGHT = 0.07
"""Height of a run in such a figure, in inches."""
IN_NOISE, INSIDE, *_ = plotting.SERIES_COLOURS
"""Colours of foci that end in noise or among the informative columns."""
PATH_EXPERIMENTS = ("table2_simple", "table2_cnn", "table3_transfer", "topology")
FILM_TITLE = "Moving foci"
FILM_EXPERIMENTS = ("learning_to_focus", "sides")
"""Experiments that are preferred for the film."""
FRAMES, FPS = 40, 8


def foci_charts(runs: Runs) -> Charts:
    """Foci, paths and weights of a median run, for every setting with few neurons."""
    for edition in runs.editions:
        settings = [setting for setting in edition.settings if setting.runs[0].focus]
        if len(settings) > MAX_SETTINGS_WITH_FOCI or edition.experiment in MEASUREMENT_EXPERIMENTS:
            continue
        for number, setting in enumerate(settings):
            run = median_run(setting.runs)
            for foci in runs.foci(run):
                if foci.neurons > drawing.MAX_CURVES:
                    continue
                for kind, rows in _layer_rows(foci).items():
                    yield chart(
                        edition, (kind, *([str(number + 1)] if number else []), foci.layer),
                        LAYER_TITLES[kind],
                        f"{_describe(setting, run, foci)}. {LAYER_CAPTIONS[kind]}"
                        f"{_noise_note(foci)}",
                        rows, partial(lambda foci, kind: layer_figures(foci)[kind], foci, kind),
                        data=[run.data], model=[run.model],
                    )  # fmt: skip


def _describe(setting: Setting, run: Run, foci: LayerFoci) -> str:
    about = f"{data_name(run.data)} ({run.source}), {model_name(run.model)}, {foci.layer}"
    return ", ".join([about, *map(option_words, setting.label()), describe_run(run, setting.runs)])


def _noise_note(foci: LayerFoci) -> str:
    return " Grey: columns of noise." if foci.informative else ""


def _layer_rows(foci: LayerFoci) -> dict[str, list[Row]]:
    """CSV rows by kind of figure: phi at both ends, the path, on a line also the weights."""
    neurons = range(foci.neurons)
    first, last = (foci.phi(at) for at in (0, -1))
    line = foci.dimensions == 1
    positions = [
        {f"tau{'' if line else axis}": float(value) for axis, value in enumerate(tau)}
        for tau in foci.tau
    ]
    rows: dict[str, list[Row]] = {
        "foci": [
            {"neuron": neuron, "input": place, **position}
            | {"initial": float(first[neuron, place]), "final": float(last[neuron, place])}
            for neuron in neurons
            for place, position in enumerate(positions)
        ],
        "trajectory": [
            {"epoch": int(epoch), "neuron": neuron}
            | focus_columns(foci, at, neuron, numbered=False)
            for at, epoch in enumerate(foci.epochs)
            for neuron in neurons
        ],
    }
    if line:
        rows["weights"] = [
            {"neuron": int(neuron), "input": place, "initial": float(first), "final": float(last)}
            for neuron, firsts, lasts in zip(foci.shown, foci.first, foci.last, strict=True)
            for place, (first, last) in enumerate(zip(firsts, lasts, strict=True))
        ]
    return rows


def movement_charts(runs: Runs) -> Charts:
    """Where the foci of all runs went, for small networks on data with noise columns."""
    caption = (
        "A row for each run, with the centres of its neurons at the start "
        "(squares) and at the end (triangles: green among the informative columns, "
        "dark not). Grey: columns of noise. Above: share of all centres among "
        "the informative columns, at the start and at the end."
    )
    for edition in runs.editions:
        inside = any("inside_last" in layer for run in edition.runs for layer in run.focus.values())
        if not inside or edition.experiment in MEASUREMENT_EXPERIMENTS:
            continue
        panels = {s: rows for s in edition.settings if (rows := _movement_rows(s, runs))}
        if 0 < len(panels) <= MAX_MOVE_PANELS:
            yield chart(
                edition, ("moves",), "Where the foci of all runs went",
                " ".join([caption, *varied_note(list(panels))]),
                [row for rows in panels.values() for row in rows],
                partial(_draw_movements, panels),
            )  # fmt: skip


def _movement_rows(setting: Setting, runs: Runs) -> list[Row]:
    """Both ends of every focus; empty for large networks or data without noise."""
    rows: list[Row] = []
    ordered = sorted(setting.runs, key=lambda run: (run.seed, str(data_seed(run)).rjust(9)))
    for number, run in enumerate(ordered):
        region = run.sizes.get("informative")
        mu = next(iter(runs.ends(run, "mu").values()), None)
        if not region or mu is None or mu[0].shape[0] > drawing.MAX_CURVES or mu[0].shape[1] != 1:
            continue
        grid = (run.config.get("model") or {}).get("grid", "linspace")
        line = np.linspace(0, 1, run.sizes["inputs"], grid == "linspace", dtype=np.float32)
        first, last = (end[:, 0] for end in mu)
        low, high = line[region[0]], line[region[1] - 1]
        rows += [
            {
                **setting.columns(),
                "seed": run.seed,
                "data.seed": data_seed(run),
                "run": number,
                "neuron": neuron,
                "first": float(first[neuron]),
                "last": float(last[neuron]),
                "inside_first": bool(low <= first[neuron] <= high),
                "inside_last": bool(low <= last[neuron] <= high),
                "informative_from": region[0],
                "informative_to": region[1] - 1,
                "inputs": len(line),
                "last_input": float(line[-1]),
            }
            for neuron in range(len(first))
        ]
    return rows


def _draw_movements(settings: Mapping[Setting, Rows]) -> Figure:
    most_runs = max(rows[-1]["run"] for rows in settings.values()) + 1
    height = 0.75 + RUN_HEIGHT * max(most_runs, 6)
    panels = plotting.small_multiples(len(settings), height, sharex=True)
    labels = short_labels(list(settings))
    for axes, (setting, rows), label in zip(panels.axes, settings.items(), labels, strict=True):
        _draw_ends(axes, rows)
        first, last = (
            setting.measured[FOCI[name][0]].mean for name in ("inside_first", "inside_last")
        )
        share = f"inside: {first:.0f} % → {last:.0f} %, n = {rows[-1]['run'] + 1}"
        plotting.panel_title(axes, model_name(setting.model), *map(option_words, label), share)
    panels.label(xlabel=r"centre $\mu$", ylabel="runs")
    entries = [
        plotting.legend_entry("start", GREY, marker="s", size=3.5, hollow=True),
        plotting.legend_entry("end, inside", INSIDE, marker="^", size=3.5),
        plotting.legend_entry("end, in noise", IN_NOISE, marker="^", size=3.5),
    ]
    plotting.legend_above(panels.figure, entries)
    return panels.figure


def _draw_ends(axes: Axes, rows: Rows) -> None:
    """Draw a row per run: squares where foci started, triangles where they ended."""
    region = rows[0]["informative_from"], rows[0]["informative_to"] + 1
    line = np.linspace(0, rows[0]["last_input"], rows[0]["inputs"])
    drawing.shade_noise(axes, region, line, label=False)
    runs, first, last, inside = (
        np.array([row[name] for row in rows]) for name in ("run", "first", "last", "inside_last")
    )
    axes.hlines(runs, np.minimum(first, last), np.maximum(first, last), color="0.75", lw=0.5)
    axes.plot(first, runs, "s", color=GREY, mfc="w", ms=2, mew=0.5)
    for chosen, colour in ((inside, INSIDE), (~inside, IN_NOISE)):
        axes.plot(last[chosen], runs[chosen], "^", color=colour, ms=2.8, mew=0)
    axes.set(yticks=(), ylim=(runs.max() + 1, -1))
    axes.set_xticks((0, 0.5, 1), ("0", "0.5", "1"))


def path_charts(runs: Runs) -> Charts:
    """Paths of the first focused layer's foci, for larger networks of the paper's tables."""
    for edition, model, settings in runs.by_model(PATH_EXPERIMENTS):
        panels: list[tuple[Setting, LayerFoci]] = []
        shown_runs = []
        for setting in settings:
            run = median_run(setting.runs)
            foci = runs.foci(run)
            if foci and foci[0].neurons > drawing.MAX_CURVES and foci[0].dimensions <= 2:
                panels.append((setting, foci[0]))
                shown_runs.append(f"{data_name(setting.data)}: {describe_run(run, setting.runs)}")
        if not panels:
            continue
        plane = panels[0][1].dimensions == 2
        what = "centres in the picture" if plane else "aperture against centre"
        yield chart(
            edition, ("paths", model), f"Paths of the foci of {model_name(model)}",
            f"First focused layer, {what}, from squares to triangles; {drawing.MAX_MARKS} "
            "neurons, evenly chosen, and the ends of all others in light grey. "
            f"{'; '.join(shown_runs)}.",
            [row for setting, foci in panels for row in _path_rows(setting, foci)],
            partial(_draw_paths, panels), model=[model],
        )  # fmt: skip


def _path_rows(setting: Setting, foci: LayerFoci) -> list[Row]:
    """All neurons at the start and the end."""
    return [
        {**setting.block_columns(), "layer": foci.layer, "neuron": neuron}
        | {"epoch": int(foci.epochs[at]), **focus_columns(foci, at, neuron)}
        for neuron in range(foci.neurons)
        for at in (0, -1)
    ]


def _draw_paths(shown: Sequence[tuple[Setting, LayerFoci]]) -> Figure:
    panels = plotting.data_panels([setting.block_columns() for setting, _ in shown], 1.7)
    plane = shown[0][1].dimensions == 2
    for axes, (_, foci) in zip(panels.axes, shown, strict=True):
        x, y = (foci.mu[..., 1], foci.mu[..., 0]) if plane else (foci.mu, foci.sigma)
        x, y = (values.reshape(len(foci.epochs), -1) for values in (x, y))
        draw_paths(axes, x, y)
        if plane:
            drawing.frame_plane(axes)
        else:
            axes.set_ylim(0, 1.1 * max(float(y[0].max()), float(y[-1].max())))
    panels.label("column", "row") if plane else panels.label(r"centre $\mu$", r"aperture $\sigma$")
    plotting.legend_start_and_end(panels.figure, plotting.BLUE)
    return panels.figure


def film_charts(runs: Runs) -> Charts:
    """One film: of a network that learns to focus, otherwise of the foci that moved most."""

    def preference(candidate: tuple[Edition, Setting]) -> tuple[int, float]:
        edition, setting = candidate
        rank = [*FILM_EXPERIMENTS, edition.experiment].index(edition.experiment)
        return rank, -_distance(setting)

    moving = [(edition, setting) for edition, setting in runs.settings() if _distance(setting)]
    for edition, setting in sorted(moving, key=preference):
        run = median_run(setting.runs)
        layers = [foci for foci in runs.foci(run) if foci.dimensions <= 2]
        if not layers or len(layers[0].epochs) < 2:
            continue
        foci = layers[0]
        neurons = evenly_spaced(
            foci.neurons, drawing.MAX_CURVES if foci.dimensions == 1 else drawing.MAX_MARKS
        )
        rows = [
            {"epoch": int(foci.epochs[at]), "neuron": int(neuron)} | focus_columns(foci, at, neuron)
            for at in evenly_spaced(len(foci.mu), FRAMES)
            for neuron in neurons
        ]
        yield chart(
            edition, ("film",), FILM_TITLE,
            f"{_describe(setting, run, foci)}: {len(neurons)} of {foci.neurons} neurons from the "
            f"start to epoch {foci.epochs[-1]}.{_noise_note(foci)}",
            rows, partial(drawing.foci_gif, foci, fps=FPS, frames=FRAMES),
            data=[run.data], model=[run.model], suffixes=(".gif",),
        )  # fmt: skip
        return


def _distance(setting: Setting) -> float:
    moved = setting.measured.get(FOCI["moved"][0])
    return moved.mean if moved else 0.0
