"""Positions of the inputs in the unit cube, from a topology."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

import torch
from torch import Tensor

Topology = Sequence[Any] | Tensor | None
"""None (a line), a shape, ``((28, 28), channels)``, or an (m, d) tensor of positions."""

GRIDS = ("linspace", "index")
"""Positions along an axis of m inputs: i / (m - 1), or i / m."""


class Grid(NamedTuple):
    """A regular topology: sizes of its axes, and the number of channels at each position."""

    axes: tuple[int, ...]
    channels: int = 1

    def __repr__(self) -> str:
        return f"{self.axes}" if self.channels == 1 else f"({self.axes}, {self.channels})"


def parse_topology(topology: Topology, in_features: int) -> Grid | Tensor:
    """Parse the argument of a layer, or raise a ValueError."""
    if isinstance(topology, Tensor):
        return _check_positions(topology, in_features)
    if isinstance(topology, str):
        raise ValueError(
            f"topology={topology!r} is a word: give a shape of in_features={in_features} inputs, "
            "or the previous focused layer itself for its centres."
        )
    try:
        grid = Grid((in_features,)) if topology is None else _parse_shape(tuple(topology))
    except TypeError:  # not integers
        grid = Grid(())
    sizes = (*grid.axes, grid.channels)
    if not 1 <= len(grid.axes) <= 3 or min(sizes) < 1 or math.prod(sizes) != in_features:
        raise ValueError(
            f"topology={topology} does not fit in_features={in_features}: give one to three "
            "positive sizes, and channels if any, whose product is in_features, or a tensor."
        )
    return grid


def _parse_shape(shape: tuple[Any, ...]) -> Grid:
    if len(shape) == 2 and isinstance(shape[0], Sequence):  # ((14, 14), 32)
        return Grid(tuple(index(size) for size in shape[0]), index(shape[1]))
    sizes = tuple(index(size) for size in shape)
    # (32, 32, 3) is a colour image, (16, 16, 16) a volume: channels are few, and fewer than pixels.
    if len(sizes) == 4 or (len(sizes) == 3 and sizes[2] <= 4 and sizes[2] < min(sizes[:2])):
        return Grid(sizes[:-1], sizes[-1])
    return Grid(sizes)


def _check_positions(tau: Tensor, in_features: int) -> Tensor:
    if tau.dim() == 1:
        tau = tau.unsqueeze(1)
    if tau.dim() != 2 or tau.shape[0] != in_features or tau.shape[1] < 1:
        raise ValueError(
            f"topology has shape {tuple(tau.shape)} but positions must be (in_features, d) = "
            f"({in_features}, d)."
        )
    if not bool(((tau >= 0) & (tau <= 1)).all()):  # NaN fails this too
        raise ValueError(
            f"topology has positions from {tau.min().item():g} to {tau.max().item():g}: "
            "they must lie in [0, 1]."
        )
    return tau.detach().clone()


def positions(
    topology: Grid | Tensor, grid: str, *, device: torch.device | str | None, dtype: torch.dtype
) -> Tensor:
    """Positions tau of the inputs, (m, d), in the order of ``flatten``; ``grid``: see GRIDS."""
    if isinstance(topology, Tensor):
        return topology.to(device=device, dtype=dtype)
    lines = axis_positions(topology, grid, device=device, dtype=dtype)
    points = torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1)
    return points.reshape(-1, len(lines)).repeat_interleave(topology.channels, dim=0)


def axis_positions(
    topology: Grid, grid: str, *, device: torch.device | str | None, dtype: torch.dtype
) -> list[Tensor]:
    """Positions along each axis of a regular topology."""
    if grid == "index":
        return [torch.arange(size, device=device, dtype=dtype) / size for size in topology.axes]
    return [torch.linspace(0, 1, size, device=device, dtype=dtype) for size in topology.axes]
