"""Initial centres, apertures and weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Mu = str | float | Sequence[float] | Tensor
Sigma = float | Sequence[float] | Tensor

MU_SCHEMES = ("spread", "center", "center_jitter", "random")
WEIGHT_SCHEMES = ("focus_glorot", "glorot", "he", "per_connection")


def initial_mu(
    mu: Mu, neurons: int, axes: int, allowed: tuple[float, float], margin: float
) -> Tensor:
    """Centres of shape (n, d) from a scheme, a number or values; see ``FocusedLinear``."""
    low, high = allowed
    if isinstance(mu, str):
        if mu not in MU_SCHEMES:
            raise ValueError(f"mu={mu!r} is not one of {MU_SCHEMES}, a number or a tensor.")
        start = {
            "spread": lambda: _spread(neurons, axes, margin),
            "center": lambda: torch.full((neurons, axes), 0.5, device="cpu"),
            "center_jitter": lambda: 0.5 + (torch.rand(neurons, axes, device="cpu") - 0.5) / 20,
            "random": lambda: low + (high - low) * torch.rand(neurons, axes, device="cpu"),
        }[mu]()
        return start.clamp(low, high)
    values = expand_values("mu", mu, neurons, axes)
    if not bool(((values >= low) & (values <= high)).all()):
        raise ValueError(
            f"mu has values from {values.min().item():g} to {values.max().item():g}: they must lie "
            f"in mu_range={allowed}."
        )
    return values


def initial_sigma(sigma: Sigma, neurons: int, axes: int) -> Tensor:
    """Apertures of shape (n, d) from a number, a range (low, high) to draw from, or a tensor."""
    if isinstance(sigma, (Tensor, int, float)) and not isinstance(sigma, bool):
        values = expand_values("sigma", sigma, neurons, axes)
    elif isinstance(sigma, Sequence) and not isinstance(sigma, str) and len(sigma) == 2:
        low, high = sigma
        numbers = all(isinstance(b, (int, float)) and not isinstance(b, bool) for b in sigma)
        if not numbers or not 0 < low <= high < math.inf:
            raise ValueError(f"sigma={sigma!r} must be a range (low, high) with 0 < low <= high.")
        values = low + (high - low) * torch.rand(neurons, axes, device="cpu")
    else:
        raise ValueError(f"sigma={sigma!r} is not a number, a range (low, high) or a tensor.")
    if not bool(((values > 0) & values.isfinite()).all()):
        raise ValueError(
            f"sigma has values from {values.min().item():g} to {values.max().item():g}: they must "
            "be finite and greater than 0."
        )
    return values


def _spread(neurons: int, axes: int, margin: float) -> Tensor:
    """Centres from margin to 1 - margin: evenly on a line, or on a nearly square grid."""
    side = math.ceil(round(neurons ** (1 / axes), 6))
    lines = [torch.linspace(margin, 1 - margin, side, dtype=torch.float64, device="cpu")] * axes
    grid = torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1).reshape(-1, axes)
    # The grid may have more points than neurons: drop points evenly, not from one corner.
    chosen = torch.linspace(0, len(grid) - 1, neurons, dtype=torch.float64, device="cpu")
    return grid[chosen.round().long()]


def expand_values(
    name: str, value: float | Sequence[float] | Tensor, neurons: int, axes: int
) -> Tensor:
    """Expand a number, or values of shape (n,) or (n, d), to a tensor (n, d)."""
    dtype = value.dtype if isinstance(value, Tensor) else torch.float64
    try:
        numbers = value if isinstance(value, Sequence) else [value]
        if any(isinstance(number, bool) for number in numbers):
            raise TypeError  # torch would read 0 and 1
        values = torch.as_tensor(value, dtype=dtype, device="cpu").detach()
    except (TypeError, ValueError):
        raise ValueError(f"{name}={value!r} is not a number or a tensor.") from None
    if values.dim() == 1 and values.shape[0] == neurons:
        values = values.unsqueeze(1)
    try:
        values = values.expand(neurons, axes).clone()
    except RuntimeError:
        raise ValueError(
            f"{name} has shape {tuple(values.shape)}: give a number or a tensor of shape (n,) or "
            f"(n, d) = ({neurons}, {axes})."
        ) from None
    return values


def weight_bound(phi: Tensor, scheme: str) -> Tensor:
    """Bound b of the uniform distribution U[-b, b] of each weight, broadcastable to (n, m).

    Args:
        phi: initial focus coefficients, (n, m).
        scheme: ``"focus_glorot"``, as in the author's code: sqrt(6 / (fan in + fan out)), where
            the fan in of a neuron and the fan out of an input are sums of phi^2; ``"glorot"``, as
            in a plain layer: sqrt(6 / (m + n)); ``"he"``, the paper's Eq. init_sum:
            sqrt(6 / fan in); ``"per_connection"``, the appendix's second scheme: all products
            w * phi of a neuron have equal variance, and their variances sum to 1.
    """
    if scheme == "glorot":
        return torch.full_like(phi, math.sqrt(6 / sum(phi.shape)))
    # A neuron that sees no input (a triangle between two) is initialised as if it saw all.
    phi = torch.where((phi != 0).any(1, keepdim=True), phi, 1.0)
    power = phi.square()
    fan_in = power.sum(1, keepdim=True)
    if scheme == "focus_glorot":
        return (6 / (fan_in + power.sum(0, keepdim=True))).sqrt()
    if scheme == "he":
        return (6 / fan_in).sqrt().expand_as(phi)
    # Where phi vanishes, the appendix asks for infinite weights. Bound them by the weight at a
    # hundredth of the peak, and give their variance to the others.
    size = phi.abs().maximum(phi.abs().amax(1, keepdim=True) / 100)
    count = (phi / size).square().sum(1, keepdim=True)
    return (3 / count).sqrt() / size
