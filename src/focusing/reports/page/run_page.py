"""The page of a run: scores, facts, curves and foci, small enough for a thousand pages."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from focusing.errors import DamagedError
from focusing.reports.differences import PRUNING_RULES
from focusing.reports.foci import finite_times, read_layers
from focusing.reports.names import PROTOCOLS, data_name, model_name
from focusing.reports.tables import NOTHING, Unit, number
from focusing.reports.terminal import PROTOCOL_MEANINGS, duration
from focusing.results.arrays import evenly_spaced
from focusing.results.collect import Run
from focusing.results.frame import show_value
from focusing.window_drawing import frame_indices, read_windows

MAX_CURVE_POINTS = 150
"""Most points of a curve: a screen shows no more, and pages stay small."""
MAX_FOCI_EPOCHS, MAX_NEURONS, MAX_POSITIONS = 41, 40, 400
MAX_MEASURED = 60
"""Most measurements; the record has all."""
MAX_LISTED = 10
"""Longest list that is shown in full."""
DIGITS = 4
FOCI_ARRAYS = ("mu", "sigma", "epoch", "tau", "focus", "normalizer")
STEPS = 2**16 - 1
"""Foci are packed as unsigned 16-bit integers between their least and greatest value."""
Values = Sequence[float | None]
Array = NDArray[Any]


def series_panels(series: Mapping[str, Values], marks: Mapping[str, int]) -> dict[str, Any] | None:
    """Curves grouped by quantity: the losses of ``train`` and ``test`` share a panel.

    ``series`` are values after every epoch by metric, ``marks`` epochs by protocol that must stay.
    Returns ``epochs`` (from 1), ``of`` (number of all epochs) and ``panels``; None without curves.
    """
    epochs = max(map(len, series.values()), default=0)
    if not epochs:
        return None
    chosen = thin_indices(epochs, MAX_CURVE_POINTS, keep=marks.values())
    panels: dict[str, dict[str, list[float | None]]] = {}
    for name, values in series.items():
        split, _, quantity = name.rpartition("/")
        curve = [short(values[at]) if at < len(values) else None for at in chosen]
        if any(value is not None for value in curve):
            panels.setdefault(quantity or name, {})[split or name] = curve
    return {
        "epochs": [at + 1 for at in chosen],
        "of": epochs,
        "panels": [{"title": title, "lines": lines} for title, lines in panels.items()],
    }


def thin_indices(count: int, most: int, keep: Iterable[int] = ()) -> list[int]:
    """At most ``most`` evenly spaced indices, with both ends, and those to keep."""
    even = evenly_spaced(count, most).tolist()
    return sorted({*even, *(place for place in keep if 0 <= place < count)})


def short(value: float | None, digits: int = DIGITS) -> float | None:
    """Round to significant digits; None for missing, infinite and NaN values."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def foci_of(path: Path, informative: Sequence[int] | None) -> list[dict[str, Any]]:
    """The focused layers of a run; empty if their file is missing or damaged.

    ``informative`` are the first informative column and the one after the last, if known.
    Returns a dict per layer with its name, kind, selected epochs and neurons, and foci.
    """
    try:
        stored = read_layers(path, FOCI_ARRAYS)
    except (OSError, DamagedError):
        return []
    return [page for name, layer in stored.items() for page in _layer(name, layer, informative)]


def _layer(
    name: str, layer: Mapping[str, Array], informative: Sequence[int] | None
) -> list[dict[str, Any]]:
    mu, sigma, tau, epochs = layer["mu"], layer["sigma"], layer["tau"], layer["epoch"]
    records = finite_times(layer)
    if not records:
        return []
    at = thin_indices(records, MAX_FOCI_EPOCHS)
    neurons = np.argsort(mu[0, :, 0], kind="stable")[thin_indices(mu.shape[1], MAX_NEURONS)]
    inputs, axes = tau.shape
    seen = axes == 1 and informative is not None and int(informative[1]) <= inputs
    return [
        {
            "name": name,
            "focus": str(layer["focus"]),
            "normalizer": str(layer["normalizer"]),
            "axes": axes,
            "inputs": inputs,
            "positions": _positions(tau[:, 0]) if axes == 1 else None,
            "informative": list(map(int, informative)) if seen and informative else None,
            "neurons": neurons.tolist(),
            "of_neurons": mu.shape[1],
            "epochs": epochs[at].tolist(),
            "of_epochs": int(epochs[records - 1]),
            "mu": _packed(mu[at][:, neurons, :2]),
            "sigma": _packed(sigma[at][:, neurons, :2]),
        }
    ]


def _positions(tau: Array) -> list[float]:
    """Distinct positions of the inputs: channels share theirs."""
    places = np.unique(tau)
    return [round(float(places[at]), 5) for at in thin_indices(len(places), MAX_POSITIONS)]


def _packed(values: Array) -> dict[str, Any]:
    """Pack an array as 16-bit integers in base64."""
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) / ((high - low) or 1.0) * STEPS
    content = scaled.round().astype("<u2").tobytes()
    return {
        "low": low,
        "high": high,
        "shape": list(values.shape),
        "data": base64.b64encode(content).decode(),
    }


def windows_of(run_dir: Path) -> dict[str, Any] | None:
    """Samples, side by side in one PNG, and their windows over epochs.

    Returns:
        ``picture`` (a data URI), ``size`` (height and width of a sample), ``epochs`` and ``boxes``
        (top, left, height and width of a window, relative to the sample, by epoch, sample and
        glimpse). None if the file is missing or damaged.
    """
    try:
        arrays = read_windows(run_dir)
    except (OSError, DamagedError):
        return None
    if arrays is None:
        return None
    images, times = arrays["images"], frame_indices(len(arrays["epoch"]))
    row = np.concatenate(images, axis=1)
    content = io.BytesIO()
    Image.fromarray(row[..., 0] if row.shape[-1] != 3 else row).save(content, "PNG", optimize=True)
    centre, extent = (arrays[name][times] for name in ("centre", "extent"))
    boxes = np.concatenate([centre - extent / 2, extent], axis=-1).round(3)
    return {
        "picture": f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}",
        "size": list(images.shape[1:3]),
        "epochs": [round(float(epoch), 2) for epoch in arrays["epoch"][times]],
        "boxes": boxes.astype(float).round(3).tolist(),
    }


def run_view(run: Run) -> dict[str, Any]:
    """Values for the template of a run page."""
    record = run.record()
    return {
        "run": run,
        "title": f"{model_name(run.model)} on {data_name(run.data)}, seed {run.seed}",
        "folder": "/".join(run.path.parts[-3:]),
        "scores": _scores(run),
        "facts": dict(_facts(run, record)),
        "environment": dict(_environment(run, record)),
        "measured": dict(list(_leaves("", run.measured))[:MAX_MEASURED]),
        "config": "\n".join(_lines(run.config)),
        "content": {
            "curves": series_panels(record.get("series") or {}, run.epochs),
            "marks": {name: epoch + 1 for name, epoch in run.epochs.items()},
            "score": {"accuracy": "acc"}.get(run.metric, run.metric),
            "foci": foci_of(run.path / "focus.npz", run.sizes.get("informative")),
            "windows": windows_of(run.path),
            "pruning": _pruning(run),
        },
    }


def _scores(run: Run) -> list[dict[str, str]]:
    unit = Unit(run.metric)
    return [
        {
            "protocol": name,
            "value": number(unit.factor * run.scores[name]),
            "unit": "%" if run.metric == "accuracy" else run.metric.upper(),
            "words": f"{PROTOCOL_MEANINGS[name]} (epoch {run.epochs[name] + 1})",
        }
        for name in PROTOCOLS
        if name in run.scores
    ]


def _facts(run: Run, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "experiment", run.experiment
    yield "size, variant", f"{run.size}, {run.variant}"
    held = f", {run.holdout:.0%} of the training data held out" if run.holdout else ""
    yield "protocol", f"{run.protocol}{held}"
    splits = ("train", "val", "test")
    counts = ", ".join(f"{run.sizes[name]:,} {name}" for name in splits if _count(run, name))
    yield "data", f"{data_name(run.data)}, {run.source}" + (f": {counts}" if counts else "")
    for name in ("inputs", "classes"):
        if _count(run, name):
            yield name, f"{run.sizes[name]:,}"
    for name in ("parameters", "trained", "connections", "multiply_adds"):
        if count := (record.get("network") or {}).get(name):
            yield name.replace("_", "-"), f"{count:,}"
    for layer, path in run.focus.items():
        moved, first, last = (path.get(key) for key in ("moved", "sigma_first", "sigma_last"))
        if None not in (moved, first, last):
            yield (
                f"foci of {layer}",
                f"moved {number(moved, 3)} on average, σ {number(first, 3)} → {number(last, 3)}",
            )
        if "inside_last" in path:
            shares = (number(100 * path[key], 0) for key in ("inside_first", "inside_last"))
            yield "foci among informative inputs", " % → ".join(shares) + " %"
    if run.seconds is not None:
        yield "training time", duration(run.seconds)
    if record.get("steps_per_second"):
        yield "steps per second", f"{record['steps_per_second']:,.0f}"
    if record.get("peak_memory_bytes"):
        yield "peak memory", f"{record['peak_memory_bytes'] / 2**20:,.0f} MiB"


def _count(run: Run, name: str) -> bool:
    return isinstance(run.sizes.get(name), int) and bool(run.sizes[name])


def _environment(run: Run, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    git = record.get("git") or {}
    if git.get("commit"):
        yield "commit", f"{git['commit'][:12]}{', with changes' if git.get('dirty') else ''}"
    yield from ((name, str(version)) for name, version in (record.get("versions") or {}).items())
    for name, value in (record.get("machine") or {}).items():
        yield name.replace("_", " "), str(value)
    trainer = run.config.get("trainer") or {}
    for name in ("accelerator", "precision", "deterministic"):
        if name in trainer:
            yield name, str(trainer[name])
    yield "started", (record.get("started") or "").replace("T", " ")
    yield "finished", run.finished.replace("T", " ")
    yield "data fingerprint", run.fingerprint
    yield "config hash", run.config_hash


def _pruning(run: Run) -> dict[str, Any] | None:
    """Accuracy over sparsity, by pruning rule; None for errors or without a measurement."""
    curves = run.measured.get("pruning") or {}
    lines = {
        words: [[short(point["sparsity"]), short(point["acc"])] for point in curves[rule]]
        for rule, words in PRUNING_RULES.items()
        if curves.get(rule) and "acc" in curves[rule][0]
    }
    return lines or None


def _lines(options: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """The config as YAML lines; a YAML library would take longer than the rest of the page."""
    for name, value in options.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{name}:"
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {show_value(value)}"


def _some(which: Sequence[int], neurons: int) -> str:
    """Count of some neurons of a layer, with their indices if they are few."""
    count = f"{len(which)} of {neurons}"
    if not 0 < len(which) <= MAX_LISTED:
        return count
    return f"{count} (neuron{'s' * (len(which) > 1)} {', '.join(map(str, which))})"


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Scalars of a nested value by dotted path; of long lists only the length."""
    if isinstance(value, Mapping) and value.keys() == {"neurons", "stuck"}:
        yield name, _some(value["stuck"], value["neurons"])
    elif isinstance(value, Mapping):
        for key, below in value.items():
            yield from _leaves(f"{name}.{key}" if name else str(key), below)
    elif isinstance(value, bool | int | str):
        yield name, str(value)
    elif isinstance(value, float):
        yield name, f"{value:.{DIGITS}g}"
    elif isinstance(value, list):
        listed = 0 < len(value) <= MAX_LISTED and all(type(item) is int for item in value)
        count = f"{len(value)} values" if value else "none"
        yield name, ", ".join(map(str, value)) if listed else count
    elif value is None:
        yield name, NOTHING
