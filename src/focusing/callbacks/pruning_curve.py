"""How many connections a network can lose.

Two rules. The paper's: drop the connections outside a neuron's focus, |phi| < t, with one t for all
focused layers. The usual one: drop the smallest weights, again with one limit for all layers.
Nothing here changes the network: it works on a copy.
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
"""Thresholds at which the paper counts the connections of every neuron."""


def thresholds(points: int = 40, highest: float = 1.5) -> list[float]:
    """0, and even steps from 1e-7 to the highest; by default those of the paper."""
    return [0.0, *np.linspace(COUNTED_THRESHOLDS[0], highest, points).tolist()]


THRESHOLDS = tuple(thresholds())


class PruningCurve(Analysis):
    """Test scores of the trained network with fewer and fewer connections.

    The record gets ``pruning``:

    - ``curve``: the paper's rule, |phi| < t dropped in all focused layers, for t = 0 and
      ``points`` values from 1e-7 to ``highest``; see
      :func:`pruning_curve`. A dense network has none.
    - ``magnitude``: the smallest weights of the same layers dropped, with one limit for all of
      them, at the sparsities of ``curve``; of a dense network at ``points`` even steps from 0 to 1.
    - ``connections``: how many every neuron has at t = 1e-7 and t = 1, as the paper shows them.

    The weights are those after the last epoch, so that the first point is the score ``last``.

    Args:
        points: of each curve.
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
    """Scores after dropping the connections with |phi| < t of all focused layers.

    Args:
        net: the network.
        batches: the data that scores it; is iterated once per threshold.
        limits: values of t.

    Returns:
        For every threshold ``threshold``, ``sparsity`` (share of the focused layers' connections
        that are gone), ``layers`` (the same per layer) and the scores: ``loss`` and ``acc``,
        or ``loss``, ``mae`` and ``mse``.
    """
    points = _curve(net, batches, phi_levels(net), limits)
    return [{"threshold": t, **point} for t, point in zip(limits, points, strict=True)]


def magnitude_curve(
    net: nn.Module, batches: Iterable[Split], sparsities: Sequence[float]
) -> list[dict[str, Any]]:
    """Scores after dropping the smallest weights of the hidden layers, all layers together.

    Args:
        net: the network; of a focused layer the effective weights phi o W count.
        batches: the data that scores it; is iterated once per sparsity.
        sparsities: shares of the connections to drop.

    Returns:
        For every sparsity ``sparsity`` (to a whole number of connections), ``layers`` and the
        scores, as :func:`pruning_curve` does.
    """
    ranks = magnitude_ranks(net)
    total = sum(layer.numel() for layer in ranks.values())
    return _curve(net, batches, ranks, [round(share * total) for share in sparsities])


def hidden_layers(net: nn.Module) -> Mapping[str, Any]:
    """The layers that pruning is about, by name.

    They are the focused ones. Without any they are all ``nn.Linear`` ones but the last, which is
    the output; if it is the only one, it is taken.
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
    """|phi| of every focused layer, (n, m); -1 where a connection is gone already.

    The connections that stay at a threshold are those with a level of at least that.
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
    """For every hidden layer, the ranks (n, m) of its weights by size among all layers, from 0.

    The connections that stay when k are dropped are those with a rank of at least k: the rule of
    ``torch.nn.utils.prune.global_unstructured`` with ``L1Unstructured``.
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
    """For every focused layer, how many connections with |phi| >= threshold its neurons have."""
    return {name: (phi >= threshold).sum(1).tolist() for name, phi in phi_levels(net).items()}


def folded(net: nn.Module) -> nn.Module:
    """A copy in float32 and eval mode whose focused layers are plain ``nn.Linear`` ones."""
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
    """A point for every limit, below which connections are dropped."""
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
