"""The figures of one run, from its ``result.json`` and ``focus.npz`` alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from focusing.callbacks.drawing import foci_figure
from focusing.callbacks.style import Array
from focusing.reports.panels import series_figure, trajectory_figure, weights_figure
from focusing.reports.style import save


def draw_run(run_dir: Path) -> list[Path]:
    """Draw a run's figures into ``figures/``, each as PNG and SVG.

    For each focused layer: ``foci_<layer>`` (initial dotted, final solid), ``trajectory_<layer>``
    (square start, triangle end) and ``weights_<layer>`` (phi o W before and after); for the run
    ``losses``. A run without focused layers gets the last only.

    Args:
        run_dir: the run folder.

    Returns:
        The files.
    """
    record = json.loads((run_dir / "result.json").read_text())
    folder = run_dir / "figures"
    paths = []
    figure = series_figure(record.get("series") or {}, record.get("scores") or {})
    if figure is not None:
        paths += save(figure, folder, "losses")
    if not (run_dir / "focus.npz").exists():
        return paths
    with np.load(run_dir / "focus.npz", allow_pickle=False) as arrays:
        trajectory = dict(arrays)
    last = _last_finite(trajectory)
    for name in layer_names(trajectory):
        layer = {key: trajectory[f"{name}/{key}"][: last + 1] for key in ("mu", "sigma")}
        layer["tau"] = trajectory[f"{name}/tau"]
        focus, normalizer = (str(trajectory[f"{name}/{key}"]) for key in ("focus", "normalizer"))
        region = _informative(record, layer["tau"])
        figures = {
            "foci": foci_figure(**layer, focus=focus, normalizer=normalizer, informative=region),
            "trajectory": trajectory_figure(
                **layer, epochs=trajectory["epoch"][: last + 1], informative=region
            ),
            "weights": weights_figure(
                **layer,
                shown=trajectory[f"{name}/shown"],
                first=trajectory[f"{name}/weight_first"],
                last=trajectory[f"{name}/weight_last"],
                informative=region,
            ),
        }
        for what, drawn in figures.items():
            if drawn is not None:
                paths += save(drawn, folder, f"{what}_{name}")
    return paths


def layer_names(trajectory: Mapping[str, Array]) -> list[str]:
    """Names of the layers of a ``focus.npz``, in the order of the network."""
    return [key.removesuffix("/mu") for key in trajectory if key.endswith("/mu")]


def _last_finite(trajectory: Mapping[str, Array]) -> int:
    """The last record before a run diverged."""
    foci = [values for key, values in trajectory.items() if key.endswith(("/mu", "/sigma"))]
    finite = [np.isfinite(values).all(axis=(1, 2)) for values in foci]
    return int(np.logical_and.accumulate(np.logical_and.reduce(finite)).sum()) - 1 if foci else 0


def _informative(record: Mapping[str, Any], tau: Array) -> list[int] | None:
    """Informative columns of the data, for a layer that sees these columns on a line."""
    data = record.get("data") or {}
    region = data.get("informative")
    if not region or tau.shape[1] != 1 or data.get("inputs", len(tau)) != len(tau):
        return None
    return [int(edge) for edge in region]
