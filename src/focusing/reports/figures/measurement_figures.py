"""Figures of what callbacks measured: pruning, connections of neurons, SHAP values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from focusing.drawing import COLUMN_WIDTH, GREY, Array
from focusing.errors import DamagedError
from focusing.reports.figures import plotting
from focusing.reports.figures.chart import (
    Charts,
    Row,
    Rows,
    Runs,
    chart,
    describe_run,
    median_run,
    run_count,
    setting_name,
)
from focusing.reports.figures.plotting import PAGE_WIDTH, model_style, signed_image
from focusing.reports.names import class_name, data_name, dense_twin, model_name
from focusing.reports.settings import Setting
from focusing.reports.tables.diagnostics import pruning_curve
from focusing.results.arrays import check_arrays, read_arrays
from focusing.results.collect import Run
from focusing.results.frame import group_by

PRUNING_TITLE = "Accuracy against sparsity"
THRESHOLD_SPACE = 0.11
"""Share of the upper axis that the label of a threshold needs."""
SPARSITY_LABEL = "connections dropped (%; the axis is not linear)"
SPARSITY_TICKS = (0, 50, 75, 90, 95, 98, 99)
MAX_SPARSITY = 99.9
CONNECTION_TITLE = "Connections of each neuron"
CONNECTION_BINS = 20
SHAP_TITLE = "SHAP values"
SHAP_KINDS = {
    "values": "f n k ...",
    "inputs": "fi n ...",
    "classes": "i n k",
    "outputs": "f n k",
    "expected": "f n k",
    "targets": "fi n",
}
"""Arrays that the callback writes; see :func:`check_arrays`."""
PICTURE_SIZE = 0.85
"""Size of a picture of SHAP values in inches."""


def pruning_charts(runs: Runs) -> Charts:
    """Accuracy over the share of dropped connections, where pruning was measured."""
    for edition, setting in runs.settings():
        model, dense = setting.model, dense_twin(setting.model)
        curve = _pruning_rows(setting, "curve")
        if not curve:
            continue
        own = _pruning_rows(setting, "magnitude")
        twin = _pruning_rows(edition.dense_twin(setting), "magnitude")
        note = (
            f" {model_name(dense)}: its smallest weights; dotted line: all of them kept."
            if twin
            else f" {model_name(dense)} was not measured: add model={dense}."
        )
        yield chart(
            edition, ("sparsity", *setting_name(edition, setting), model), PRUNING_TITLE,
            f"{_about(setting)}, after the last epoch, {run_count([curve[0]['n']])}. Solid: "
            "connections with phi < t are dropped in all focused layers (threshold above); dashed: "
            f"the smallest weights of the same layers are.{note} Circle: the best of the solid "
            "line. The axis is not linear: each step of equal length halves the connections that "
            "are left.",
            [*curve, *own, *twin], partial(_draw_pruning, curve, own, twin, model),
            data=[setting.data],
        )  # fmt: skip


def _about(setting: Setting) -> str:
    return f"{data_name(setting.data)} ({setting.source}), {model_name(setting.model)}"


def _pruning_rows(setting: Setting | None, rule: str) -> list[Row]:
    about = {"model": setting and setting.model}
    about["rule"] = "focus" if rule == "curve" else "magnitude"
    return [about | point for point in pruning_curve(setting, rule)]


def _draw_pruning(curve: Rows, own: Rows, twin: Rows, model: str) -> Figure:
    figure = Figure((COLUMN_WIDTH, 2.9), layout="constrained")
    axes = figure.subplots()
    dense = dense_twin(model)
    colour, twin_colour = model_style(model)[0], model_style(dense)[0]
    for points, line, shade in (
        (own, "--", colour), (twin, "--", twin_colour), (curve, "-", colour),
    ):  # fmt: skip
        plotting.draw_means(axes, points, "sparsity", "score", colour=shade, line=line)
    unit = curve[0]["unit"]
    best = max(curve, key=lambda row: row["score"] if unit == "percent" else -row["score"])
    axes.plot(best["sparsity"], best["score"], "o", mfc="none", color="k", ms=6, mew=0.8)
    entries = [
        plotting.legend_entry(rf"{model_name(model)}, $\phi < t$", colour, "-"),
        plotting.legend_entry(f"{model_name(model)}, smallest weights", colour, "--"),
    ]
    if twin:
        whole = min(twin, key=lambda row: row["sparsity"])["score"]
        axes.axhline(whole, color=twin_colour, ls=":", lw=0.9)
        entries += [
            plotting.legend_entry(f"{model_name(dense)}, smallest weights", twin_colour, "--"),
            plotting.legend_entry(f"{model_name(dense)}, all weights", twin_colour, ":"),
        ]
    end = min(max(row["sparsity"] for row in curve) + 1, MAX_SPARSITY)
    axes.set_xscale("function", functions=(_halvings, _from_halvings))
    axes.set_xticks([tick for tick in SPARSITY_TICKS if tick <= end])
    axes.set(xlim=(0, end), ylim=_score_limits([*curve, *own, *twin], curve), xlabel=SPARSITY_LABEL)
    axes.set_ylabel(plotting.score_label(unit))
    _add_threshold_axis(axes, curve)
    figure.legend(handles=entries, loc="outside lower center", ncols=2, labelcolor="linecolor",
                  fontsize=6.5, handlelength=1.8, columnspacing=1.2)  # fmt: skip
    return figure


def _add_threshold_axis(axes: Axes, curve: Rows) -> None:
    """Add thresholds above the sparsities that they lead to, as many as fit."""
    above = axes.twiny()
    above.set_xscale("function", functions=(_halvings, _from_halvings))
    above.spines["top"].set(visible=True, color=GREY)
    above.set_xlim(axes.get_xlim())
    distance = THRESHOLD_SPACE * _halvings(axes.get_xlim()[1])
    ticks: list[tuple[float, str]] = []
    for row in curve:
        if not ticks or _halvings(row["sparsity"]) - _halvings(ticks[-1][0]) > distance:
            ticks.append((row["sparsity"], f"{row['threshold']:.2g}"))
    above.set_xticks([x for x, _ in ticks], [text for _, text in ticks])
    above.set_xlabel("threshold $t$ of the solid line", color=GREY)
    above.tick_params(colors=GREY)
    above.minorticks_off()


def _halvings(sparsity: Any) -> Any:
    """Scale of an axis on which halving the remaining connections is always the same step."""
    return -np.log2(1 - np.minimum(sparsity, MAX_SPARSITY) / 100)


def _from_halvings(place: Any) -> Any:
    return 100 * (1 - np.exp2(-np.asarray(place)))


def _score_limits(rows: Rows, curve: Rows) -> tuple[float, float]:
    """Limits of the y axis: accuracies down to ten points below the best, or all errors."""
    best = max(row["score"] for row in rows)
    if curve[0]["unit"] != "percent":
        return 0.0, 1.05 * best
    whole = [row["score"] for row in rows if row["sparsity"] == 0]  # of every network
    lowest = min(row["score"] for row in curve)
    low = min(max(lowest, best - 10), *whole, best - 0.1)
    return low - 0.12 * (best - low), best + 0.08 * (best - low)


def connection_charts(runs: Runs) -> Charts:
    """Histograms of the connections that neurons keep, a panel per layer."""
    for edition, setting in runs.settings():
        measured = [run.measured.get("pruning") or {} for run in setting.runs]
        pruned = [pruning for pruning in measured if pruning and "error" not in pruning]
        neurons = pd.DataFrame(
            {"layer": layer, "threshold": level["threshold"], "connections": count}
            for pruning in pruned
            for level in pruning.get("connections") or []
            for layer, kept in level["layers"].items()
            for count in kept
        )
        if neurons.empty:
            continue
        most = neurons.groupby("layer")["connections"].max()
        rows = [
            row
            for (threshold, layer), kept in neurons.groupby(["threshold", "layer"], sort=False)
            for row in plotting.histogram_rows(
                kept["connections"], np.linspace(0, max(1, most[layer]), CONNECTION_BINS + 1),
                layer=layer, threshold=float(threshold), median=float(kept["connections"].median()),
            )
        ]  # fmt: skip
        yield chart(
            edition, ("connections", *setting_name(edition, setting), setting.model),
            CONNECTION_TITLE,
            f"{_about(setting)}, the weights after the last epoch, {run_count([len(pruned)])}. "
            "Histograms over the neurons of each focused layer of connections with phi of at least "
            "t.",
            rows, partial(_draw_connections, rows),
            data=[setting.data], model=[setting.model], home="sparsity",
        )  # fmt: skip


def _draw_connections(rows: Rows) -> Figure:
    layers = group_by(rows, itemgetter("layer"))
    panels = plotting.small_multiples(len(layers), 1.9, max_columns=2)
    for axes, (layer, bins) in zip(panels.axes, layers.items(), strict=True):
        named = group_by(bins, lambda row: f"t = {row['threshold']:g}: median {row['median']:.0f}")
        plotting.draw_histograms(axes, named)
        plotting.panel_title(axes, layer)
        axes.set_xlabel("connections")
    panels.label(ylabel="neurons")
    return panels.figure


def shap_charts(runs: Runs) -> Charts:
    """SHAP values of a few test samples, for networks that were explained."""
    for edition, setting in runs.settings():
        explained = [run for run in setting.runs if _shap_file(run)]
        if not explained:
            continue
        run = median_run(explained, str(_shap_file(explained[0])))
        arrays: Mapping[str, Array] = {}
        with runs.skip_damaged():
            arrays = _shap_arrays(run.path / str(_shap_file(run)))
        if not arrays:
            continue
        explanation = run.measured["explanation"]
        gap = explanation["gap"]
        accuracy = run.scores.get("last", next(iter(run.scores.values())))
        yield chart(
            edition, ("shap", setting.data, *setting.overrides, setting.model),
            f"{SHAP_TITLE}: {data_name(setting.data)}, {model_name(setting.model)}",
            f"{_about(setting)}, {describe_run(run, explained)}. "
            f"A network with a test accuracy of {100 * accuracy:.1f} %. "
            "Rows: test samples; columns: the classes with the highest outputs, before the "
            "softmax. Red: speaks for the class, blue: against; above each its class and output, "
            "the true one black; channels are added; one scale for each sample. "
            f"Method {explanation['method']}, background of {explanation['background']} training "
            "samples. Completeness: the values miss the outputs that they should add up to by "
            f"{gap['largest']:.2g} at most, {100 * gap['relative']:.2g} % of the largest.",
            _shap_rows(arrays), partial(_draw_shap, arrays, setting.data),
            data=[setting.data], model=[setting.model],
        )  # fmt: skip


def _shap_file(run: Run) -> str | None:
    name = (run.measured.get("explanation") or {}).get("file")
    return name if name and (run.path / name).exists() else None


def _shap_arrays(path: Path) -> Mapping[str, Array]:
    arrays = read_arrays(path)
    check_arrays(path, arrays, SHAP_KINDS)
    if arrays["values"].shape[2:] != arrays["inputs"].shape[1:]:
        raise DamagedError(path, "has values for other inputs")
    return arrays


def _shap_rows(arrays: Mapping[str, Array]) -> list[Row]:
    """CSV rows: sample, class and input, with channels added as they are drawn."""
    values = _by_pixel(arrays["values"], 2).sum(-1)
    means = _by_pixel(arrays["inputs"], 1).mean(-1).reshape(len(values), -1)
    return [
        {
            "sample": n,
            "target": arrays["targets"][n].item(),
            "class": int(arrays["classes"][n, k]),
            "output": float(arrays["outputs"][n, k]),
            "expected": float(arrays["expected"][n, k]),
            "input": place,
            "mean_input": f"{means[n, place]:.4g}",
            "shap": f"{value:.4g}",
        }
        for n in range(len(values))
        for k in range(values.shape[1])
        for place, value in enumerate(values[n, k].reshape(-1))
    ]


def _by_pixel(values: Array, leading: int) -> Array:
    """Reshape images to (..., H, W, channels), anything else to (..., m, 1)."""
    shape = values.shape[leading:]
    grid = shape[:2] if len(shape) == 3 else (int(np.prod(shape)),)
    return values.reshape(*values.shape[:leading], *grid, -1)


def _draw_shap(arrays: Mapping[str, Array], data: str) -> Figure:
    values = _by_pixel(arrays["values"], 2).sum(-1)
    samples, classes = values.shape[:2]
    image = values.ndim == 4
    cell = (PICTURE_SIZE, PICTURE_SIZE) if image else (PAGE_WIDTH / (classes + 1), 0.8)
    size = (cell[0] * (classes + 1) + 0.55, cell[1] * samples * 1.16 + 0.1)
    figure = Figure(size, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.01, h_pad=0.01, wspace=0.02, hspace=0.02)  # type: ignore[union-attr, call-arg]
    grid = figure.subplots(samples, classes + 1, squeeze=False)
    for n in range(samples):
        _draw_sample(grid[n, 0], arrays["inputs"][n], image)
        target = arrays["targets"][n].item()
        label = class_name(data, target) if isinstance(target, int) else f"{target:.3g}"
        grid[n, 0].set_title(label, loc="left", fontsize=7, pad=2)
        limit = float(np.quantile(np.abs(values[n]), 0.999)) or 1.0
        for k in range(classes):
            axes = grid[n, k + 1]
            _draw_shap_values(axes, values[n, k] / limit)
            predicted, output = int(arrays["classes"][n, k]), float(arrays["outputs"][n, k])
            axes.set_title(f"{class_name(data, predicted)}: {output:.1f}", loc="left", fontsize=7,
                           pad=2, color="k" if predicted == target else GREY)  # fmt: skip
    for axes in grid.ravel():
        axes.set(xticks=(), yticks=())
        axes.spines[:].set(visible=image, linewidth=0.4, color="0.7")
    bar = figure.colorbar(ScalarMappable(Normalize(-1, 1), "RdBu_r"), ax=grid, fraction=0.03,
                          pad=0.01, shrink=0.5)  # fmt: skip
    bar.set_ticks((-1, 0, 1), labels=("against", "0", "for"))
    return figure


def _draw_sample(axes: Axes, sample: Array, image: bool) -> None:
    if not image:
        axes.plot(sample.reshape(-1), color=GREY, lw=0.6)
        axes.set_xlim(-0.5, sample.size - 0.5)
        return
    low, high = float(sample.min()), float(sample.max())
    scaled = (sample - low) / max(high - low, 1e-12)
    colours = scaled if scaled.shape[-1] == 3 else scaled.mean(-1)
    axes.imshow(colours, cmap="gray_r", interpolation="nearest")


def _draw_shap_values(axes: Axes, values: Array) -> None:
    if values.ndim == 2:
        signed_image(axes, values, 1.0, interpolation="nearest")
    else:
        shades = np.where(values > 0, "#B2182B", "#2166AC")
        axes.bar(np.arange(len(values)), values, color=shades.tolist(), width=1.0)
        axes.set(xlim=(-0.5, len(values) - 0.5), ylim=(-1.05, 1.05))
