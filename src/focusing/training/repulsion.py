"""Foci that keep their distance: a penalty against neurons that all look at the same inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from focusing.nn import FocusedLinear


def repulsion(layer: FocusedLinear) -> Tensor:
    r"""How much the foci of a layer crowd, of shape ().

    .. math::
        \frac{1}{n} \sum_{i < j} e^{-|\mu_i - \mu_j|^2 / 2 s^2}, \qquad s = n^{-1/d}

    The reach s is the distance of n foci that are spread evenly over d axes of length 1: foci with
    that much room hardly notice each other, and a crowd of four spreads over the whole input.
    """
    neurons, axes = layer.mu.shape
    squares = (layer.mu[:, None] - layer.mu).square().sum(-1)
    crowding = torch.exp(squares * (-0.5 * neurons ** (2 / axes)))
    return (crowding.sum() - neurons) / (2 * neurons)  # without i = j, and each pair once
