"""The foci of a run, from its ``focus.npz``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from focusing.drawing import Array, focus_phi
from focusing.errors import DamagedError
from focusing.nn.focus import FOCUS_FUNCTIONS, NORMALIZERS
from focusing.results.arrays import check_arrays, read_arrays
from focusing.validation import is_name, short

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
"""What :mod:`focusing.training.trajectory` writes; see :func:`check_arrays`."""


@dataclass(frozen=True)
class Foci:
    """The foci of a layer with n neurons and m inputs in d dimensions, at E times.

    Attributes:
        layer: its name.
        epochs: done at each time, (E,).
        tau: positions of the inputs, (m, d).
        mu: centres, (E, n, d).
        sigma: apertures, (E, n, d).
        shown: neurons of which weights are known, (k,).
        first: their focused weights phi o W at the start, (k, m).
        last: their focused weights at the end, (k, m).
        focus: name of the focus function.
        normalizer: name of the normaliser.
        informative: first column of the inputs that is not noise, and the one after the last.
    """

    layer: str
    epochs: Array
    tau: Array
    mu: Array
    sigma: Array
    shown: Array
    first: Array
    last: Array
    focus: str
    normalizer: str
    informative: list[int] | None

    def phi(self, at: int, neurons: Array) -> Array:
        """Coefficients (k, m) of some neurons at a time."""
        return focus_phi(
            self.tau, self.mu[at, neurons], self.sigma[at, neurons], self.focus, self.normalizer
        )


def read_layers(path: Path, wanted: Collection[str] = tuple(KINDS)) -> dict[str, dict[str, Any]]:
    """Arrays of each focused layer in the order of the network; none without a file.

    Args:
        path: ``focus.npz``.
        wanted: names of the arrays; others are not read.

    Raises:
        DamagedError: it is not what a run leaves.
    """
    if not path.exists():
        return {}
    stored = read_arrays(path, lambda key: key.rpartition("/")[2] in wanted)
    first = next(iter(wanted))
    layers = {}
    for name in [key.removesuffix(f"/{first}") for key in stored if key.endswith(f"/{first}")]:
        if not is_name(name):
            raise DamagedError(path, f"has a layer of an impossible name: {short(name)}")
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
            raise DamagedError(path, f"has an unknown {key}: {short(str(layer[key]))}")
    if "sigma" in layer and (layer["sigma"] <= 0).any():
        raise DamagedError(path, "has apertures that are not above 0")


def read_foci(folder: Path, data: Mapping[str, Any]) -> list[Foci]:
    """The foci of each layer in the order of the network, until they became NaN; maybe none.

    Args:
        folder: of the run.
        data: what its record says about the data.

    Raises:
        DamagedError: its file is not what a run leaves.
    """
    layers = read_layers(folder / FILE)
    finite = [finite_times(layer) for layer in layers.values()]
    stop = min(finite, default=0)
    return [
        Foci(
            layer=name,
            epochs=layer["epoch"][:stop],
            tau=layer["tau"],
            mu=layer["mu"][:stop],
            sigma=layer["sigma"][:stop],
            shown=layer["shown"],
            first=layer["weight_first"],
            last=layer["weight_last"],
            focus=str(layer["focus"]),
            normalizer=str(layer["normalizer"]),
            informative=informative_columns(data, layer["tau"]),
        )
        for name, layer in layers.items()
        if stop
    ]


def both_ends(folder: Path, which: str) -> dict[str, tuple[Array, Array]]:
    """First and last foci (n, d) of each layer; the rest of the file is not read.

    Args:
        folder: of the run.
        which: ``mu`` or ``sigma``.

    Raises:
        DamagedError: its file is not what a run leaves.
    """
    paths = {name: layer[which] for name, layer in read_layers(folder / FILE, [which]).items()}
    finite = {name: each[np.isfinite(each).all(axis=(1, 2))] for name, each in paths.items()}
    return {name: (each[0], each[-1]) for name, each in finite.items() if len(each)}


def informative_columns(data: Mapping[str, Any], tau: Array) -> list[int] | None:
    """Informative columns of the data, for a layer that sees these columns on a line."""
    region = data.get("informative")
    if not region or tau.shape[1] != 1 or data.get("inputs", len(tau)) != len(tau):
        return None
    return [int(edge) for edge in region]


def finite_times(layer: Mapping[str, Array]) -> int:
    """How many records there are before a run diverged."""
    finite = np.isfinite(layer["mu"] + layer["sigma"]).all(axis=(1, 2))
    return int(np.logical_and.accumulate(finite).sum())
