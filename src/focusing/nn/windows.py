"""What layers that read a window of each sample have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from focusing.nn.ops.functional import check_count
from focusing.nn.positions import Grid, Topology, read_topology


class Windows(NamedTuple):
    """Where the foci of each sample are, in the unit cube; all of shape (N, glimpses, d).

    Attributes:
        centre: middle of the grid of foci.
        extent: distance from its first focus to its last.
        sigma: aperture of its foci.
    """

    centre: Tensor
    extent: Tensor
    sigma: Tensor


class WindowReader(nn.Module):
    r"""A layer that reads a window of each sample.

    Args:
        topology: shape of a sample, with channels or without.
        grid: number of points that are read along each axis; None: half as many as inputs.
        glimpses: number of windows.

    Shape:
        - Input: (N, \*axes, C), or (N, \*axes) if there is one channel.
        - Output: (N, \*grid, glimpses * C).
    """

    def __init__(self, topology: Topology, grid: Sequence[int] | None, glimpses: int = 1) -> None:
        super().__init__()
        self.topology = _read_frame(topology)
        self.grid = _read_grid(grid, self.topology.axes)
        check_count("glimpses", glimpses)
        self.glimpses = glimpses

    def windows(self, input: Tensor) -> Windows:
        """Where each sample is looked at."""
        raise NotImplementedError

    def constrain_(self) -> None:
        """Keep the parameters where they make sense; call it after each optimizer step."""

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
    """Refuse a filter without a middle, and cells that are larger than the frame."""
    check_count("pool", pool)
    check_count("kernel", kernel)
    if kernel % 2 == 0:
        raise ValueError(f"kernel={kernel} must be odd: a filter has a middle.")
    if pool > min(axes):
        raise ValueError(f"pool={pool} is larger than the frame {tuple(axes)}.")


def precise(x: Tensor) -> Tensor:
    """At least float32: half precision cannot tell the places of a large frame apart."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def without_autocast(finder: Callable[[Tensor], Tensor], x: Tensor, dtype: torch.dtype) -> Tensor:
    """Call what finds the windows in the type of its weights: half of it moves them by pixels."""
    if x.is_meta or not torch.is_autocast_enabled(x.device.type):
        return finder(x)
    with torch.autocast(x.device.type, enabled=False):
        return finder(x.to(dtype))


def pool_cells(x: Tensor, pool: int | tuple[int, ...]) -> Tensor:
    """Means of cells; what does not fill a cell at the far end of an axis is left out."""
    average = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[x.dim() - 3]
    return average(x, pool)


def _read_frame(topology: Topology) -> Grid:
    if topology is None or isinstance(topology, Tensor):
        raise ValueError("topology must be a shape, such as (60, 60): windows move on a grid.")
    try:
        sizes = [
            size
            for entry in topology
            for size in (entry if isinstance(entry, Sequence) else [entry])
        ]
        frame = read_topology(topology, prod(sizes))
    except TypeError:
        raise ValueError(f"topology={topology} must be a shape, such as (60, 60).") from None
    return cast(Grid, frame)  # of a shape, not of positions


def _read_grid(grid: Sequence[int] | None, axes: Sequence[int]) -> tuple[int, ...]:
    if grid is None:
        return tuple(max(1, size // 2) for size in axes)
    counts = tuple(grid)
    if len(counts) != len(axes):
        raise ValueError(f"grid={counts} must have a number for each axis of {tuple(axes)}.")
    for count in counts:
        check_count("grid", count)
    return counts
