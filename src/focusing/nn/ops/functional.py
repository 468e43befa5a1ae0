"""The reference engine: a focused layer as two functions in plain differentiable torch.

All other engines are tested against it. Users import it as ``focusing.functional``.
"""

from __future__ import annotations

import math
from numbers import Real

from torch import Tensor
from torch.nn import functional

from focusing.nn.focus import FOCUS_FUNCTIONS, NORMALIZERS, coefficients


def focus_coefficients(
    mu: Tensor,
    sigma: Tensor,
    tau: Tensor,
    *,
    focus: str = "gaussian",
    normalizer: str = "l2",
    sample: bool = False,
) -> Tensor:
    r"""The focus coefficients :math:`\phi` by which each neuron multiplies its weights.

    Args:
        mu: centres, (n, d), or (n,) on a line.
        sigma: apertures, of the same shape.
        tau: positions of the inputs, (m, d), or (m,) on a line.
        focus: ``"gaussian"``, ``"negated_gaussian"``, ``"gaussian_derivative"``, ``"triangle"`` or
            ``"bernoulli"``.
        normalizer: ``"l2"``, ``"sum"``, ``"mean"`` or ``"none"``.
        sample: draw the connections of bernoulli, as in training; False takes their expectation.

    Returns:
        phi of shape (n, m).

    Example:
        >>> import torch
        >>> mu, sigma, tau = torch.tensor([0.5]), torch.tensor([0.2]), torch.linspace(0, 1, 5)
        >>> focus_coefficients(mu, sigma, tau, normalizer="none")
        tensor([[0.0439, 0.4578, 1.0000, 0.4578, 0.0439]])
    """
    check_choice("focus", focus, FOCUS_FUNCTIONS)
    check_choice("normalizer", normalizer, NORMALIZERS)
    mu, sigma, tau = (
        values.unsqueeze(-1) if values.dim() == 1 else values for values in (mu, sigma, tau)
    )
    mu, sigma = mu.to(tau.dtype), sigma.to(tau.dtype)
    return coefficients(tau, mu, sigma, focus, normalizer, sample=sample)


def focused_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mu: Tensor,
    sigma: Tensor,
    tau: Tensor,
    *,
    focus: str = "gaussian",
    normalizer: str = "l2",
    mask: Tensor | None = None,
    sample: bool = False,
) -> Tensor:
    r"""A linear layer with focus, :math:`y = x (\Phi \circ W)^T + b`.

    Args:
        x: inputs, (*, m).
        weight: weights, (n, m).
        bias: biases, (n,), or None.
        mu: centres, (n, d), or (n,) on a line.
        sigma: apertures, of the same shape.
        tau: positions of the inputs, (m, d), or (m,) on a line.
        focus: as for :func:`focus_coefficients`.
        normalizer: as for :func:`focus_coefficients`.
        mask: connections to keep, (n, m); None keeps all.
        sample: as for :func:`focus_coefficients`.

    Returns:
        y of shape (*, n).

    Example:
        >>> import torch
        >>> x, weight, tau = torch.ones(2, 5), torch.ones(3, 5), torch.linspace(0, 1, 5)
        >>> mu, sigma = torch.tensor([0.2, 0.5, 0.8]), torch.full((3,), 0.1)
        >>> focused_linear(x, weight, None, mu, sigma, tau).shape
        torch.Size([2, 3])
    """
    phi = focus_coefficients(mu, sigma, tau, focus=focus, normalizer=normalizer, sample=sample)
    effective_weight = (phi if mask is None else phi * mask) * weight
    if effective_weight.dtype != weight.dtype:  # positions are never below float32
        effective_weight = effective_weight.to(weight.dtype)
    return functional.linear(x, effective_weight, bias)


def check_count(name: str, value: int) -> None:
    """Raise a ValueError unless the value is a positive integer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}={value!r} must be a positive integer.")


def check_number(name: str, value: float, low: float, high: float) -> None:
    """Raise a ValueError unless the value is a number from low to high."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= value <= high:
        raise ValueError(f"{name}={value!r} must be a number from {low:g} to {high:g}.")


def check_choice(name: str, value: object, choices: object) -> None:
    """Raise a ValueError that lists the choices unless the value is one of them."""
    names = list(choices)  # type: ignore[call-overload]
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(names)}.")


def check_range(name: str, bounds: tuple[float, float], above: float) -> tuple[float, float]:
    """Raise a ValueError unless the bounds are (low, high) with ``above`` < low <= high."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low = high = math.nan  # fails the check
    if not above < low <= high < math.inf:
        raise ValueError(
            f"{name}={bounds} must be (low, high) with "
            f"{'' if above == -math.inf else f'{above:g} < '}low <= high."
        )
    return low, high
