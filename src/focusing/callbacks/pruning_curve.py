"""Scores of a network against the share of pruned connections.

There are two rules: the paper's prunes connections outside a neuron's focus, |phi| < t, with the
same t for all focused layers. Magnitude pruning drops the smallest weights of all layers together.
All functions work on a copy of the network.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor, nn

from focusing.callbacks.analysis import Analysis, focused_layers
from focusing.data import Split
from focusing.nn import FocusedLinear, defocusify
from focusing.training.metrics import score
from focusing.training.module import FocusingModule

COUNTED_THRESHOLDS = (1e-7, 1.0)
"""Thresholds at which the paper counts the connections of each neuron."""


def thresholds(points: int = 40, highest: float = 1.5) -> list[float]:
    """0, and ``points`` even steps from 1e-7 to ``highest``; by default those of the paper."""
    return [0.0, *np.linspace(COUNTED_THRESHOLDS[0], highest, points).tolist()]


THRESHOLDS = tuple(thresholds())


class PruningCurve(Analysis):
    """Tests the trained network with fewer and fewer connections.

    The record gets ``pruning``:

    - ``curve``: scores after pruning |phi| < t in all focused layers, for t = 0 and ``points``
      values from 1e-7 to ``highest``; see :func:`pruning_curve`. Empty for a dense network.
    - ``magnitude``: scores after pruning the smallest weights of the same layers, at the sparsities
      of ``curve``, or for a dense network at ``points`` even steps from 0 to 1.
    - ``connections``: connections of each neuron at t = 1e-7 and t = 1, as the paper shows them.

    The weights are those after the last epoch, so the first point is the score ``last``.

    Args:
        points: number of points of each curve.
        highest: last threshold.
    """

    name = "pruning"

    def __init__(
        self,
        points: Annotated[int, Ge(1), Le(10_000)] = 40,
        highest: Annotated[float, Gt(COUNTED_THRESHOLDS[0])] = 1.5,
    ) -> None:
        super().__init__()
        self.points, self.highest = points, highest

    def analyse(self, module: FocusingModule, folder: Path) -> dict[str, Any]:
        """Compute both curves."""
        net, test = module.net, module.batches["test"]
        result: dict[str, Any] = {"weights": "last", "curve": [], "connections": []}
        if focused_layers(module):
            result["curve"] = pruning_curve(net, test, thresholds(self.points, self.highest))
            result["connections"] = [
                {"threshold": threshold, "layers": connections(net, threshold)}
                for threshold in COUNTED_THRESHOLDS
            ]
        sparsities = [point["sparsity"] for point in result["curve"]]
        sparsities = sparsities or np.linspace(0, 1, self.points, endpoint=False).tolist()
        result["magnitude"] = magnitude_curve(net, test, sparsities)
        return result


def pruning_curve(
    net: nn.Module, batches: Iterable[Split], limits: Sequence[float] = THRESHOLDS
) -> list[dict[str, Any]]:
    """Scores after pruning the connections with |phi| < t in all focused layers.

    Args:
        net: the network.
        batches: test data, iterated once per threshold.
        limits: values of t.

    Returns:
        For each threshold: ``threshold``, ``sparsity`` (pruned share of the focused layers'
        connections), ``layers`` (the same per layer) and the scores: ``loss`` and ``acc``, or
        ``loss``, ``mae`` and ``mse``.
    """
    points = _curve(net, batches, phi_levels(net), limits)
    return [{"threshold": t, **point} for t, point in zip(limits, points, strict=True)]


def magnitude_curve(
    net: nn.Module, batches: Iterable[Split], sparsities: Sequence[float]
) -> list[dict[str, Any]]:
    """Scores after pruning the smallest weights of all hidden layers together.

    Args:
        net: the network; for a focused layer the effective weights phi o W count.
        batches: test data, iterated once per sparsity.
        sparsities: shares of the connections to prune.

    Returns:
        For each sparsity: ``sparsity`` (rounded to whole connections), ``layers`` and the scores,
        as in :func:`pruning_curve`.
    """
    ranks = magnitude_ranks(net)
    total = sum(layer.numel() for layer in ranks.values())
    return _curve(net, batches, ranks, [round(share * total) for share in sparsities])


def hidden_layers(net: nn.Module) -> Mapping[str, Any]:
    """Layers to prune, by name.

    The focused layers or, if there are none, all ``nn.Linear`` layers except the last, which is the
    output. A single linear layer is pruned.
    """
    modules = dict(net.named_modules())
    layers = {name: layer for name, layer in modules.items() if isinstance(layer, FocusedLinear)}
    if layers:
        return layers
    linear = {name: layer for name, layer in modules.items() if isinstance(layer, nn.Linear)}
    if len(linear) > 1:
        linear.popitem()
    if not linear:
        raise ValueError("The network has neither focused nor linear layers.")
    return linear


@torch.no_grad()
def phi_levels(net: nn.Module) -> dict[str, Tensor]:
    """|phi| (n, m) of each focused layer; -1 for connections that are pruned already.

    A threshold keeps the connections with at least this level.
    """
    levels = {}
    for name, layer in hidden_layers(net).items():
        if not isinstance(layer, FocusedLinear):
            raise ValueError("The network has no focused layers: it can be pruned by magnitude.")
        phi = layer.phi().abs()
        levels[name] = phi if layer.mask is None else phi.masked_fill(~layer.mask, -1)
    return levels


@torch.no_grad()
def magnitude_ranks(net: nn.Module) -> dict[str, Tensor]:
    """Ranks (n, m) of the weights of each hidden layer, by magnitude among all layers, from 0.

    Pruning k connections keeps those with a rank of at least k, as
    ``torch.nn.utils.prune.global_unstructured`` does with ``L1Unstructured``.
    """
    weights: dict[str, Tensor] = {}
    for name, layer in hidden_layers(net).items():
        focused = isinstance(layer, FocusedLinear)
        weights[name] = layer.effective_weight() if focused else layer.weight
    order = torch.cat([weight.abs().flatten() for weight in weights.values()]).argsort()
    ranks = order.argsort()  # the inverse of a permutation
    chunks = torch.split(ranks, [weight.numel() for weight in weights.values()])
    pairs = zip(weights.items(), chunks, strict=True)
    return {name: chunk.view_as(weight) for (name, weight), chunk in pairs}


def connections(net: nn.Module, threshold: float) -> dict[str, list[int]]:
    """Number of connections with |phi| >= threshold of each neuron, by focused layer."""
    return {name: (phi >= threshold).sum(1).tolist() for name, phi in phi_levels(net).items()}


def folded(net: nn.Module) -> nn.Module:
    """Copy in float32 and eval mode with ``nn.Linear`` in place of focused layers."""
    twin = copy.deepcopy(net).float().eval()
    focused = any(isinstance(layer, FocusedLinear) for layer in twin.modules())
    return defocusify(twin) if focused else twin


@torch.no_grad()
def _curve(
    net: nn.Module,
    batches: Iterable[Split],
    levels: Mapping[str, Tensor],
    limits: Sequence[float],
) -> list[dict[str, Any]]:
    """Sparsity and scores after pruning the connections whose level is below each limit."""
    twin = folded(net)
    layers: dict[str, Any] = {name: twin.get_submodule(name) for name in levels}
    weights = {name: layer.weight.clone() for name, layer in layers.items()}
    total = sum(weight.numel() for weight in weights.values())
    points = []
    for limit in limits:
        dropped = {}
        for name, layer in layers.items():
            kept = levels[name] >= limit
            torch.mul(weights[name], kept, out=layer.weight.data)
            dropped[name] = kept.numel() - int(kept.sum())
        pairs = [(twin(batch.inputs), batch.targets) for batch in batches]
        points.append(
            {
                "sparsity": sum(dropped.values()) / total,
                "layers": {name: count / weights[name].numel() for name, count in dropped.items()},
                **score(*zip(*pairs, strict=True)),
            }
        )
    return points
