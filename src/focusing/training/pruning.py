"""What is left of a network's accuracy when connections are dropped.

Two rules. The paper's: drop the connections that a neuron looks away from, |phi| < t, with one t
for all focused layers. The usual one: drop the smallest weights, again with one limit for all
layers. Nothing here changes the network that it is given.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from focusing.data.dataset import Split
from focusing.nn import FocusedLinear, defocusify
from focusing.training.metrics import score

THRESHOLDS: tuple[float, ...] = (0.0, *torch.linspace(1e-7, 1.5, 40, dtype=torch.float64).tolist())
"""The paper's."""


def pruning_curve(
    net: nn.Module, batches: Iterable[Split], thresholds: Sequence[float] = THRESHOLDS
) -> list[dict[str, Any]]:
    """Scores after dropping the connections with |phi| < t of all focused layers.

    Args:
        net: the network.
        batches: the data that scores it; is iterated once per threshold.
        thresholds: values of t.

    Returns:
        For each threshold ``threshold``, ``sparsity`` (share of the focused layers' connections
        that are gone), ``layers`` (the same for each layer) and the scores: ``loss`` and ``acc``,
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
        For each sparsity ``sparsity`` (to a whole number of connections), ``layers`` and the
        scores, as :func:`pruning_curve` does.
    """
    ranks = magnitude_ranks(net)
    connections = sum(each.numel() for each in ranks.values())
    return _curve(net, batches, ranks, [round(share * connections) for share in sparsities])


def hidden_layers(net: nn.Module) -> dict[str, nn.Module]:
    """The layers that pruning is about, by name.

    They are the focused ones. A network without has its ``nn.Linear`` ones but the last, which is
    the output; if that is the only one, it is taken.
    """
    focused = {name: each for name, each in net.named_modules() if isinstance(each, FocusedLinear)}
    linear = {name: each for name, each in net.named_modules() if isinstance(each, nn.Linear)}
    if len(linear) > 1:
        linear.popitem()
    found: dict[str, nn.Module] = dict(focused or linear)
    if not found:
        raise ValueError("The network has neither focused nor linear layers.")
    return found


@torch.no_grad()
def phi_levels(net: nn.Module) -> dict[str, Tensor]:
    """Of each focused layer |phi|, (n, m); -1 where a connection is gone already.

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
    """Of each hidden layer the rank of each weight's size among all of them, (n, m), from 0.

    The connections that stay when k are dropped are those with a rank of at least k: the rule of
    ``torch.nn.utils.prune.global_unstructured`` with ``L1Unstructured``.
    """
    weights = {name: _weight(layer) for name, layer in hidden_layers(net).items()}
    order = torch.cat([each.abs().flatten() for each in weights.values()]).argsort()
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(len(order), device=order.device)
    parts = torch.split(ranks, [each.numel() for each in weights.values()])
    pairs = zip(weights.items(), parts, strict=True)
    return {name: part.view_as(weight) for (name, weight), part in pairs}


def connections(net: nn.Module, threshold: float) -> dict[str, list[int]]:
    """How many connections with |phi| >= threshold each neuron of each focused layer has."""
    return {name: (phi >= threshold).sum(1).tolist() for name, phi in phi_levels(net).items()}


def folded(net: nn.Module) -> nn.Module:
    """A copy in float32 and eval mode whose focused layers are plain ``nn.Linear`` ones."""
    twin = copy.deepcopy(net).float().eval()
    focused = any(isinstance(each, FocusedLinear) for each in twin.modules())
    return defocusify(twin) if focused else twin


@torch.no_grad()
def _curve(
    net: nn.Module,
    batches: Iterable[Split],
    levels: Mapping[str, Tensor],
    limits: Sequence[float],
) -> list[dict[str, Any]]:
    """A point for each limit, below which connections are dropped."""
    twin = folded(net)
    layers: dict[str, Any] = {name: twin.get_submodule(name) for name in levels}
    whole = {name: layer.weight.clone() for name, layer in layers.items()}
    connections = sum(weight.numel() for weight in whole.values())
    points = []
    for limit in limits:
        dropped = {}
        for name, layer in layers.items():
            kept = levels[name] >= limit
            torch.mul(whole[name], kept, out=layer.weight.data)
            dropped[name] = kept.numel() - int(kept.sum())
        seen = [(twin(batch.inputs), batch.targets) for batch in batches]
        points.append(
            {
                "sparsity": sum(dropped.values()) / connections,
                "layers": {name: gone / whole[name].numel() for name, gone in dropped.items()},
                **score([each[0] for each in seen], [each[1] for each in seen]),
            }
        )
    return points


def _weight(layer: nn.Module) -> Tensor:
    if isinstance(layer, FocusedLinear):
        return layer.effective_weight()
    assert isinstance(layer, nn.Linear)  # noqa: S101 - for the type checker
    return layer.weight
