"""The foci of a run over epochs, from ``focus.npz``, small enough for a page."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focusing.errors import DamagedError
from focusing.reports.foci import finite_times, read_layers
from focusing.reports.page.run_series import thinned

Array = NDArray[Any]
MOST_EPOCHS, MOST_NEURONS, MOST_POSITIONS = 41, 40, 400
USED = ("mu", "sigma", "epoch", "tau", "focus", "normalizer")
STEPS = 2**16 - 1
"""Foci are written as numbers of two bytes between their least and greatest value."""


def foci_of(path: Path, informative: Sequence[int] | None) -> list[dict[str, Any]]:
    """The focused layers of a run.

    Args:
        path: ``focus.npz``.
        informative: first informative column and the one after the last, if known.

    Returns:
        For each layer its name, kind, thinned epochs and neurons, and foci; none without a file
        that can be read.
    """
    try:
        stored = read_layers(path, USED)
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
    at = thinned(records, MOST_EPOCHS)
    neurons = np.argsort(mu[0, :, 0], kind="stable")[thinned(mu.shape[1], MOST_NEURONS)]
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
            "informative": [int(each) for each in informative] if seen and informative else None,
            "neurons": neurons.tolist(),
            "of_neurons": mu.shape[1],
            "epochs": epochs[at].tolist(),
            "of_epochs": int(epochs[records - 1]),
            "mu": _packed(mu[at][:, neurons, :2]),
            "sigma": _packed(sigma[at][:, neurons, :2]),
        }
    ]


def _positions(tau: Array) -> list[float]:
    """Where inputs are, each place once: channels share theirs."""
    places = np.unique(tau)
    return [round(float(places[at]), 5) for at in thinned(len(places), MOST_POSITIONS)]


def _packed(values: Array) -> dict[str, Any]:
    """Numbers of two bytes, in base64."""
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) / ((high - low) or 1.0) * STEPS
    content = scaled.round().astype("<u2").tobytes()
    return {
        "low": low,
        "high": high,
        "shape": list(values.shape),
        "data": base64.b64encode(content).decode(),
    }
