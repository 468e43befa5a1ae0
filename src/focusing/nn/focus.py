"""Focus coefficients phi from positions, centres and apertures (Algorithm 2).

With u = (tau - mu) / sigma, a focus function g(u) weighs each input, and a normaliser scales the
row: phi = s g. The paper's s is sqrt(m) over the norm of g.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

MIN_PHI = 1e-18
"""Lower bound of coefficients: negligible even in float64, yet its square is not denormal.

Denormal numbers slow CPUs down tenfold.
"""


class FociView(NamedTuple):
    """Centres and apertures of foci."""

    mu: Tensor
    sigma: Tensor


def gaussian(u: Tensor) -> Tensor:
    """exp(-|u|^2 / 2), the paper's Eq. focus."""
    return torch.exp((u.square().sum(-1) / -2).clamp_min(math.log(MIN_PHI)))


def negated_gaussian(u: Tensor) -> Tensor:
    """1 - exp(-|u|^2 / 2): sees everything except what is near mu."""
    return -torch.expm1(u.square().sum(-1) / -2)


def gaussian_derivative(u: Tensor) -> Tensor:
    """An edge filter, u exp(-|u|^2 / 2); for d > 1 along the diagonal of the topology."""
    return u.sum(-1) / math.sqrt(u.shape[-1]) * gaussian(u)


def triangle(u: Tensor) -> Tensor:
    """max(0, 1 - |u| / sqrt(6)), multiplied over the axes; it has the gaussian's std."""
    return (1 - u.abs() / math.sqrt(6)).clamp_min(0).prod(-1)


FOCUS_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gaussian": gaussian,
    "negated_gaussian": negated_gaussian,
    "gaussian_derivative": gaussian_derivative,
    "triangle": triangle,
    "bernoulli": gaussian,  # the probability, and so the expectation, of a connection
}
"""Focus functions by name; they map u of shape (n, m, d) to g of shape (n, m)."""


class Normalizer(NamedTuple):
    """Scales a row so that the sum of |phi|^order is m^power, where m is the number of inputs."""

    order: int
    power: float


NORMALIZERS = {
    "l2": Normalizer(2, 1.0),
    "sum": Normalizer(1, 0.5),
    "mean": Normalizer(1, 1.0),
    "none": None,
}
"""The paper's Eq. for s, Algorithm 2 as printed, the author's code of 2018, and s = 1."""


def coefficients(
    tau: Tensor, mu: Tensor, sigma: Tensor, focus: str, normalizer: str, *, sample: bool
) -> Tensor:
    """Focus coefficients phi of all neurons; the gradient goes through the normaliser.

    Args:
        tau: positions of the inputs, (m, d).
        mu: centres, (n, d).
        sigma: apertures, (n, d).
        focus: a key of ``FOCUS_FUNCTIONS``.
        normalizer: a key of ``NORMALIZERS``.
        sample: draw the connections of bernoulli, as in training; False takes their expectation.

    Returns:
        phi of shape (n, m).
    """
    scheme = NORMALIZERS[normalizer]
    if focus in ("gaussian", "bernoulli") and scheme is not None:
        phi = _normalized_gaussian(tau, mu, sigma, scheme)
    else:
        g = FOCUS_FUNCTIONS[focus](_offset(tau, mu, sigma))
        phi = g if scheme is None else _scaler(g, scheme) * g
    if sample and focus == "bernoulli":
        chance = gaussian(_offset(tau, mu, sigma))
        drawn = phi / chance * torch.bernoulli(chance)
        phi = phi + (drawn - phi).detach()  # straight-through gradient
    return phi


def _offset(tau: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    return (tau - mu.unsqueeze(-2)) / sigma.unsqueeze(-2)


def _scaler(g: Tensor, scheme: Normalizer) -> Tensor:
    order, power = scheme
    norm = torch.linalg.vector_norm(g, ord=order, dim=-1, keepdim=True)
    # A compact focus (triangle) between two inputs sees none of them: phi is 0, not NaN.
    s: Tensor = g.shape[-1] ** (power / order) / norm.clamp_min(torch.finfo(g.dtype).tiny ** 0.5)
    return s


def _normalized_gaussian(tau: Tensor, mu: Tensor, sigma: Tensor, scheme: Normalizer) -> Tensor:
    """Compute s g as exp(log_softmax(p log g) / p), p = order.

    In logarithms a narrow focus between two inputs, where every g underflows, does not become
    0 / 0: it sees the nearest input.
    """
    order, power = scheme
    if tau.shape[-1] == 1:  # no sum over axes: fewer calls, which dominate small layers
        distance = ((tau.t() - mu) / sigma).square()
    else:
        distance = _offset(tau, mu, sigma).square().sum(-1)
    share = (distance * (-order / 2)).log_softmax(-1)
    log_phi = share / order + math.log(tau.shape[0]) * power / order
    return torch.exp(log_phi.clamp_min(math.log(MIN_PHI)))
