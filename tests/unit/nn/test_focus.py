"""phi: the paper's equations, its limits and its derivatives."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.func import functional_call

from focusing import FocusedLinear
from tests.unit.nn.oracle import (
    FOCI,
    NORMALIZERS,
    TINY,
    assert_same,
    coefficients,
    derivatives,
    measured,
)

TOPOLOGIES = {1: None, 2: (3, 4), 3: (2, 3, 2)}
INPUTS = 12


def make(focus: str = "gaussian", axes: int = 1, **options: Any) -> FocusedLinear:
    """A small layer in float64 with foci at odd places."""
    seed = torch.Generator().manual_seed(axes)
    options = {
        "mu": torch.rand(4, axes, generator=seed, dtype=torch.float64),
        "sigma": 0.2 + 0.3 * torch.rand(4, axes, generator=seed, dtype=torch.float64),
        "dtype": torch.float64,
        **options,
    }
    return FocusedLinear(INPUTS, 4, topology=TOPOLOGIES[axes], focus=focus, **options)


def foci(layer: FocusedLinear) -> tuple[np.ndarray, ...]:
    return tuple(t.detach().numpy() for t in (layer.tau, layer.mu, layer.sigma))


def as_function(layer: FocusedLinear, batch: int) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """The layer as a function of x and all parameters, and values for them."""
    names, values = zip(*layer.named_parameters(), strict=True)
    assert names == ("weight", "bias", "mu", "sigma")

    def function(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return functional_call(layer, dict(zip(names, values, strict=True)), x)

    x = torch.randn(batch, INPUTS, dtype=torch.float64, requires_grad=True)
    return function, (x, *values)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("focus", FOCI)
def test_phi_is_the_papers(focus: str, normalizer: str, axes: int) -> None:
    layer = make(focus, axes, normalizer=normalizer).eval()
    expected = coefficients(*foci(layer), focus, normalizer)
    np.testing.assert_allclose(layer.phi().detach(), expected, rtol=1e-10, atol=1e-15)
    assert layer.phi().shape == (4, INPUTS)

    x = np.random.default_rng(0).normal(size=(3, INPUTS))
    weight, bias = layer.weight.detach().numpy(), np.arange(4.0)
    layer.bias.data.copy_(torch.from_numpy(bias))
    y = [
        [
            sum(x[k, i] * expected[j, i] * weight[j, i] for i in range(INPUTS)) + bias[j]
            for j in range(4)
        ]
        for k in range(3)
    ]
    np.testing.assert_allclose(layer(torch.from_numpy(x)).detach(), y, rtol=1e-10)
    np.testing.assert_allclose(layer.effective_weight().detach(), expected * weight, rtol=1e-10)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("focus", FOCI)
def test_gradcheck(focus: str, normalizer: str, axes: int) -> None:
    backends = ["reference", "torch", "numba", "numba_banded"] if focus == "gaussian" else ["auto"]
    for backend in backends:
        layer = make(focus, axes, normalizer=normalizer, backend=backend, cutoff=TINY).eval()
        assert torch.autograd.gradcheck(*as_function(layer, batch=2)), backend


def test_second_derivatives_of_the_reference() -> None:
    assert torch.autograd.gradgradcheck(*as_function(make(backend="reference"), batch=1))


@pytest.mark.parametrize("backend", ["reference", "torch", "numba", "numba_banded"])
def test_the_gradient_goes_through_the_normaliser(backend: str) -> None:
    """The paper's derivatives treat s as a constant: ours must be the full ones, and differ."""
    layer = make(backend=backend, cutoff=TINY)
    x, grad_y = torch.randn(3, INPUTS).double(), torch.randn(3, 4).double()
    expected, found = derivatives(layer, x, grad_y), measured(layer, x, grad_y)
    expected.check(found, 1e-10, backend)
    tau, mu, sigma = foci(layer)
    slope = (tau[:, 0] - mu) / sigma**2
    effective = layer.effective_weight().detach().numpy()
    without = ((grad_y.T @ x).numpy() * effective * slope).sum(1)
    assert np.abs(found["mu"].numpy()[:, 0] - without).max() > 0.1


@pytest.mark.parametrize("focus", [f for f in FOCI if f != "negated_gaussian"])
def test_phi_has_the_norm_of_a_fully_connected_neuron(focus: str) -> None:
    for sigma in (0.01, 0.1, 1.0):
        layer = FocusedLinear(100, 7, focus=focus, sigma=sigma, mu="random")
        norm = layer.phi().square().sum(1).sqrt()
        torch.testing.assert_close(norm, torch.full((7,), math.sqrt(100)), rtol=1e-5, atol=0)


def test_algorithm_2_as_printed_sums_to_the_root_of_m() -> None:
    phi = FocusedLinear(100, 7, normalizer="sum", sigma=0.1).phi()
    torch.testing.assert_close(phi.sum(1), torch.full((7,), 10.0))
    wide = FocusedLinear(100, 7, normalizer="sum", sigma=1e3).phi()
    torch.testing.assert_close(wide, torch.full((7, 100), 0.1))  # the limit is not 1: a misprint


@pytest.mark.parametrize("focus", [f for f in FOCI if f != "gaussian_derivative"])
def test_the_mean_of_phi_is_1_in_the_code_of_2018(focus: str) -> None:
    for sigma in (0.01, 0.1, 1.0):
        layer = FocusedLinear(100, 7, focus=focus, sigma=sigma, mu="random", normalizer="mean")
        torch.testing.assert_close(layer.phi().mean(1), torch.ones(7))


@pytest.mark.parametrize("focus", ["gaussian", "triangle", "bernoulli"])
@pytest.mark.parametrize("normalizer", ["l2", "mean", "none"])
def test_phi_tends_to_1_as_sigma_grows(focus: str, normalizer: str) -> None:
    def distance(sigma: float) -> float:
        layer = FocusedLinear(50, 3, focus=focus, sigma=sigma, normalizer=normalizer)
        return (layer.phi() - 1).abs().max().item()

    gaps = [distance(sigma) for sigma in (0.3, 1.0, 10.0, 1e3)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 0.1
    assert gaps[-1] < (1e-6 if focus != "triangle" else 1e-3)


@pytest.mark.parametrize("sigma", [0.025, 0.1])
def test_peak_of_phi(sigma: float) -> None:
    """Section 1.2 of paper_facts.md: 4.75 and 2.38."""
    phi = FocusedLinear(784, 1, mu=0.5, sigma=sigma).phi()
    assert phi.max().item() == pytest.approx({0.025: 4.75, 0.1: 2.38}[sigma], abs=0.01)


@pytest.mark.parametrize("focus", FOCI)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("init", ["focus_glorot", "glorot", "he", "per_connection"])
def test_a_focus_between_two_inputs_is_finite(focus: str, normalizer: str, init: str) -> None:
    layer = FocusedLinear(
        4, 2, mu=0.5, sigma=0.01, focus=focus, normalizer=normalizer, init=init, backend="reference"
    )
    for training in (True, False):
        found = measured(
            layer.train(training), torch.randn(3, 4, requires_grad=True), torch.randn(3, 2)
        )
        for name, value in found.items():
            assert value.isfinite().all(), name


def test_triangle_has_the_std_of_the_gaussian_and_ends() -> None:
    line = torch.linspace(0, 1, 10001, dtype=torch.float64)
    layer = FocusedLinear(
        10001, 1, mu=0.5, sigma=0.1, focus="triangle", normalizer="none", dtype=torch.float64
    )
    g = layer.phi()[0].detach()
    variance = (g * (line - 0.5) ** 2).sum() / g.sum()
    assert variance.sqrt().item() == pytest.approx(0.1, rel=1e-4)
    assert g.max() == 1
    assert torch.equal(g > 0, (line - 0.5).abs() < 0.1 * math.sqrt(6))


class TestBernoulli:
    @pytest.mark.parametrize("normalizer", NORMALIZERS)
    def test_training_draws_and_eval_takes_the_mean(self, normalizer: str) -> None:
        torch.manual_seed(0)
        layer = make("bernoulli", normalizer=normalizer)
        x = torch.randn(1, INPUTS).double()
        with torch.no_grad():
            drawn = torch.stack([layer(x) for _ in range(4000)])
            assert (drawn.std(0) > 0.01).all()
            expected = layer.eval()(x)
            assert torch.equal(expected, layer(x))
        error = drawn.std(0) / math.sqrt(4000)
        assert ((drawn.mean(0) - expected).abs() < 5 * error).all()

    def test_a_drawn_connection_is_there_or_not(self) -> None:
        layer = make("bernoulli")
        x = torch.eye(INPUTS, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.fill_(1.0)
            drawn = layer(x).T
        g = coefficients(*foci(layer), "gaussian", "none")
        s = math.sqrt(INPUTS) / np.sqrt((g**2).sum(1, keepdims=True))
        on = np.abs(drawn.numpy() - s) < 1e-12
        assert (on | (drawn.numpy() == 0)).all()
        assert 0 < on.mean() < 1

    @pytest.mark.parametrize("normalizer", NORMALIZERS)
    def test_the_gradient_passes_straight_through(self, normalizer: str) -> None:
        """That of the foci is the gaussian's; that of a weight is zero where not drawn."""
        x, grad_y = torch.randn(5, INPUTS).double(), torch.randn(5, 4).double()
        found = {}
        for focus in ("bernoulli", "gaussian"):
            torch.manual_seed(0)
            layer = make(focus, normalizer=normalizer)
            found[focus] = measured(layer, x, grad_y)
        for name in ("mu", "sigma"):
            assert_same(found["bernoulli"][name], found["gaussian"][name])
        assert (found["bernoulli"]["weight"] == 0).any()
