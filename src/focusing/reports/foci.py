"""Reads the foci of a run from its ``focus.npz``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from focusing.drawing import Array, LayerFoci
from focusing.errors import DamagedError
from focusing.nn.focus import FOCUS_FUNCTIONS, NORMALIZERS
from focusing.results.arrays import check_arrays, read_arrays
from focusing.validation import is_name, short_repr

FILE = "focus.npz"
KINDS = {
    "mu": "F E n d",
    "sigma": "F E n d",
    "epoch": "i E",
    "tau": "f m d",
    "shown": "i k",
    "weight_first": "f k m",
    "weight_last": "f k m",
    "focus": "U",
    "normalizer": "U",
}
"""Arrays that :mod:`focusing.callbacks.focus_trajectory` writes; see :func:`check_arrays`."""


def read_layers(path: Path, wanted: Collection[str] = tuple(KINDS)) -> dict[str, dict[str, Any]]:
    """The ``wanted`` arrays of every focused layer, in network order; empty without a file.

    Raises:
        DamagedError: the file is not what a run writes.
    """
    if not path.exists():
        return {}
    stored = read_arrays(path, lambda key: key.rpartition("/")[2] in wanted)
    first = next(iter(wanted))
    layers = {}
    for name in [key.removesuffix(f"/{first}") for key in stored if key.endswith(f"/{first}")]:
        if not is_name(name):
            raise DamagedError(path, f"has a layer of an impossible name: {short_repr(name)}")
        layer = {key: stored.get(key if key == "epoch" else f"{name}/{key}") for key in wanted}
        check_arrays(path, layer, {key: KINDS[key] for key in wanted})
        _check_values(path, layer)
        layers[name] = layer
    return layers


def _check_values(path: Path, layer: Mapping[str, Any]) -> None:
    if "shown" in layer and not (
        layer["shown"].min() >= 0 and layer["shown"].max() < layer["mu"].shape[1]
    ):
        raise DamagedError(path, "shows neurons that are not there")
    for key, known in (("focus", FOCUS_FUNCTIONS), ("normalizer", NORMALIZERS)):
        if key in layer and str(layer[key]) not in known:
            raise DamagedError(path, f"has an unknown {key}: {short_repr(str(layer[key]))}")
    if "sigma" in layer and (layer["sigma"] <= 0).any():
        raise DamagedError(path, "has apertures that are not above 0")


def read_foci(folder: Path, data: Mapping[str, Any]) -> list[LayerFoci]:
    """The foci of every layer, in network order, up to where they became NaN; maybe empty.

    Args:
        folder: of the run.
        data: what the run's record says about its data.

    Raises:
        DamagedError: the file is not what a run writes.
    """
    layers = read_layers(folder / FILE)
    stop = min(map(finite_times, layers.values()), default=0)
    known = [LayerFoci.of(name, layer, stop) for name, layer in layers.items() if stop]
    return [replace(foci, informative=informative_columns(data, foci.tau)) for foci in known]


def first_and_last(folder: Path, which: str) -> dict[str, tuple[Array, Array]]:
    """First and last finite ``mu`` or ``sigma`` (n, d) of every layer; reads nothing else.

    Raises:
        DamagedError: the file is not what a run writes.
    """
    ends = {}
    for name, layer in read_layers(folder / FILE, [which]).items():
        finite = layer[which][np.isfinite(layer[which]).all(axis=(1, 2))]
        if len(finite):
            ends[name] = (finite[0], finite[-1])
    return ends


def informative_columns(data: Mapping[str, Any], tau: Array) -> list[int] | None:
    """Informative columns, if the layer sees the columns of the data on a line."""
    region = data.get("informative")
    if not region or tau.shape[1] != 1 or data.get("inputs", len(tau)) != len(tau):
        return None
    return [int(edge) for edge in region]


def finite_times(layer: Mapping[str, Array]) -> int:
    """Number of recorded epochs before the run diverged."""
    finite = np.isfinite(layer["mu"] + layer["sigma"]).all(axis=(1, 2))
    return int(np.logical_and.accumulate(finite).sum())


def focus_columns(
    foci: LayerFoci, at: int, neuron: int, *, numbered: bool = True
) -> dict[str, float]:
    """CSV columns with the centre and aperture of a neuron: ``mu0``, ..., ``sigma0``, ...

    Without ``numbered``, a single axis has no number.
    """
    numbered = numbered or foci.dimensions > 1
    return {
        f"{name}{axis if numbered else ''}": float(value)
        for name, values in (("mu", foci.mu), ("sigma", foci.sigma))
        for axis, value in enumerate(values[at, neuron])
    }
