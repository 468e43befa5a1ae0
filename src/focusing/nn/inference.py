"""Convert a trained network for inference: fold foci and batch norms into plain layers."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from focusing.nn.linear import FocusedLinear
from focusing.nn.ops import is_hooked
from focusing.nn.sparse import BandedLinear
from focusing.nn.windows import WindowReader

ELEMENTWISE = (nn.ReLU, nn.Identity, nn.Dropout, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Tanh)
"""Elementwise layers, to which the order of their inputs does not matter."""
MAX_DENSITY = 0.8
"""Share of nonzero weights above which a layer without useful tiles stays dense."""


@torch.no_grad()
def to_inference(
    module: nn.Module,
    *,
    sparse: bool = False,
    opaque: Sequence[Callable[..., Any]] = (),
    example: Tensor | tuple[Any, ...] | None = None,
) -> nn.Module:
    """A faster copy of a network in eval mode, with the same outputs.

    Focused layers become plain ``nn.Linear`` layers, and batch norms are folded into the linear or
    convolutional layer before them. Layers with hooks, parametrizations or shared parameters are
    not folded into.

    Args:
        module: the network, pruned or not; it is not changed.
        sparse: convert focused layers to :class:`BandedLinear` where that pays. If the next layer
            is linear, it takes in the permutation of their outputs.
        opaque: functions that ``forward`` calls and that torch.fx must not trace, because they
            read shapes. If torch.fx cannot trace ``forward``, batch norms are not folded.
        example: inputs of the network, with the dimensions that it will get. ``BatchNorm1d`` on
            (samples, channels, values) does not normalise the outputs of a linear layer. Without an
            example or an ``nn.Flatten`` that excludes this, it is not folded.
    """
    net = copy.deepcopy(module).eval().requires_grad_(False)
    graph = _trace_layers(net, opaque, example)
    positions: dict[str, Tensor] = {}
    for name, layer in list(net.named_modules()):
        if isinstance(layer, FocusedLinear) and not is_hooked(layer) and name not in graph.read:
            folded = layer.fold().requires_grad_(False)
            positions[name] = layer.tau  # which fold() has updated
            if sparse:
                folded.weight *= layer.within_cutoff()
            net = _set_layer(net, name, folded)
    for name, following in graph.next.items():
        _fold_batch_norm(net, name, following, graph)
    if sparse:
        for name in positions:
            net = _make_banded(net, name, positions, graph)
    return net


@dataclass(frozen=True)
class _Graph:
    """How the layers of a network are connected.

    Args:
        next: the only consumer of a layer's output, where both layers are called once.
        read: layers whose parameters ``forward`` reads directly.
        flat: layers whose inputs are known to be (samples, values).
        shared: layers that share parameters with other layers.
    """

    next: dict[str, str]
    read: set[str]
    flat: set[str]
    shared: set[str]

    def is_plain(self, net: nn.Module, name: str) -> bool:
        """Whether a layer is one of torch's own, without hooks, that nothing else depends on."""
        layer = net.get_submodule(name)
        builtin = type(layer).__module__.startswith("torch.nn.modules.")
        return builtin and name not in self.read | self.shared and not is_hooked(layer)


def _fold_batch_norm(net: nn.Module, name: str, following: str, graph: _Graph) -> None:
    layer, norm = net.get_submodule(name), net.get_submodule(following)
    if not (graph.is_plain(net, name) and graph.is_plain(net, following)):
        return
    if not isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d) or norm.running_mean is None:
        return
    if norm.weight is None:  # torch's fusion functions need one
        norm.weight = nn.Parameter(torch.ones_like(norm.running_mean), requires_grad=False)
        norm.bias = nn.Parameter(torch.zeros_like(norm.running_mean), requires_grad=False)
    if isinstance(layer, nn.Linear):
        if name not in graph.flat or norm.num_features != layer.out_features:
            return
        fused: nn.Module = fuse_linear_bn_eval(layer, norm)
    elif isinstance(layer, nn.Conv1d | nn.Conv2d) and norm.num_features == layer.out_channels:
        fused = fuse_conv_bn_eval(layer, norm)
    else:
        return
    _set_layer(net, name, fused.requires_grad_(False))
    _set_layer(net, following, nn.Identity())


def _make_banded(net: nn.Module, name: str, positions: dict[str, Tensor], graph: _Graph) -> Any:
    """Replace a layer by a banded one where that pays."""
    layer: Any = net.get_submodule(name)
    following = graph.next.get(name)
    while following and graph.is_plain(net, following):
        after: Any = net.get_submodule(following)
        if type(after) not in ELEMENTWISE:
            break
        following = graph.next.get(following)
    else:
        after = None
    # A permutation of its inputs would scatter the band of a focused layer.
    reorder = type(after) is nn.Linear and following not in positions
    banded = BandedLinear(
        layer.weight, layer.bias, positions=positions[name], restore=not reorder
    ).eval()
    if banded.work == 1 and layer.weight.count_nonzero() > MAX_DENSITY * layer.weight.numel():
        return net
    if reorder and banded.order is not None:
        after.weight = nn.Parameter(after.weight[:, banded.order], requires_grad=False)
    return _set_layer(net, name, banded)


def _set_layer(net: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    if not name:
        return layer
    net.set_submodule(name, layer)
    return net


def _trace_layers(
    net: nn.Module, opaque: Sequence[Callable[..., Any]], example: Tensor | tuple[Any, ...] | None
) -> _Graph:
    owners = Counter(id(value) for _, value in net.named_parameters(remove_duplicate=False))
    shared = {
        name
        for name, layer in net.named_modules()
        if any(owners[id(value)] > 1 for value in layer.parameters(recurse=False))
    }
    flat = set() if example is None else _flat_layers(net, example)
    graph = _trace(net, opaque)
    if graph is None:
        return _Graph({}, set(), flat, shared)
    read = {str(node.target).rpartition(".")[0] for node in graph.nodes if node.op == "get_attr"}
    calls = {node: str(node.target) for node in graph.nodes if node.op == "call_module"}
    uses = Counter(net.get_submodule(name) for name in calls.values())
    following = {}
    for node, name in calls.items():
        layer, users = net.get_submodule(name), list(node.users)
        if example is None and type(layer) is not nn.Flatten and _is_flattened(net, node):
            flat.add(name)
        if len(users) != 1 or users[0] not in calls or uses[layer] > 1:
            continue
        if uses[net.get_submodule(calls[users[0]])] == 1:
            following[name] = calls[users[0]]
    return _Graph(following, read, flat, shared)


def _flat_layers(net: nn.Module, example: Tensor | tuple[Any, ...]) -> set[str]:
    """The linear layers whose inputs always have two dimensions for this example."""
    seen: dict[str, set[int]] = {}
    hooks = [
        layer.register_forward_pre_hook(
            lambda _, inputs, name=name: seen.setdefault(name, set()).add(inputs[0].dim())
        )
        for name, layer in net.named_modules()
        if isinstance(layer, nn.Linear | FocusedLinear)
    ]
    net(*example) if isinstance(example, tuple) else net(example)
    for hook in hooks:
        hook.remove()
    return {name for name, dimensions in seen.items() if dimensions == {2}}


def _is_flattened(net: nn.Module, node: fx.Node) -> bool:
    """Whether a layer's input was flattened, with only shape-preserving layers since then."""
    before = node.args[0] if node.args else None
    while isinstance(before, fx.Node) and before.op == "call_module":
        layer = net.get_submodule(str(before.target))
        if is_hooked(layer):
            return False
        if type(layer) is nn.Flatten:
            return (layer.start_dim, layer.end_dim) == (1, -1)
        if type(layer) not in (*ELEMENTWISE, nn.Linear, FocusedLinear, nn.BatchNorm1d):
            return False
        before = before.args[0] if before.args else None
    return False


class _Tracer(fx.Tracer):
    """Does not trace into layers without children, nor into window readers."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if isinstance(m, WindowReader):
            return True
        return not any(m.children()) or super().is_leaf_module(m, module_qualified_name)


def _trace(net: nn.Module, opaque: Sequence[Callable[..., Any]]) -> fx.Graph | None:
    """The graph of a network; None if torch.fx cannot trace it."""
    if not any(net.children()):
        return None
    try:
        return _Tracer(autowrap_functions=tuple(opaque)).trace(net)
    except Exception:  # a user's forward may raise anything when it gets a proxy
        return None
