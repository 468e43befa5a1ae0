"""A spatial transformer, as a baseline for dynamic focus: an affine map for each sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from focusing.nn.ops.functional import check_count
from focusing.nn.positions import Topology
from focusing.nn.windows import (
    WindowReader,
    Windows,
    centred_line,
    check_kernel,
    pool_cells,
    upcast,
    without_autocast,
)


class SpatialTransformer(WindowReader):
    r"""Samples each input on a grid that an affine map transforms (Jaderberg et al. 2015).

    A localisation network (average pooling, convolution, ReLU, average pooling, linear layer)
    predicts the map. Values between inputs are interpolated linearly; points outside the frame see
    the nearest input. By default it has about as many parameters as the saliency of
    :class:`focusing.nn.DynamicFocus`: 886 and 861 on cluttered MNIST.

    ``torch.nn.functional.grid_sample`` computes the same for images (``align_corners=True,
    padding_mode="border"``), but its gradient is not deterministic on CUDA. The ``gather`` used
    here has a deterministic gradient, and also works on lines. For volumes, the gradient of average
    pooling is not deterministic on CUDA.

    Args:
        topology: shape of a sample, as for :class:`focusing.nn.DynamicFocus`.
        grid: number of points along each axis; None: half as many as inputs.
        extent: initial share of the frame that the points cover; 1 is the identity.
        filters: number of filters of the localisation network.
        kernel: size of its filters, in cells; odd.
        pool: number of inputs along an axis that are pooled to one cell before the convolution.
        cells: approximate number of cells along each axis after the second pooling.
        jitter: standard deviation of noise on the shift in training, as a share of the frame, as
            for :class:`focusing.nn.DynamicFocus`.
        device: device of the parameters.
        dtype: data type of the parameters.

    Shape:
        - Input: (N, \*axes, C), or (N, \*axes) if there is one channel.
        - Output: (N, \*grid, C).

    Example:
        >>> transformer = SpatialTransformer((60, 60), grid=(28, 28))
        >>> transformer(torch.rand(16, 60, 60)).shape
        torch.Size([16, 28, 28, 1])
        >>> sum(parameter.numel() for parameter in transformer.parameters())
        886
    """

    def __init__(
        self,
        topology: Topology,
        grid: Sequence[int] | None = None,
        *,
        extent: float = 1.0,
        filters: int = 11,
        kernel: int = 5,
        pool: int = 4,
        cells: int = 3,
        jitter: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(topology, grid, extent=extent, jitter=jitter)
        axes, channels = self.topology
        check_kernel(kernel, pool, axes)
        check_count("filters", filters)
        check_count("cells", cells)
        dims = len(axes)
        factory: Any = {"device": device, "dtype": dtype}
        convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
        self.pool = pool
        self.convolution = convolution(channels, filters, kernel, padding=kernel // 2, **factory)
        self.stride = tuple(max(1, size // pool // cells) for size in axes)
        coarse = [size // pool // step for size, step in zip(axes, self.stride, strict=True)]
        self.deviation = nn.Linear(
            filters * math.prod(coarse), dims * (dims + 1), bias=False, **factory
        )
        nn.init.zeros_(self.deviation.weight)  # all samples start with the same map
        identity = torch.eye(dims, dims + 1, **factory)
        self.theta = nn.Parameter(extent * identity)

    def maps(self, input: Tensor) -> Tensor:
        """The affine map of each sample, (N, d, d + 1), in coordinates from -1 to 1."""
        return without_autocast(self._maps, self._channels_last(input), self.theta.dtype)

    def _maps(self, x: Tensor) -> Tensor:
        features = torch.relu(self.convolution(pool_cells(x.movedim(-1, 1), self.pool)))
        deviation = self.deviation(pool_cells(features, self.stride).flatten(1))
        return upcast(self.theta) + upcast(deviation).reshape(-1, *self.theta.shape)

    def windows(self, input: Tensor) -> Windows:
        """The bounding box of each sample's points; their aperture is 0."""
        maps = self.maps(input)
        extent = maps[:, None, :, :-1].abs().sum(-1)
        return Windows(0.5 + 0.5 * maps[:, None, :, -1], extent, torch.zeros_like(extent))

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, *axes, C) to (N, *grid, C)."""
        x = self._channels_last(input)
        places = without_autocast(self._places, x, self.theta.dtype)
        return interpolate(x, places).reshape(-1, *self.grid, x.shape[-1])

    def _places(self, x: Tensor) -> Tensor:
        """The points of each sample, (N, points, d), in the unit cube."""
        maps = self._maps(x)
        lines = [centred_line(points, 1.0, maps) for points in self.grid]
        points = torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1).flatten(0, -2)
        shift = self._jittered(maps[:, None, :, -1], frame=2.0)
        places = points @ maps[..., :-1].transpose(1, 2) + shift
        return 0.5 + 0.5 * places

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds per sample for the points and for the interpolation."""
        dims, channels = len(self.topology.axes), self.topology.channels
        work: int = dims * (dims + 1) + 2**dims * (dims + channels)
        return work * math.prod(self.grid)

    def extra_repr(self) -> str:
        """Topology and grid."""
        return f"topology={self.topology}, grid={self.grid}"


def interpolate(x: Tensor, places: Tensor) -> Tensor:
    """Values (N, P, C) of samples (N, *axes, C) at places (N, P, d) of the unit cube.

    The interpolation is linear along each axis; places outside see the nearest input.
    """
    axes = x.shape[1:-1]
    last = torch.tensor([size - 1 for size in axes], device=places.device, dtype=places.dtype)
    scaled = torch.minimum((places * last).clamp_min(0), last)
    low = torch.minimum(scaled.detach().floor(), (last - 1).clamp_min(0))
    share = scaled - low
    values = x.flatten(1, -2)
    result: Any = 0
    # Sum over the corners of the cell that holds the place, each weighted by its proximity.
    for corner in product((0, 1), repeat=len(axes)):
        weight, index = torch.ones_like(share[..., 0]), torch.zeros_like(low[..., 0]).long()
        for axis, (step, size) in enumerate(zip(corner, axes, strict=True)):
            weight = weight * (share[..., axis] if step else 1 - share[..., axis])
            index = index * size + (low[..., axis].long() + step).clamp_max(size - 1)
        read = values.gather(1, index[..., None].expand(-1, -1, x.shape[-1]))
        result = result + weight[..., None].to(x.dtype) * read
    return result  # type: ignore[no-any-return]
