"""Base class of all networks: inference, a dense twin, and a summary of size and cost."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from focusing.instantiate import check_arguments
from focusing.nn import FocusedLinear, to_inference

Inputs = int | Sequence[int]
"""The shape of a sample, or the number of its inputs."""
Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
MAX_VARIED_LAYERS = 5
"""Layers for which a dense twin tries combinations of widths: their number is exponential."""
MAX_LAYERS = 1000
"""Most layers of a network: more take minutes to build, and an untrusted file may ask for them."""


def channels_first(input: Tensor) -> Tensor:
    """Images (N, H, W, C) or (N, H, W) as (N, C, H, W): a view in ``torch.channels_last``."""
    if input.dim() == 4 and input.shape[3] == 1:
        input = input[..., 0]  # a single channel may have any stride, but torch goes by it
    if input.dim() == 3:
        input = input.unsqueeze(3)
    return input.permute(0, 3, 1, 2)


@dataclass(frozen=True)
class LayerSummary:
    """A layer that has parameters.

    Args:
        name: as in ``named_modules``.
        kind: its class.
        output: shape of its output for a sample.
        parameters: number of parameters.
        trained: number of trainable parameters.
        connections: number of weights that link an input to a neuron, without biases, batch norm
            and pruned weights. A focused layer counts those within its foci, a convolution each
            weight once.
        multiply_adds: multiply-adds of these connections per sample, with the padding of a
            convolution. An embedding counts the additions of its mean.
    """

    name: str
    kind: str
    output: tuple[int, ...]
    parameters: int
    trained: int
    connections: int
    multiply_adds: int


@dataclass(frozen=True)
class Summary:
    """The layers of a network; ``print`` it for a table."""

    layers: tuple[LayerSummary, ...]

    def totals(self) -> dict[str, int]:
        """Sums over all layers, as in the record of a run."""
        names = ("parameters", "trained", "connections", "multiply_adds")
        return {name: sum(getattr(layer, name) for layer in self.layers) for name in names}

    def __str__(self) -> str:
        rows = [("layer", "kind", "output", "parameters", "connections", "multiply-adds")]
        for layer in (*self.layers, LayerSummary("total", "", (), **self.totals())):
            counts = (layer.parameters, layer.connections, layer.multiply_adds)
            parameters, connections, multiply_adds = (f"{count:,}" for count in counts)
            shape = "x".join(map(str, layer.output))
            rows.append((layer.name, layer.kind, shape, parameters, connections, multiply_adds))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        aligned = zip("<<<>>>", widths, strict=True)  # names to the left, counts to the right
        line = "  ".join(f"{{:{side}{width}}}" for side, width in aligned)
        return "\n".join(line.format(*row) for row in rows)


class Network(nn.Module):
    """A network whose hidden layers may be focused.

    Args:
        inputs: shape of a sample, or the number of its inputs.
        outputs: number of outputs.
        hidden: width of each layer that a dense twin may widen or narrow.
        arguments: all arguments of the constructor (its ``locals()``). They are checked, and kept
            to build the dense twin.

    Attributes:
        shape: shape of a sample.
        widths: width of each layer that a dense twin may widen or narrow.
        width_option: name of the constructor's argument for these widths.
        vocabulary: size of the vocabulary, if inputs are tokens.
    """

    width_option = "hidden"
    vocabulary: int | None = None

    def __init__(
        self,
        inputs: Inputs,
        outputs: int,
        hidden: Sequence[int],
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        arguments = arguments or {}
        check_arguments(type(self), arguments, "model.")
        shared = set(inspect.signature(type(self)).parameters) - {"focus"}
        self._dense_arguments = {name: arguments[name] for name in arguments if name in shared}
        self.shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
        self.outputs, self.widths = outputs, tuple(hidden)
        if len(self.widths) > MAX_LAYERS:
            raise ValueError(f"hidden has {len(self.widths)} layers, the most are {MAX_LAYERS}.")
        if not self.shape or min(self.shape) < 1:
            raise ValueError(f"inputs={self.shape} must be positive numbers.")
        if outputs < 1:
            raise ValueError(f"outputs={outputs} must be positive.")
        if not all(neurons > 0 for neurons in hidden):
            raise ValueError(f"hidden={list(hidden)} must be positive numbers of neurons.")

    @property
    def inputs(self) -> int:
        """Number of inputs of a sample."""
        return math.prod(self.shape)

    def focused_layers(self) -> dict[str, FocusedLinear]:
        """The focused layers by name, in order."""
        modules = self.named_modules()
        return {name: layer for name, layer in modules if isinstance(layer, FocusedLinear)}

    def example(self, samples: int = 1) -> Tensor:
        """A batch of zeros of the right shape and dtype; for texts, of token 0."""
        dtype = torch.int32 if self.vocabulary else None
        return next(self.parameters()).new_zeros(samples, *self.shape, dtype=dtype)

    def summary(self) -> Summary:
        """Parameters, connections and multiply-adds of each layer and in total."""
        return summarize(self, self.example())

    def to_inference(self, sparse: bool = False) -> nn.Module:
        """A copy for inference: foci are folded into weights, batch norms into layers.

        Args:
            sparse: make focused layers sparse where that pays, usually after pruning.
        """
        return to_inference(self, sparse=sparse, opaque=[channels_first], example=self.example())

    def match_parameters(self) -> Network:
        """A fair dense twin: the same network without focus, with as many trainable parameters.

        Foci are parameters too, so the twin is a little wider. Its hidden layers keep their
        proportions as closely as the number of parameters allows.

        Returns:
            A newly initialised network of the same class, dtype and device.
        """
        target = _trainable(self)
        low, high = 0.0, 1.0
        while self.widths and self._count(self._scaled(high)) < target:
            low, high = high, 2 * high
        # Bisect the scale until the widest layer is fixed; then try all widths around it. Of many
        # layers the narrower ones keep the scale.
        while (high - low) * max(self.widths, default=0) > 0.5:
            mid = (low + high) / 2
            low, high = (mid, high) if self._count(self._scaled(mid)) < target else (low, mid)
        around = [range(width, width + 1) for width in self._scaled(high)]
        widest = sorted(range(len(around)), key=lambda layer: -self.widths[layer])
        for layer in widest[:MAX_VARIED_LAYERS]:
            width = self.widths[layer]
            around[layer] = range(max(1, math.floor(width * low) - 1), math.ceil(width * high) + 2)

        def distance(widths: Sequence[int]) -> tuple[int, float]:
            skew = [new / old for new, old in zip(widths, self.widths, strict=True)] or [1.0]
            return abs(self._count(widths) - target), max(skew) - min(skew)

        return self._dense(min(product(*around), key=distance)).to(next(self.parameters()))

    def _scaled(self, factor: float) -> tuple[int, ...]:
        return tuple(max(1, round(width * factor)) for width in self.widths)

    def _count(self, widths: Sequence[int]) -> int:
        with torch.device("meta"):  # uses no memory and no random numbers
            return _trainable(self._dense(widths))

    def _dense(self, widths: Sequence[int]) -> Network:
        """This network without focus and with other widths."""
        width = {self.width_option: widths[0] if len(widths) == 1 else widths}
        build: Any = type(self)  # subclasses have other signatures
        twin: Network = build(**{**self._dense_arguments, **width})
        return twin


def summarize(net: nn.Module, sample: Tensor) -> Summary:
    """Count the parameters, connections and multiply-adds of a network.

    Args:
        net: any module.
        sample: a batch of one, on the network's device; its values do not matter.
    """
    owners = _parameter_owners(net)
    outputs: dict[nn.Module, tuple[int, ...]] = {}
    links = {module: connections(module) for module in owners}
    work = dict.fromkeys(owners, 0)

    def watch(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        output = output[0] if isinstance(output, tuple) else output  # attention returns weights too
        outputs[module] = tuple(output.shape[1:])
        inputs = inspect.signature(module.forward).bind(*args, **kwargs).args
        work[module] += _multiply_adds(module, links[module], inputs, output)

    hooks = [module.register_forward_hook(watch, with_kwargs=True) for module in owners]
    modes = {module: module.training for module in net.modules()}
    # The reference engine keeps no state; the others would cache a plan.
    backends = {layer: layer.backend for layer in owners if isinstance(layer, FocusedLinear)}
    try:
        for layer in backends:
            layer.backend = "reference"
        with torch.no_grad():
            net.eval()(sample)  # no random numbers, no updates of batch norm
    finally:
        for hook in hooks:
            hook.remove()
        for module, training in modes.items():
            module.training = training
        for layer, backend in backends.items():
            layer.backend = backend
    return Summary(
        tuple(
            LayerSummary(
                name,
                type(module).__name__,
                outputs.get(module, ()),
                sum(parameter.numel() for parameter in parameters),
                sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
                links[module],
                work[module],
            )
            for module, (name, parameters) in owners.items()
        )
    )


@torch.no_grad()
def connections(layer: nn.Module) -> int:
    """Number of weights of a layer that link an input to a neuron."""
    if isinstance(layer, FocusedLinear):
        return int(layer.within_cutoff().sum())
    if isinstance(layer, nn.MultiheadAttention):  # its output projection is a separate layer
        return int(layer.embed_dim * (layer.embed_dim + layer.kdim + layer.vdim))
    if isinstance(layer, nn.Linear | Convolution | nn.Embedding | nn.EmbeddingBag):
        mask = getattr(layer, "weight_mask", None)  # from torch.nn.utils.prune
        return layer.weight.numel() if mask is None else int(mask.count_nonzero())
    return int(getattr(layer, "connections", 0))  # the saliency of dynamic foci has it


def _multiply_adds(layer: nn.Module, links: int, inputs: tuple[Any, ...], output: Tensor) -> int:
    if isinstance(layer, FocusedLinear | nn.Linear):
        return links * (output.numel() // layer.out_features)
    if isinstance(layer, Convolution):
        return links * (output.numel() // layer.out_channels)
    if isinstance(layer, nn.MultiheadAttention):  # its projections, scores and weighted sums
        key, width = inputs[1], layer.embed_dim
        keys = key.shape[1 if layer.batch_first and key.dim() == 3 else 0]
        work = output.numel() * 2 * (width + keys)  # of all queries
        return int(work + key.numel() // layer.kdim * (links - width**2))
    if isinstance(layer, nn.EmbeddingBag):
        return int(inputs[0].numel() * layer.embedding_dim)
    return int(getattr(layer, "multiply_adds", 0)) * output.shape[0]  # dynamic foci have it


def _parameter_owners(net: nn.Module) -> dict[nn.Module, tuple[str, list[nn.Parameter]]]:
    """Names and parameters of modules with parameters; the first owns a shared parameter."""
    seen: set[nn.Parameter] = set()
    owners = {}
    for name, module in net.named_modules():
        own = [parameter for parameter in module.parameters(recurse=False) if parameter not in seen]
        seen.update(own)
        if own:
            owners[module] = (name, own)
    return owners


def _trainable(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters() if parameter.requires_grad)
