"""The path of the foci through training: the contents of ``focus.npz``.

Keys, for every focused layer with n neurons, m inputs at positions in d dimensions, E records:

=========================  ==========  =========================================================
``epoch``                  (E,)        epochs done at that record; 0 is the start
``<layer>/mu``             (E, n, d)   centres
``<layer>/sigma``          (E, n, d)   apertures
``<layer>/tau``            (m, d)      positions of the inputs
``<layer>/shown``          (k,)        neurons whose weights are stored: all, or 64 evenly spaced
``<layer>/weight_first``   (k, m)      their focused weights phi o W at the start
``<layer>/weight_last``    (k, m)      and at the end
``<layer>/focus``          ()          name of the focus function
``<layer>/normalizer``     ()          name of the normaliser
=========================  ==========  =========================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focusing.nn import FocusedLinear
from focusing.results.arrays import write_arrays
from focusing.training.checkpoint import check_structure
from focusing.validation import fields, items, whole

MAX_STORED_NEURONS = 64
"""Neurons whose weights are stored: bounds a checkpoint, and no figure shows more."""


class Trajectory:
    """Foci of some layers over epochs; kept in memory, in checkpoints and in ``focus.npz``."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self._foci: dict[str, Tensor] = {}  # (at least E, 2, n, d), doubled when full
        self._weight_first: dict[str, Tensor] = {}

    def record(self, epoch: int, layers: Mapping[str, FocusedLinear]) -> None:
        """Add the foci as they are now; a record of the same epoch is replaced."""
        if not self.epochs:
            self._weight_first = {name: _weights(layer) for name, layer in layers.items()}
        keep = sum(done < epoch for done in self.epochs)
        self.epochs = [*self.epochs[:keep], epoch]
        for name, layer in layers.items():
            foci = torch.stack([layer.mu.detach(), layer.sigma.detach()]).float().cpu()
            stored = self._foci.get(name, foci.new_empty(8, *foci.shape))
            if keep == len(stored):
                stored = torch.cat([stored, torch.empty_like(stored)])
            stored[keep] = foci
            self._foci[name] = stored

    def foci(self, name: str) -> tuple[Tensor, Tensor]:
        """Mu and sigma of a layer, both (E, n, d)."""
        mu, sigma = self._foci[name][: len(self.epochs)].unbind(dim=1)
        return mu, sigma

    def movement(
        self, data: Mapping[str, Any], layers: Mapping[str, FocusedLinear]
    ) -> dict[str, dict[str, float]]:
        """How far the foci of every layer moved, for the record.

        Args:
            data: what the record says about the data.
            layers: the layers, for the positions of their inputs.

        Returns:
            Per layer ``moved`` (mean distance of mu from its start), ``sigma_first`` and
            ``sigma_last`` (means), ``widened`` (share of sigma that grew); without layers whose
            foci became NaN. Of the first layer, if it is known which inputs are informative, also
            ``inside_first`` and ``inside_last``: the share of centres that are among these.
        """
        movement = {}
        for name in self._foci:
            mu, sigma = self.foci(name)
            if not bool((mu[-1] + sigma[-1]).isfinite().all()):
                continue
            movement[name] = {
                "moved": torch.linalg.vector_norm(mu[-1] - mu[0], dim=-1).mean().item(),
                "sigma_first": sigma[0].mean().item(),
                "sigma_last": sigma[-1].mean().item(),
                "widened": (sigma[-1] > sigma[0]).float().mean().item(),
            }
            region = data.get("informative")
            first_layer = name == next(iter(self._foci)) and name in layers
            if region and first_layer and mu.shape[-1] == 1:
                line = layers[name].tau[:, 0].float().cpu()
                first, last = line[region[0]], line[region[1] - 1]
                inside = ((mu >= first) & (mu <= last)).float().mean(dim=(1, 2))
                movement[name] |= {
                    "inside_first": inside[0].item(),
                    "inside_last": inside[-1].item(),
                }
        return movement

    def state_dict(self) -> dict[str, Any]:
        """Plain containers and tensors, for a checkpoint."""
        return {
            "epochs": list(self.epochs),
            # Copies: a view would take its whole buffer into the file.
            "foci": {name: foci[: len(self.epochs)].clone() for name, foci in self._foci.items()},
            "weight_first": dict(self._weight_first),
        }

    def check_state(self, state: Any, layers: Mapping[str, FocusedLinear]) -> None:
        """Refuse the state of other layers.

        Raises:
            Wrong: it does not fit.
        """
        fields({"epochs": items(whole(), low=1)})({"epochs": state.get("epochs")})
        times = len(state["epochs"])
        like = {
            "epochs": state["epochs"],
            "foci": {
                name: torch.empty(times, 2, *layer.mu.shape) for name, layer in layers.items()
            },
            "weight_first": {
                name: torch.empty(len(stored_neurons(layer.out_features)), layer.in_features)
                for name, layer in layers.items()
            },
        }
        check_structure(state, like)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to the state of a checkpoint."""
        self.epochs = list(state["epochs"])
        self._foci = {name: foci.cpu() for name, foci in state["foci"].items()}
        self._weight_first = {
            name: weights.cpu() for name, weights in state["weight_first"].items()
        }

    def save(self, path: Path, layers: Mapping[str, FocusedLinear]) -> None:
        """Write ``focus.npz`` atomically.

        Args:
            path: the file.
            layers: the layers as they are at the end.
        """
        arrays: dict[str, Any] = {"epoch": np.array(self.epochs, dtype=np.int64)}
        for name, layer in layers.items():
            mu, sigma = self.foci(name)
            values = {
                "mu": mu.numpy(),
                "sigma": sigma.numpy(),
                "tau": layer.tau.detach().float().cpu().numpy(),
                "shown": stored_neurons(layer.out_features),
                "weight_first": self._weight_first[name].numpy(),
                "weight_last": _weights(layer).numpy(),
                "focus": np.array(layer.focus),
                "normalizer": np.array(layer.normalizer),
            }
            arrays |= {f"{name}/{key}": value for key, value in values.items()}
        write_arrays(path, arrays)


def stored_neurons(neurons: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Indices of the neurons whose weights are stored: all, or 64 evenly spaced."""
    return np.linspace(0, neurons - 1, min(neurons, MAX_STORED_NEURONS)).round().astype(np.int64)


@torch.no_grad()
def _weights(layer: FocusedLinear) -> Tensor:
    return layer.effective_weight()[stored_neurons(layer.out_features)].float().cpu()
