"""The paper's small convolutional network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from annotated_types import Len
from torch import Tensor, nn

from focusing.config import AtLeastOne, Share
from focusing.models.hidden_layers import (
    ChannelsLast,
    classifier_layer,
    dense_layer,
    focused,
    image_shape,
)
from focusing.models.network import MAX_LAYERS, Inputs, Network, channels_first
from focusing.nn import Dropout
from focusing.nn.ops.matmul import call_layer


class CNN(Network):
    r"""Convolutions with ReLU, pooling, one focused or dense hidden layer, a dense output.

    In the paper: Conv(32), Conv(32), Pool(2, 2), Dropout(.5), Hidden(256), Dropout(.5), Output.

    Args:
        inputs: (height, width, channels) or (height, width).
        outputs: number of classes.
        filters: number of filters of each convolution.
        kernel: height and width of the filters; images keep their size.
        pool: height and width of a pooling window.
        hidden: neurons of the hidden layer.
        focus: options of ``FocusedLinear`` for the hidden layer; None makes it dense. It sees
            the pixels on a line, row by row with their channels side by side, or with
            ``topology="image"`` as an image.
        batch_norm: add batch norm before the hidden ReLU.
        dropout: dropout rates before and after the hidden layer.

    Shape:
        - Input: (N, height, width, channels), or without the channels.
        - Output: (N, outputs).
    """

    def __init__(
        self,
        inputs: Inputs,
        outputs: int,
        *,
        filters: Annotated[Sequence[AtLeastOne], Len(1, MAX_LAYERS)] = (32, 32),
        kernel: AtLeastOne = 5,
        pool: AtLeastOne = 2,
        hidden: AtLeastOne = 256,
        focus: Mapping[str, Any] | None = None,
        batch_norm: bool = True,
        dropout: Annotated[Sequence[Share], Len(2, 2)] = (0.5, 0.5),
    ) -> None:
        super().__init__(inputs, outputs, [hidden], locals())
        height, width, channels = image_shape(self.shape, "A convolutional network")
        if min(height, width) < pool:
            raise ValueError(f"pool={pool} is larger than the images, {height}x{width}.")
        for index, count in enumerate(filters, start=1):
            conv = nn.Conv2d(channels, count, kernel, padding="same")
            nn.init.xavier_uniform_(conv.weight)
            assert conv.bias is not None  # noqa: S101 - for the type checker
            nn.init.zeros_(conv.bias)
            self.add_module(f"conv{index}", conv)
            self.add_module(f"conv_relu{index}", nn.ReLU())
            channels = count
        self.pool = nn.MaxPool2d(pool)
        self.flatten = ChannelsLast()
        self.dropout1 = Dropout(dropout[0])
        self.hidden = classifier_layer((height // pool, width // pool, channels), hidden, focus)
        if batch_norm:
            self.norm = nn.BatchNorm1d(hidden)
        self.relu = nn.ReLU()
        self.dropout2 = Dropout(dropout[1])
        self.output = dense_layer(hidden, outputs)

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, height, width, channels) to (N, outputs)."""
        input = channels_first(input)
        for layer in self.children():
            input = call_layer(layer, input)
        return input


focused_cnn = focused(CNN)
