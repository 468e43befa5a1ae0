"""The foci of a run, from its ``focus.npz``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from focusing.callbacks.arrays import read_arrays
from focusing.callbacks.drawing import phi_of
from focusing.callbacks.style import Array

FILE = "focus.npz"


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
        return phi_of(
            self.tau, self.mu[at, neurons], self.sigma[at, neurons], self.focus, self.normalizer
        )


def read_foci(folder: Path, data: Mapping[str, Any]) -> list[Foci]:
    """The foci of each layer in the order of the network, until they became NaN; maybe none.

    Args:
        folder: of the run.
        data: what its record says about the data.
    """
    if not (folder / FILE).exists():
        return []
    stored = read_arrays(folder / FILE)
    stop = _last_finite(stored) + 1
    found = []
    for name in layer_names(stored):
        part = {key: stored[f"{name}/{key}"] for key in ("mu", "sigma", "tau", "shown")}
        found.append(
            Foci(
                layer=name,
                epochs=stored["epoch"][:stop],
                tau=part["tau"],
                mu=part["mu"][:stop],
                sigma=part["sigma"][:stop],
                shown=part["shown"],
                first=stored[f"{name}/weight_first"],
                last=stored[f"{name}/weight_last"],
                focus=str(stored[f"{name}/focus"]),
                normalizer=str(stored[f"{name}/normalizer"]),
                informative=informative_columns(data, part["tau"]),
            )
        )
    return found


def both_ends(folder: Path, which: str) -> dict[str, tuple[Array, Array]]:
    """First and last foci (n, d) of each layer; the rest of the file is not read.

    Args:
        folder: of the run.
        which: ``mu`` or ``sigma``.
    """
    if not (folder / FILE).exists():
        return {}
    stored = read_arrays(folder / FILE, lambda name: name.endswith(f"/{which}"))
    paths = {key.removesuffix(f"/{which}"): each for key, each in stored.items()}
    finite = {name: each[np.isfinite(each).all(axis=(1, 2))] for name, each in paths.items()}
    return {name: (each[0], each[-1]) for name, each in finite.items() if len(each)}


def layer_names(trajectory: Mapping[str, Array]) -> list[str]:
    """Names of the layers of a ``focus.npz``, in the order of the network."""
    return [key.removesuffix("/mu") for key in trajectory if key.endswith("/mu")]


def informative_columns(data: Mapping[str, Any], tau: Array) -> list[int] | None:
    """Informative columns of the data, for a layer that sees these columns on a line."""
    region = data.get("informative")
    if not region or tau.shape[1] != 1 or data.get("inputs", len(tau)) != len(tau):
        return None
    return [int(edge) for edge in region]


def _last_finite(trajectory: Mapping[str, Array]) -> int:
    """The last record before a run diverged."""
    foci = [values for key, values in trajectory.items() if key.endswith(("/mu", "/sigma"))]
    finite = [np.isfinite(values).all(axis=(1, 2)) for values in foci]
    return int(np.logical_and.accumulate(np.logical_and.reduce(finite)).sum()) - 1 if foci else 0
