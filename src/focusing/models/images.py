"""Images as networks see them: (height, width, channels), flattened in this order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn


def image_shape(shape: Sequence[int], who: str) -> tuple[int, int, int]:
    """Height, width and channels of a sample.

    Args:
        shape: of it: (height, width, channels) or (height, width).
        who: needs it, for the error message.
    """
    if len(shape) not in (2, 3):
        raise ValueError(
            f"{who} needs images (height, width, channels), but a sample has shape {tuple(shape)}."
        )
    height, width, channels = (*shape, 1)[:3]
    return height, width, channels


def resolve_topology(topology: Any, shape: Sequence[int]) -> Any:
    """Replace ``"image"`` by the shape of what a layer sees; its channels share a position.

    Args:
        topology: an option of ``FocusedLinear``, or ``"image"``.
        shape: of a sample.
    """
    if not isinstance(topology, str):
        return topology
    if topology != "image":
        raise ValueError(f"topology={topology} is not image, a shape such as [28, 28], or null.")
    height, width, channels = image_shape(shape, "topology=image")
    return ((height, width), channels)


def channels_first(input: Tensor) -> Tensor:
    """Images (N, H, W, C) or (N, H, W) as torch's convolutions want them, (N, C, H, W)."""
    return input.unsqueeze(1) if input.dim() == 3 else input.permute(0, 3, 1, 2)


class ChannelsLast(nn.Module):
    """Flattens (N, C, H, W) such that the channels of a pixel are neighbours."""

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, H * W * C)."""
        return input.permute(0, 2, 3, 1).flatten(1)
