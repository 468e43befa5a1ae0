"""An experiment: weights that move with the focus, on a small grid of taps around its centre."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from focusing.nn.linear import FocusedLinear
from focusing.nn.ops.functional import check_count
from focusing.nn.positions import Grid, axis_positions


class AnchoredLinear(FocusedLinear):
    r"""A focused layer whose weights move with their focus, as those of a retina do.

    A neuron has k taps along each axis, at distances :math:`-r, ..., r` from its centre in units of
    its aperture. The weight of an input is interpolated between the nearest taps (linearly on a
    line, bilinearly in an image) and is zero beyond them:

    .. math::
        w_{ji} = \sum_t T_{jt} \prod_a \max(0, 1 - |u_a - t_a| / h), \qquad
        u = (\tau_i - \mu_j) / \sigma_j, \quad h = 2 r / (k - 1)

    A neuron stores k^d numbers per channel, whatever the number of inputs. Everything else is as in
    ``FocusedLinear``, which multiplies these weights by phi.

    Args:
        in_features: number of inputs m.
        out_features: number of neurons n.
        bias: learn an additive bias.
        taps: number k of taps along each axis.
        reach: distance r of the outermost taps from the centre, in apertures.
        **options: options of ``FocusedLinear``; the topology may not be a tensor or a layer.

    Shape:
        - taps: (n, k, ..., k, channels) with d axes of k.

    Example:
        >>> layer = AnchoredLinear(784, 100, taps=9, topology=(28, 28), sigma=0.1)
        >>> layer.taps.shape, layer.weight.shape
        (torch.Size([100, 9, 9, 1]), torch.Size([100, 784]))
    """

    topology: Grid

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        taps: int = 9,
        reach: float = 2.5,
        **options: Any,
    ) -> None:
        check_count("taps", taps)
        if taps < 2:
            raise ValueError(f"taps={taps} must be at least 2.")
        if not 0 < reach < math.inf:
            raise ValueError(f"reach={reach} must be positive.")
        self.taps_per_axis, self.reach = taps, reach  # super().__init__ reads them
        super().__init__(in_features, out_features, bias, **options)

    def _create_weight(self, **factory: Any) -> None:
        if not isinstance(self.topology, Grid):
            raise ValueError(
                "anchored weights need a regular topology: null, image, sample or a shape."
            )
        axes, channels = self.topology
        size = (self.out_features, *[self.taps_per_axis] * len(axes), channels)
        self.taps = nn.Parameter(torch.empty(size, **factory))

    @property
    def _weight_parameter(self) -> nn.Parameter:
        return self.taps

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """Weights of all inputs, (n, m), interpolated from the taps."""
        lines = axis_positions(self.topology, self.grid, **self._tau_options)
        return tap_weights(self.taps, *self.neuron_foci(), lines, self.reach)

    def _reset_weight(self, bound: Tensor) -> None:
        """Draw taps, scaled so that each neuron has the norm that weights from U[-b, b] have."""
        self.taps.uniform_(-1, 1)
        phi = self.phi()
        target = (phi * bound).norm(dim=1) / math.sqrt(3)  # U[-b, b] has the variance b^2 / 3
        norm = (phi * self.weight).norm(dim=1)
        # On a coarse grid no input may be within reach of the taps.
        scale = torch.where(norm > 0, target / norm, 1.0).to(self.taps.dtype)
        self.taps.mul_(scale.view(-1, *[1] * (self.taps.dim() - 1)))

    def extra_repr(self) -> str:
        """As in the base class, and the taps."""
        return f"{super().extra_repr()}, taps={self.taps_per_axis}, reach={self.reach:g}"


def tap_weights(
    taps: Tensor, mu: Tensor, sigma: Tensor, lines: list[Tensor], reach: float
) -> Tensor:
    """Weights (n, m) of the inputs of a grid, interpolated from taps around each centre.

    Args:
        taps: (n, k, ..., k, channels).
        mu: centres, (n, d).
        sigma: apertures, (n, d).
        lines: positions along each axis.
        reach: distance of the outermost taps from the centre, in apertures.
    """
    count = taps.shape[1]
    weight, gap = taps, 2 * reach / (count - 1)
    # The interpolation is separable: contract one axis after the other.
    for axis, line in enumerate(lines):
        places = torch.linspace(-reach, reach, count, device=line.device, dtype=line.dtype)
        u = (line - mu[:, axis, None].to(line.dtype)) / sigma[:, axis, None].to(line.dtype)
        hat = (1 - (u[..., None] - places).abs() / gap).clamp_min(0).to(taps.dtype)
        rows = hat @ weight.flatten(2)
        weight = rows.reshape(*rows.shape[:2], *weight.shape[2:]).movedim(1, -2)
    return weight.flatten(1)
