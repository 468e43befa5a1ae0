"""The scores of a network that loses connections.

Two rules. The paper's: drop the connections outside a neuron's focus, |phi| < t, with one t for all
focused layers. The usual one: drop the smallest weights, again with one limit for all layers.
Nothing here changes the network: it works on a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from focusing.data import Split
from focusing.nn import FocusedLinear, defocusify
from focusing.training.metrics import score

THRESHOLDS: tuple[float, ...] = (0.0, *torch.linspace(1e-7, 1.5, 40, dtype=torch.float64).tolist())
"""Those of the paper."""


def pruning_curve(
    net: nn.Module, batches: Iterable[Split], thresholds: Sequence[float] = THRESHOLDS
) -> list[dict[str, Any]]:
    """Scores after dropping the connections with |phi| < t of all focused layers.

    Args:
        net: the network.
        batches: the data that scores it; is iterated once per threshold.
        thresholds: values of t.

    Returns:
        For every threshold ``threshold``, ``sparsity`` (share of the focused layers' connections
        that are gone), ``layers`` (the same per layer) and the scores: ``loss`` and ``acc``,
        or ``loss``, ``mae`` and ``mse``.
    """
    points = _curve(net, batches, phi_levels(net), thresholds)
    return [{"threshold": t, **point} for t, point in zip(thresholds, points, strict=True)]


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
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(len(order), device=order.device)
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
