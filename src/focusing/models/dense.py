"""Fully connected layers as the paper's experiments start them."""

from __future__ import annotations

import math

from torch import nn


def dense_layer(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with weights from U[-b, b], b = sqrt(6 / inputs), and biases of zero (He)."""
    layer = nn.Linear(inputs, outputs)
    bound = math.sqrt(6 / inputs)
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.zeros_(layer.bias)
    return layer
