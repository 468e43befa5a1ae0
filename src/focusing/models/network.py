"""What all networks have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor, nn

from focusing.models.images import channels_first
from focusing.models.summary import Summary, summarize
from focusing.nn import FocusedLinear, to_inference

Inputs = int | Sequence[int]
"""The shape of a sample, or the number of its inputs."""


MAX_LAYERS = 1000
"""Of a network; it takes minutes to build more, which a file from elsewhere may ask for."""


class Network(nn.Module):
    """A network whose hidden layer or layers may focus.

    Args:
        inputs: shape of a sample, or the number of its inputs.
        outputs: number of outputs.
        hidden: neurons of each layer that may be made wider or narrower.

    Attributes:
        shape: of a sample.
        widths: neurons of each of these layers.
    """

    def __init__(self, inputs: Inputs, outputs: int, hidden: Sequence[int]) -> None:
        super().__init__()
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
        """Inputs of the right shape and type, all zero."""
        parameter = next(self.parameters())
        return parameter.new_zeros(samples, *self.shape)

    def summary(self) -> Summary:
        """Parameters, connections and multiply-adds of each layer and in all."""
        return summarize(self, self.example())

    def to_inference(self, sparse: bool = False) -> nn.Module:
        """A copy that only computes: foci folded into weights, batch norms into layers.

        Args:
            sparse: compute focused layers in tiles where that pays, after pruning above all.
        """
        return to_inference(self, sparse=sparse, opaque=[channels_first], example=self.example())

    def match_parameters(self) -> Network:
        """A fair dense twin: the same network without focus, with as many trained parameters.

        The foci are parameters too, so that the twin is a little wider. Its hidden layers keep
        their proportions; of the widths next to these it has those that come nearest.

        Returns:
            A new network, in its initial state, of the same type and on the same device.
        """
        target = _trained(self)
        low, high = 0.0, 1.0
        while self._count(self._scaled(high)) < target:
            low, high = high, 2 * high
        # Between two neighbours in the longest layer nothing changes.
        while (high - low) * max(self.widths, default=0) > 0.5:
            middle = (low + high) / 2
            low, high = (
                (middle, high) if self._count(self._scaled(middle)) < target else (low, middle)
            )
        around = [
            range(max(1, math.floor(each * low) - 1), math.ceil(each * high) + 2)
            for each in self.widths
        ]

        def distance(widths: Sequence[int]) -> tuple[int, float]:
            skew = [found / own for found, own in zip(widths, self.widths, strict=True)] or [1.0]
            return abs(self._count(widths) - target), max(skew) - min(skew)

        return self._dense(min(product(*around), key=distance)).to(next(self.parameters()))

    def _scaled(self, factor: float) -> tuple[int, ...]:
        return tuple(max(1, round(each * factor)) for each in self.widths)

    def _count(self, widths: Sequence[int]) -> int:
        with torch.device("meta"):  # takes no memory, draws no numbers
            return _trained(self._dense(widths))

    def _dense(self, widths: Sequence[int]) -> Network:
        """This network without focus and with other widths."""
        raise NotImplementedError


def _trained(net: nn.Module) -> int:
    return sum(each.numel() for each in net.parameters() if each.requires_grad)
