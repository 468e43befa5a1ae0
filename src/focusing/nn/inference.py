"""From a trained network to one that only computes: nothing to train, nothing to normalise."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from focusing.nn.banded import BandedLinear
from focusing.nn.linear import FocusedLinear

ELEMENTWISE = (nn.ReLU, nn.Identity, nn.Dropout, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Tanh)
"""Layers that do not mind in which order they see values."""


@torch.no_grad()
def to_inference(
    module: nn.Module, *, sparse: bool = False, opaque: Sequence[Callable[..., Any]] = ()
) -> nn.Module:
    """A copy of a network in eval mode, with the same outputs, that is as fast as can be.

    Focused layers become plain ``nn.Linear`` ones, and a batch norm becomes part of the linear or
    convolutional layer before it.

    Args:
        module: the network, pruned or not; stays as it is.
        sparse: make focused layers :class:`BandedLinear` where that pays. A permutation of their
            outputs becomes part of the next layer, if that is a linear one.
        opaque: functions that the network's ``forward`` calls and torch.fx must not look into,
            because they ask for shapes. If it cannot follow ``forward``, batch norms stay.
    """
    net = copy.deepcopy(module).eval().requires_grad_(False)
    positions: dict[str, Tensor] = {}
    for name, layer in list(net.named_modules()):
        if isinstance(layer, FocusedLinear):
            positions[name] = layer.tau
            folded = layer.fold().requires_grad_(False)
            if sparse:
                phi = layer.phi().abs()
                folded.weight *= phi > layer.cutoff * phi.amax(1, keepdim=True)
            net = _put(net, name, folded)
    steps = _steps(net, opaque)
    _fold_batch_norm(net, steps)
    if sparse:
        for name in positions:
            net = _cut(net, name, positions, steps)
    return net


def _fold_batch_norm(net: nn.Module, steps: dict[str, str]) -> None:
    for name, following in list(steps.items()):
        layer, norm = net.get_submodule(name), net.get_submodule(following)
        if not isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d) or norm.running_mean is None:
            continue
        if norm.weight is None:  # torch's functions want to see one
            norm.weight = nn.Parameter(torch.ones_like(norm.running_mean))
            norm.bias = nn.Parameter(torch.zeros_like(norm.running_mean))
        if isinstance(layer, nn.Linear):
            fused: nn.Module = fuse_linear_bn_eval(layer, norm)
        elif isinstance(layer, nn.Conv1d | nn.Conv2d):
            fused = fuse_conv_bn_eval(layer, norm)
        else:
            continue
        _put(net, name, fused.requires_grad_(False))
        _put(net, following, nn.Identity())


def _cut(
    net: nn.Module, name: str, positions: dict[str, Tensor], steps: dict[str, str]
) -> nn.Module:
    """Put tiles in the place of a layer, if that pays."""
    layer = net.get_submodule(name)
    assert isinstance(layer, nn.Linear)  # noqa: S101 - for the type checker
    following = steps.get(name)
    while following and isinstance(net.get_submodule(following), ELEMENTWISE):
        following = steps.get(following)
    after = net.get_submodule(following) if following else None
    # A focused layer needs its inputs in their order: there, neighbours are side by side.
    free = type(after) is nn.Linear and following not in positions
    banded = BandedLinear(
        layer.weight, layer.bias, positions=positions[name], restore=not free
    ).eval()
    if banded.work == 1:
        return net
    if free and banded.order is not None:
        assert isinstance(after, nn.Linear)  # noqa: S101 - for the type checker
        after.weight.copy_(after.weight[:, banded.order])
    return _put(net, name, banded)


def _put(net: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    if not name:
        return layer
    net.set_submodule(name, layer)
    return net


def _steps(net: nn.Module, opaque: Sequence[Callable[..., Any]]) -> dict[str, str]:
    """Which layer sees what a layer gives, for layers that are used once and seen by one only."""
    graph = _graph(net, opaque)
    if graph is None:
        return {}
    nodes = [node for node in graph.nodes if node.op == "call_module"]
    names = [str(node.target) for node in nodes]
    layers = [net.get_submodule(name) for name in names]
    found = {}
    for node, name, layer in zip(nodes, names, layers, strict=True):
        users = list(node.users)
        if len(users) != 1 or users[0].op != "call_module" or layers.count(layer) > 1:
            continue
        following = str(users[0].target)
        if layers.count(net.get_submodule(following)) == 1:
            found[name] = following
    return found


class _Tracer(fx.Tracer):
    """Takes layers as they are, ours too."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return not any(m.children()) or super().is_leaf_module(m, module_qualified_name)


def _graph(net: nn.Module, opaque: Sequence[Callable[..., Any]]) -> fx.Graph | None:
    """What a network does, step by step; None if that depends on its input."""
    if not any(net.children()):
        return None
    try:
        return _Tracer(autowrap_functions=tuple(opaque)).trace(net)
    except Exception:  # whatever its forward does with a stand-in for a tensor
        return None
