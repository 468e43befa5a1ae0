"""Base class and helpers of layers that read a window of each sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from focusing.nn.ops.functional import check_count, check_number
from focusing.nn.positions import Grid, Topology, parse_topology

EXTENTS = (0.05, 1.5)
"""Least and largest share of the frame that a window covers; a spatial transformer only starts
from one of them."""


class Windows(NamedTuple):
    """Windows of each sample, in the unit cube; all of shape (N, glimpses, d).

    Attributes:
        centre: centre of the grid of foci.
        extent: distance from the first focus of the grid to the last.
        sigma: aperture of the foci.
    """

    centre: Tensor
    extent: Tensor
    sigma: Tensor


class WindowReader(nn.Module):
    r"""A layer that reads a window of each sample.

    Args:
        topology: shape of a sample, with channels or without.
        grid: number of points to read along each axis; None: half as many as inputs.
        glimpses: number of windows.
        extent: initial share of the frame that a window covers.
        jitter: standard deviation of noise on the centre in training, as a share of the frame.

    Shape:
        - Input: (N, \*axes, C), or (N, \*axes) if there is one channel.
        - Output: (N, \*grid, glimpses * C).
    """

    def __init__(
        self,
        topology: Topology,
        grid: Sequence[int] | None,
        glimpses: int = 1,
        *,
        extent: float,
        jitter: float,
    ) -> None:
        super().__init__()
        self.topology = _parse_frame(topology)
        self.grid = _parse_grid(grid, self.topology.axes)
        check_count("glimpses", glimpses)
        check_number("extent", extent, *EXTENTS)
        check_number("jitter", jitter, 0.0, 1.0)
        self.glimpses, self.jitter = glimpses, jitter

    def windows(self, input: Tensor) -> Windows:
        """The windows of each sample."""
        raise NotImplementedError

    def constrain_(self) -> None:
        """Clip the parameters into their ranges; call it after each optimizer step."""

    def _jittered(self, centre: Tensor, frame: float = 1.0) -> Tensor:
        """Centres with noise in training; ``frame`` is the size of the frame in their units.

        Not for windows(): callers that only inspect windows must not draw random numbers.
        """
        if not (self.training and self.jitter):
            return centre
        return centre + frame * self.jitter * torch.randn_like(centre)

    def _channels_last(self, input: Tensor) -> Tensor:
        axes, channels = self.topology
        shape = tuple(input.shape[1:])
        if shape == axes and channels == 1:
            return input.unsqueeze(-1)
        if shape != (*axes, channels):
            raise ValueError(
                f"input has shape {tuple(input.shape)} but topology={self.topology} wants "
                f"(N, {', '.join(map(str, (*axes, channels)))})."
            )
        return input


def check_kernel(kernel: int, pool: int, axes: Sequence[int]) -> None:
    """Raise a ValueError if the kernel size is even or a cell is larger than the frame."""
    check_count("pool", pool)
    check_count("kernel", kernel)
    if kernel % 2 == 0:
        raise ValueError(f"kernel={kernel} must be odd: a filter has a middle.")
    if pool > min(axes):
        raise ValueError(f"pool={pool} is larger than the frame {tuple(axes)}.")


def upcast(x: Tensor) -> Tensor:
    """Promote half precision, which cannot tell the positions of a large frame apart."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def without_autocast(finder: Callable[[Tensor], Tensor], x: Tensor, dtype: torch.dtype) -> Tensor:
    """Compute windows in the dtype of the weights: in half precision they move by pixels."""
    if x.is_meta or not torch.is_autocast_enabled(x.device.type):
        return finder(x)
    with torch.autocast(x.device.type, enabled=False):
        return finder(x.to(dtype))


def pool_cells(x: Tensor, pool: int | tuple[int, ...]) -> Tensor:
    """Average-pool 1, 2 or 3 axes; a partial cell at the end of an axis is dropped."""
    average = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[x.dim() - 3]
    return average(x, pool)


def centred_line(points: int, radius: float, like: Tensor) -> Tensor:
    """Points from -radius to radius; a single one is at 0."""
    line = torch.linspace(-radius, radius, points, device=like.device, dtype=like.dtype)
    return line if points > 1 else torch.zeros_like(line)


def _parse_frame(topology: Topology) -> Grid:
    if topology is None or isinstance(topology, Tensor):
        raise ValueError("topology must be a shape, such as (60, 60): windows move on a grid.")
    try:
        sizes = [
            size
            for entry in topology
            for size in (entry if isinstance(entry, Sequence) else [entry])
        ]
        frame = parse_topology(topology, prod(sizes))
    except (TypeError, ValueError):
        raise ValueError(
            f"topology={topology} must be a shape of one to three positive sizes, and channels if "
            "any, such as (60, 60) or ((60, 60), 3)."
        ) from None
    return cast(Grid, frame)


def _parse_grid(grid: Sequence[int] | None, axes: Sequence[int]) -> tuple[int, ...]:
    if grid is None:
        return tuple(max(1, size // 2) for size in axes)
    if not isinstance(grid, Sequence) or len(grid) != len(axes):
        raise ValueError(f"grid={grid} must have a number for each axis of {tuple(axes)}.")
    for count in grid:
        check_count("grid", count)
    return tuple(grid)
