"""The paper's formulas in plain NumPy and float64, which the layers are tested against."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from focusing import FocusedLinear

FOCI = ("gaussian", "negated_gaussian", "gaussian_derivative", "triangle", "bernoulli")
NORMALIZERS = ("l2", "sum", "mean", "none")
GRIDS = ("linspace", "index")
BACKENDS = ("reference", "torch", "numba", "numba_banded")
FAST_BACKENDS = ("torch", "numba", "numba_banded", "auto")
TINY = 1e-40
"""A cutoff too small to have an effect in float64."""


def array(tensor: torch.Tensor) -> np.ndarray:
    """The values of a tensor of any device, in float64."""
    return tensor.detach().double().cpu().numpy()


def grid(*sizes: int, channels: int = 1, kind: str = "linspace") -> np.ndarray:
    """Positions of a row-major grid whose channels are the fastest axis, one input at a time."""
    points = []
    for where in itertools.product(*(range(size) for size in sizes)):
        ends = [size if kind == "index" else max(1, size - 1) for size in sizes]
        point = [i / end for i, end in zip(where, ends, strict=True)]
        points += [point] * channels
    return np.array(points)


def coefficients(
    tau: np.ndarray, mu: np.ndarray, sigma: np.ndarray, focus: str, normalizer: str
) -> np.ndarray:
    """Phi of Algorithm 2, neuron by neuron and input by input."""
    (m, d), n = tau.shape, len(mu)
    g = np.zeros((n, m))
    for j, i in itertools.product(range(n), range(m)):
        u = [(tau[i, a] - mu[j, a]) / sigma[j, a] for a in range(d)]
        bell = math.exp(-sum(v * v for v in u) / 2)
        g[j, i] = {
            "gaussian": bell,
            "bernoulli": bell,  # its expectation
            "negated_gaussian": 1 - bell,
            "gaussian_derivative": sum(u) / math.sqrt(d) * bell,
            "triangle": math.prod(max(0.0, 1 - abs(v) / math.sqrt(6)) for v in u),
        }[focus]
    if normalizer == "none":
        return g
    s = [
        {
            "l2": math.sqrt(m) / math.sqrt((r**2).sum()),
            "sum": math.sqrt(m) / abs(r).sum(),
            "mean": 1 / abs(r).mean(),
        }[normalizer]
        for r in g
    ]
    return np.array(s)[:, None] * g


@dataclass
class Result:
    """Values and gradients, with the magnitude of the terms that were summed to compute them."""

    values: dict[str, np.ndarray]
    scales: dict[str, np.ndarray]

    def check(self, actual: dict[str, torch.Tensor], tolerance: float, title: str) -> None:
        for name, value in actual.items():
            error = np.abs(array(value) - self.values[name])
            worst = (error / (self.scales[name] + 1e-30)).max(initial=0)
            assert worst <= tolerance, f"{title}: {name} is wrong by {worst:.2g} of its terms"


def derivatives(layer: FocusedLinear, x: torch.Tensor, grad_y: torch.Tensor) -> Result:
    """Output and gradients of a gaussian layer by the formulas of paper_facts.md 1.1."""
    tau, mu, sigma, w, x, gy = (
        array(tensor) for tensor in (layer.tau, layer.mu, layer.sigma, layer.weight, x, grad_y)
    )
    units = len(w) // len(mu)  # neurons that share a focus
    mu, sigma = (np.repeat(foci, units, axis=0) for foci in (mu, sigma))
    mask = np.ones_like(w) if layer.mask is None else array(layer.mask)
    bias = np.zeros(len(w)) if layer.bias is None else array(layer.bias)
    m = len(tau)
    t = tau[None] - mu[:, None]  # (n, m, d)
    exponent = -((t / sigma[:, None]) ** 2).sum(2) / 2
    if layer.normalizer != "none":
        exponent = exponent - exponent.max(1, keepdims=True)  # cancels in s
    g = np.exp(exponent)
    phi = g
    if layer.normalizer != "none":
        norm = {
            "l2": np.sqrt((g**2).mean(1)),
            "sum": g.sum(1) / math.sqrt(m),
            "mean": g.mean(1),
        }[layer.normalizer]
        phi = g / norm[:, None]
    share = {
        "l2": phi**2 / m,
        "sum": phi / math.sqrt(m),
        "mean": phi / m,
        "none": 0 * phi,
    }[layer.normalizer]
    slope_mu, slope_sigma = t / sigma[:, None] ** 2, t**2 / sigma[:, None] ** 3
    mean_mu = np.einsum("nm,nmd->nd", share, slope_mu)[:, None]
    mean_sigma = np.einsum("nm,nmd->nd", share, slope_sigma)[:, None]
    grad_phi = gy.T @ x * w * mask
    change = (grad_phi * phi)[..., None]
    seen = np.maximum(phi, 1e-8) * mask  # smaller coefficients may be inaccurate
    power = np.abs(gy).T @ np.abs(x) * seen
    terms = np.abs(power * w)
    # Moments of the terms and of the normaliser, which bound the rounding errors about any origin.
    spread = 1 + np.einsum("nm,nmd->nd", terms + terms.sum(1, keepdims=True) * share, t**2) / (
        sigma**2 * (terms.sum(1)[:, None] + 1e-300)
    )
    size = terms.sum(1)[:, None] * spread / np.abs(sigma)

    def per_focus(terms: np.ndarray) -> np.ndarray:
        return terms.reshape(-1, units, terms.shape[-1]).sum(1)

    return Result(
        {
            "y": x @ (phi * mask * w).T + bias,
            "x": gy @ (phi * mask * w),
            "weight": gy.T @ x * phi * mask,
            "bias": gy.sum(0),
            "mu": per_focus((change * (slope_mu - mean_mu)).sum(1)),
            "sigma": per_focus((change * (slope_sigma - mean_sigma)).sum(1)),
        },
        {
            "y": np.abs(x) @ np.abs(seen * w).T + np.abs(bias),
            "x": (np.abs(gy) @ np.abs(seen * w)).max(1, keepdims=True, initial=0),
            "weight": power.max(1, keepdims=True),
            "bias": np.abs(gy).sum(0),
            "mu": per_focus(size),
            "sigma": per_focus(size),
        },
    )


def measured(layer: FocusedLinear, x: torch.Tensor, grad_y: torch.Tensor) -> dict[str, Any]:
    """Output of a layer, and the gradients of x and of all trainable parameters."""
    layer.zero_grad()
    x = x.detach().requires_grad_(x.requires_grad)
    y = layer(x)
    actual = {"y": y}
    if y.requires_grad:
        y.backward(grad_y)
    for name, tensor in [("x", x), *layer.named_parameters()]:
        if tensor.requires_grad:
            assert tensor.grad is not None, f"{name} has no gradient"
            actual[name] = tensor.grad
        else:
            assert tensor.grad is None, f"{name} is frozen but has a gradient"
    return actual


def assert_same(actual: Any, expected: Any) -> None:
    """Equal up to float32 rounding, because engines and CPUs sum in different orders."""
    if isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other)
        return
    largest = expected.detach().abs().max().item() if expected.numel() else 0.0
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4 * largest)
