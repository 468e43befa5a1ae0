"""Weights on dead inputs, which have the same value in all samples."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytorch_lightning as pl
import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor, nn

from focusing.callbacks.analysis import Analysis
from focusing.data import Batches
from focusing.errors import UserError
from focusing.nn import FocusedLinear
from focusing.results.arrays import evenly_spaced, write_arrays
from focusing.training.module import FocusingModule

FILE = "dead_inputs.npz"


class DeadInputs(Analysis):
    """Compares the weights of the first layer on dead inputs before and after training.

    An input is dead if it has the same value in all training samples, such as the border of padded
    digits; augmentation does not count. This is the paper's "Redundant Connections": a dense neuron
    keeps its weights on them. For a focused layer these are the effective weights phi o W.
    The record gets ``dead_inputs``:

    - ``layer``, ``inputs`` and ``dead``: name of the layer, number of inputs and of dead inputs.
    - ``before`` and ``after``, each for ``dead`` and ``live`` inputs: ``mean_abs``, and the share
      (``small``) and number (``small_count``) of weights with |w| <= ``small``; null if there
      are no such inputs.
    - ``change``: mean |after - before| for ``dead`` and ``live`` inputs.
    - ``histogram``: ``edges``, and counts ``before_dead``, ``after_dead``, ``before_live``,
      ``after_live``.

    The file ``dead_inputs.npz`` holds ``dead`` (m,), ``shape`` (of a sample), ``neurons`` (k,), and
    their weights ``before`` and ``after``, both (k, m).

    Args:
        small: largest absolute value of a weight that counts as small.
        neurons: number of neurons whose weights are kept for figures, evenly spaced.
        bins: number of bins of the histogram.
    """

    name = "dead_inputs"
    state = ("before",)

    def __init__(
        self,
        small: Annotated[float, Gt(0)] = 0.01,
        neurons: Annotated[int, Ge(1)] = 10,
        bins: Annotated[int, Ge(1), Le(10_000)] = 50,
    ) -> None:
        super().__init__()
        self.small, self.neurons, self.bins = small, neurons, bins
        self.before: Tensor | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Refuse a network whose first layer is not linear."""
        _first_layer(pl_module)  # type: ignore[arg-type]

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the initial weights, unless the run resumes."""
        if self.before is None:
            self.before = _weights(_first_layer(pl_module)[1])  # type: ignore[arg-type]

    def analyse(self, module: FocusingModule, folder: Path) -> dict[str, Any]:
        """Compare the weights before and after training."""
        name, layer = _first_layer(module)
        before, after = self.before, _weights(layer)
        assert before is not None  # noqa: S101 - every checkpoint holds it
        batches = module.batches["train"]
        dead = constant_inputs(batches)
        groups = {"dead": dead, "live": ~dead}
        chosen = evenly_spaced(len(after), self.neurons)
        arrays = {
            "dead": dead.numpy(),
            "shape": np.array(batches.split.inputs.shape[1:]),
            "neurons": chosen,
            "before": before[chosen].numpy(),
            "after": after[chosen].numpy(),
        }
        write_arrays(folder / FILE, arrays)
        limit = max(before.abs().max().item(), after.abs().max().item()) or 1.0
        edges = np.linspace(-limit, limit, self.bins + 1)
        histogram = {
            f"{when}_{group}": np.histogram(weights[:, columns].numpy(), edges)[0].tolist()
            for when, weights in (("before", before), ("after", after))
            for group, columns in groups.items()
        }
        return {
            "layer": name,
            "inputs": len(dead),
            "dead": int(dead.sum()),
            "small": self.small,
            "before": {k: self._describe(before[:, columns]) for k, columns in groups.items()},
            "after": {k: self._describe(after[:, columns]) for k, columns in groups.items()},
            "change": {
                group: (after - before)[:, columns].abs().mean().item() if columns.any() else None
                for group, columns in groups.items()
            },
            "histogram": {"edges": edges.tolist(), **histogram},
            "file": FILE,
        }

    def _describe(self, weights: Tensor) -> dict[str, Any] | None:
        if not weights.numel():
            return None
        small = int((weights.abs() <= self.small).sum())
        return {
            "mean_abs": weights.abs().mean().item(),
            "small": small / weights.numel(),
            "small_count": small,
        }


def constant_inputs(batches: Batches) -> Tensor:
    """Mask (m,) of the inputs that have the same value in all samples."""
    constant, first = torch.tensor(True), torch.empty(0)
    for inputs, _ in batches.split.chunks(1024):
        values = (inputs if batches.prepare is None else batches.prepare(inputs)).flatten(1)
        first = first if len(first) else values[0]
        constant = constant.to(values.device) & (values == first).all(0)
    return constant.cpu()


def _first_layer(module: FocusingModule) -> tuple[str, nn.Module]:
    """Name and module of the linear layer that takes the inputs."""
    inputs = math.prod(module.batches["train"].split.inputs.shape[1:])
    for name, layer in module.net.named_modules():
        if isinstance(layer, (FocusedLinear, nn.Linear)):
            if layer.in_features == inputs:
                return name, layer
            break
    raise UserError(
        "callbacks.dead_inputs: the first layer of this network does not see the inputs one by "
        "one; use a simple network, or callbacks.dead_inputs=null."
    )


@torch.no_grad()
def _weights(layer: nn.Module) -> Tensor:
    weight: Any = layer.effective_weight() if isinstance(layer, FocusedLinear) else layer.weight
    return weight.detach().float().cpu().clone()  # type: ignore[no-any-return]
