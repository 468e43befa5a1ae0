"""Dynamic focus: each sample is read through a grid of Gaussian foci around its own centre."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from focusing.nn.focus import FociView
from focusing.nn.ops.functional import check_choice, check_number
from focusing.nn.positions import Grid, Topology
from focusing.nn.windows import (
    EXTENTS,
    WindowReader,
    Windows,
    centred_line,
    check_kernel,
    pool_cells,
    upcast,
    without_autocast,
)

CENTRES = ("saliency", "regressed", "static")
STARTS = ("random", "blob")
FEATURE_KERNEL = 5
"""Kernel size of the feature filters, in cells of the pooled sample."""
APERTURES = (0.1, 5.0)
TEMPERATURES = (0.1, 1000.0)
MAX_ZOOM = 2.0
"""Largest factor between the extent of a sample's window and the learnt extent."""


class DynamicFocus(WindowReader):
    r"""Reads a window of each sample through a grid of Gaussian foci that moves with the input.

    The foci of a grid share one centre, one extent and one aperture. Extent and aperture are
    learnt. The centre is computed from the sample, by default as the soft-argmax of a saliency map
    from a few small filters, which finds an object anywhere in the frame. With the focus
    :math:`\phi_{ki} \propto e^{-((\tau_i - c - o_k) / \sigma)^2 / 2}` of each axis, normalised
    over the inputs i, an image becomes :math:`\Phi_y X \Phi_x^T`: two small products per sample.

    Related work: in DRAW (Gregor et al. 2015) a recurrent network places such a grid; a spatial
    transformer (Jaderberg et al. 2015) samples a grid that a network regresses.

    Args:
        topology: shape of a sample: ``(60, 60)``, ``(32, 32, 3)`` with channels, ``(D, H, W)``, or
            ``((100,), 13)`` for a sequence of 100 frames of 13 channels.
        grid: number of foci along each axis; None: half as many as inputs.
        centre: ``"saliency"``; ``"regressed"`` (a small MLP on the pooled sample);
            ``"static"`` (learnt, the same for all samples); or a module that maps (N, C, *axes) to
            centres (N, glimpses, d) in [0, 1], with a log-zoom as one more column if ``zoom``.
        start: initial saliency filters: ``"random"``, or a ``"blob"``, which finds bright spots.
        features: number of 5-cell filters with ReLU in front of the saliency filter; 0 applies it
            to the pooled sample.
        zoom: each sample also chooses the size of its window, up to a factor of two.
        glimpses: number of windows, each with its own saliency filter.
        extent: initial share of the frame that a window covers.
        aperture: initial sigma of the foci, in units of the distance between neighbours.
        pool: number of inputs along an axis that are pooled to one cell of the saliency map.
        kernel: size of the saliency filter, in cells; odd.
        temperature: initial sharpness of the soft-argmax.
        jitter: standard deviation of noise on the centre in training, as a share of the frame. It
            makes the next network robust to windows that are slightly off.
        train_centre: train the module that finds the centre; False freezes it.
        device: device of the parameters.
        dtype: data type of the parameters.

    Shape:
        - Input: (N, \*axes, C), or (N, \*axes) if there is one channel.
        - Output: (N, \*grid, glimpses * C); the glimpses are channels.

    Example:
        >>> focus = DynamicFocus((60, 60), grid=(28, 28))
        >>> focus(torch.rand(16, 60, 60)).shape
        torch.Size([16, 28, 28, 1])
        >>> focus.windows(torch.rand(16, 60, 60)).centre.shape
        torch.Size([16, 1, 2])
        >>> focus.foci(torch.rand(16, 60, 60)).mu.shape
        torch.Size([16, 1, 28, 28, 2])
    """

    def __init__(
        self,
        topology: Topology,
        grid: Sequence[int] | None = None,
        *,
        centre: str | nn.Module = "saliency",
        start: str = "random",
        features: int = 8,
        zoom: bool = False,
        glimpses: int = 1,
        extent: float = 0.55,
        aperture: float = 0.5,
        pool: int = 4,
        kernel: int = 9,
        temperature: float = 10.0,
        jitter: float = 0.0,
        train_centre: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(topology, grid, glimpses, extent=extent, jitter=jitter)
        axes = self.topology.axes
        check_kernel(kernel, pool, axes)
        check_number("aperture", aperture, *APERTURES)
        check_number("temperature", temperature, *TEMPERATURES)
        check_choice("start", start, STARTS)
        self.zoom = zoom
        factory: Any = {"device": device, "dtype": dtype}
        self.finder: nn.Module
        if isinstance(centre, nn.Module):
            self.finder = centre
        elif centre == "saliency":
            filters: Any = {"start": start, "features": features, "kernel": kernel}
            self.finder = Saliency(
                self.topology, glimpses, zoom=zoom, pool=pool, temperature=temperature, **filters
            ).to(**factory)
        elif centre == "regressed":
            self.finder = Regressed(self.topology, glimpses, zoom=zoom, pool=pool).to(**factory)
        elif centre == "static":
            if zoom:
                raise ValueError("zoom=True needs a centre that sees the sample, not static.")
            self.finder = Static(len(axes), glimpses).to(**factory)
        else:
            raise ValueError(
                f"centre={centre!r} is neither a module nor one of {', '.join(CENTRES)}."
            )
        if not train_centre:
            self.finder.requires_grad_(False)
        size = (glimpses, len(axes))
        self.extent = nn.Parameter(torch.full(size, float(extent), **factory))
        self.aperture = nn.Parameter(torch.full(size, float(aperture), **factory))

    def windows(self, input: Tensor) -> Windows:
        """The windows of each sample, without jitter."""
        return self._windows(self._channels_last(input))

    def foci(self, input: Tensor) -> FociView:
        r"""Centre and aperture of every focus, (N, glimpses, \*grid, d), without jitter."""
        windows = self.windows(input)
        lines = [centred_line(foci, 0.5, windows.centre) for foci in self.grid]
        offsets = torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1)  # (*grid, d)
        centre, extent, sigma = (
            values.reshape(*values.shape[:2], *[1] * len(lines), -1) for values in windows
        )
        mu = centre + extent * offsets
        return FociView(mu, sigma.expand_as(mu))

    def _windows(self, x: Tensor) -> Windows:
        centre = upcast(without_autocast(self.finder, x.movedim(-1, 1), self.extent.dtype))
        dims = len(self.topology.axes)
        if centre.shape[1:] != (self.glimpses, dims + self.zoom):
            raise ValueError(
                f"centre gave shape {tuple(centre.shape)} but must give (N, glimpses, "
                f"d{' + 1' if self.zoom else ''}) = (N, {self.glimpses}, {dims + self.zoom})."
            )
        extent = self.extent.to(centre.dtype).expand(centre.shape[0], -1, -1)
        if self.zoom:
            extent = extent * MAX_ZOOM ** torch.tanh(centre[..., dims:])
            centre = centre[..., :dims]
        shares = (self.aperture.to(extent.dtype) * extent).unbind(-1)
        gaps = [max(foci - 1, 1) for foci in self.grid]
        sigma = torch.stack([share / gap for share, gap in zip(shares, gaps, strict=True)], dim=-1)
        return Windows(centre, extent, sigma)

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, *axes, C) to (N, *grid, glimpses * C)."""
        x = self._channels_last(input)
        windows = self._windows(x)
        windows = windows._replace(centre=self._jittered(windows.centre))
        glimpses = [
            self._read(x, *(values[:, glimpse] for values in windows))
            for glimpse in range(self.glimpses)
        ]
        return glimpses[0] if len(glimpses) == 1 else torch.cat(glimpses, dim=-1)

    def _read(self, x: Tensor, centre: Tensor, extent: Tensor, sigma: Tensor) -> Tensor:
        """One window of each sample: contract one axis after the other with its foci."""
        for axis, (inputs, foci) in enumerate(zip(self.topology.axes, self.grid, strict=True)):
            tau = torch.linspace(0, 1, inputs, device=centre.device, dtype=centre.dtype)
            mu = centre[:, axis, None] + extent[:, axis, None] * centred_line(foci, 0.5, centre)
            u = (tau - mu[..., None]) / sigma[:, axis, None, None]
            # The softmax is stable: a focus outside the frame sees the nearest input.
            phi = torch.softmax(u.square() / -2, dim=-1).to(x.dtype)
            read = phi @ x.flatten(2)
            x = read.reshape(*read.shape[:2], *x.shape[2:]).movedim(1, -2)
        return x

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds per sample for reading the windows."""
        sizes, work = list(self.topology.axes), 0
        for axis, foci in enumerate(self.grid):
            work += foci * math.prod(sizes)
            sizes[axis] = foci
        return work * self.topology.channels * self.glimpses

    @torch.no_grad()
    def constrain_(self) -> None:
        """Clip extent, aperture and temperature; call it after each optimizer step."""
        self.extent.clamp_(*EXTENTS)
        self.aperture.clamp_(*APERTURES)
        if isinstance(self.finder, Saliency):
            self.finder.temperature.clamp_(*TEMPERATURES)

    def extra_repr(self) -> str:
        """Topology, grid and number of glimpses."""
        glimpses = f", glimpses={self.glimpses}" if self.glimpses > 1 else ""
        return f"topology={self.topology}, grid={self.grid}{glimpses}"


class Saliency(nn.Module):
    """Centre as the soft-argmax of a saliency map of the pooled sample."""

    def __init__(
        self,
        topology: Grid,
        glimpses: int,
        *,
        start: str,
        features: int,
        zoom: bool,
        pool: int,
        kernel: int,
        temperature: float,
    ) -> None:
        super().__init__()
        axes, channels = topology
        if isinstance(features, bool) or not isinstance(features, int) or features < 0:
            raise ValueError(f"features={features!r} must be zero or a positive integer.")
        self.axes, self.pool, self.kernel = axes, pool, kernel
        dims = len(axes)
        self.features = None
        if features:
            convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
            padding = FEATURE_KERNEL // 2
            self.features = convolution(channels, features, FEATURE_KERNEL, padding=padding)
        size = (glimpses, features or channels, *[kernel] * dims)
        self.filter = nn.Parameter(torch.empty(size))
        self.temperature = nn.Parameter(torch.full((glimpses, 1), float(temperature)))
        self.zoom = nn.Parameter(torch.zeros(size)) if zoom else None
        self._reset(start)

    @torch.no_grad()
    def _reset(self, start: str) -> None:
        kernels = [self.filter] if self.features is None else [self.filter, self.features.weight]
        for kernel in kernels:
            fan_in = math.prod(kernel.shape[1:])
            kernel.normal_(std=1 / math.sqrt(fan_in))
        if self.features is not None:
            nn.init.zeros_(cast(Tensor, self.features.bias))
        if start == "blob":
            line = torch.linspace(-2, 2, self.kernel).to(self.filter)
            blob = self.filter.new_ones(())
            for _ in self.axes:
                blob = blob[..., None] * torch.exp(line.square() / -2)
            self.filter.copy_(blob / blob.norm() / self.filter.shape[1])
            if self.features is not None:  # pass the brightness through
                nn.init.zeros_(self.features.weight)
                middle = self.features.weight.flatten(2)[..., FEATURE_KERNEL ** len(self.axes) // 2]
                middle.fill_(1 / math.sqrt(self.features.in_channels))

    @property
    def connections(self) -> int:
        """Number of weights of the saliency and zoom filters, without the features."""
        return self.filter.numel() * (1 if self.zoom is None else 2)

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds per sample for these filters."""
        return self.connections * math.prod(size // self.pool for size in self.axes)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, *axes) to centres (N, glimpses, d), with a log-zoom as the last column."""
        cells = pool_cells(x, self.pool)
        if self.features is not None:
            cells = functional.relu(self.features(cells))
        convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[len(self.axes) - 1]
        saliency = convolve(cells, self.filter, padding=self.kernel // 2).flatten(2)
        weights = torch.softmax(upcast(saliency) * self.temperature, dim=-1)
        places = _cell_positions(self.axes, self.pool, weights)
        centre = weights @ places
        if self.zoom is None:
            return centre
        zoom = convolve(cells, self.zoom, padding=self.kernel // 2).flatten(2)
        return torch.cat([centre, (weights * zoom).sum(-1, keepdim=True)], dim=-1)


class Regressed(nn.Module):
    """Centre from an MLP on the pooled sample; it starts in the middle of the frame."""

    def __init__(self, topology: Grid, glimpses: int, *, zoom: bool, pool: int) -> None:
        super().__init__()
        axes, channels = topology
        self.pool, self.glimpses, self.dims = pool, glimpses, len(axes)
        cells = channels * math.prod(size // pool for size in axes)
        self.hidden = nn.Linear(cells, 32)
        self.output = nn.Linear(32, glimpses * (self.dims + zoom))
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, *axes) to centres (N, glimpses, d), with a log-zoom as the last column."""
        cells = pool_cells(x, self.pool).flatten(1)
        output = upcast(self.output(torch.relu(self.hidden(cells))))
        output = output.reshape(output.shape[0], self.glimpses, -1)
        centre = 0.5 + 0.5 * torch.tanh(output[..., : self.dims])
        return torch.cat([centre, output[..., self.dims :]], dim=-1)


class Static(nn.Module):
    """Learnt centre, the same for all samples."""

    def __init__(self, dims: int, glimpses: int) -> None:
        super().__init__()
        self.centre = nn.Parameter(torch.full((glimpses, dims), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, *axes) to centres (N, glimpses, d)."""
        return self.centre.expand(x.shape[0], -1, -1)


def _cell_positions(axes: Sequence[int], pool: int, like: Tensor) -> Tensor:
    """Positions of the centres of all cells, (cells, d)."""
    lines = [torch.linspace(0, 1, size, device=like.device, dtype=like.dtype) for size in axes]
    centres = [pool_cells(line[None, None], pool).flatten() for line in lines]
    return torch.stack(torch.meshgrid(*centres, indexing="ij"), dim=-1).flatten(0, -2)
