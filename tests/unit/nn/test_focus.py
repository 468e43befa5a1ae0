"""Focus coefficients: the paper's equations, limits and derivatives."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.func import functional_call

from focusing import FocusedLinear, functional
from tests.unit.nn.oracle import (
    BACKENDS,
    FOCI,
    NORMALIZERS,
    TINY,
    array,
    assert_same,
    coefficients,
    measured,
)

TOPOLOGIES = {1: None, 2: (3, 4), 3: (2, 3, 2)}
INPUTS = 12


def make(focus: str = "gaussian", axes: int = 1, **options: Any) -> FocusedLinear:
    """A small layer in float64 with foci at odd places."""
    seed = torch.Generator(torch.get_default_device()).manual_seed(axes)
    options = {
        "mu": torch.rand(4, axes, generator=seed, dtype=torch.float64),
        "sigma": 0.2 + 0.3 * torch.rand(4, axes, generator=seed, dtype=torch.float64),
        "dtype": torch.float64,
        **options,
    }
    return FocusedLinear(INPUTS, 4, topology=TOPOLOGIES[axes], focus=focus, **options)


def foci(layer: FocusedLinear) -> tuple[np.ndarray, ...]:
    return tuple(map(array, (layer.tau, layer.mu, layer.sigma)))


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
def test_phi_matches_the_paper(focus: str, normalizer: str, axes: int) -> None:
    """In the layer and in the reference functions."""
    layer = make(focus, axes, normalizer=normalizer).eval()
    expected = coefficients(*foci(layer), focus, normalizer)
    np.testing.assert_allclose(array(layer.phi()), expected, rtol=1e-10, atol=1e-15)
    x = torch.randn(3, INPUTS, dtype=torch.float64)
    torch.nn.init.normal_(layer.bias)
    weight, bias = array(layer.weight), array(layer.bias)
    y = array(x) @ (expected * weight).T + bias
    np.testing.assert_allclose(array(layer(x)), y, rtol=1e-10, atol=1e-13)
    options: Any = {"focus": focus, "normalizer": normalizer}
    arguments = layer.mu, layer.sigma, layer.tau
    phi = functional.focus_coefficients(*arguments, **options)
    assert torch.equal(phi, layer.phi())
    if axes == 1:  # a line may be one-dimensional
        arguments = layer.mu[:, 0], layer.sigma[:, 0], layer.tau[:, 0]
    result = functional.focused_linear(x[None], layer.weight, layer.bias, *arguments, **options)
    np.testing.assert_allclose(array(result[0]), y, rtol=1e-10, atol=1e-13)
    mask = torch.rand(4, INPUTS) < 0.5
    masked = functional.focused_linear(x, layer.weight, None, *arguments, mask=mask, **options)
    expected = array(x) @ (expected * weight * array(mask)).T
    np.testing.assert_allclose(array(masked), expected, rtol=1e-10, atol=1e-13)


def test_functions_refuse_unknown_names() -> None:
    line = torch.rand(3), torch.rand(3), torch.rand(5)
    with pytest.raises(ValueError, match=r"^focus='square' is not one of gaussian, .*\.$"):
        functional.focus_coefficients(*line, focus="square")
    with pytest.raises(ValueError, match=r"^normalizer='max' is not one of l2, .*\.$"):
        functional.focused_linear(torch.ones(1, 5), torch.ones(3, 5), None, *line, normalizer="max")


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("focus", FOCI)
def test_gradcheck(focus: str, normalizer: str, axes: int) -> None:
    for backend in BACKENDS if focus == "gaussian" else ["auto"]:
        layer = make(focus, axes, normalizer=normalizer, backend=backend, cutoff=TINY).eval()
        assert torch.autograd.gradcheck(*as_function(layer, batch=2), fast_mode=True), backend


@pytest.mark.parametrize(("sigma", "peak"), [(0.025, 4.75), (0.1, 2.38)])
def test_peak_of_phi(sigma: float, peak: float) -> None:
    """Section 1.2 of paper_facts.md."""
    phi = FocusedLinear(784, 1, mu=0.5, sigma=sigma).phi()
    assert phi.max().item() == pytest.approx(peak, abs=0.01)


@pytest.mark.parametrize("focus", FOCI)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_a_focus_between_two_inputs_is_finite(focus: str, normalizer: str) -> None:
    for init in ("focus_glorot", "glorot", "he", "per_connection"):
        options: Any = {"focus": focus, "normalizer": normalizer, "init": init}
        layer = FocusedLinear(4, 2, mu=0.5, sigma=0.01, backend="reference", **options)
        for training in (True, False):
            x = torch.randn(3, 4, requires_grad=True)
            results = measured(layer.train(training), x, torch.randn(3, 2))
            for name, value in results.items():
                assert value.isfinite().all(), (init, name)


def test_triangle_has_the_std_of_the_gaussian() -> None:
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
    def test_training_samples_and_eval_takes_the_mean(self, normalizer: str) -> None:
        layer, draws = make("bernoulli", normalizer=normalizer), 1000
        x = torch.randn(1, INPUTS).double()
        with torch.no_grad():
            drawn = torch.stack([layer(x) for _ in range(draws)])
            assert (drawn.std(0) > 0.01).all()
            expected = layer.eval()(x)
            assert torch.equal(expected, layer(x))
        error = drawn.std(0) / math.sqrt(draws)
        assert ((drawn.mean(0) - expected).abs() < 5 * error).all()

    def test_connections_are_on_or_off(self) -> None:
        layer = make("bernoulli")
        x = torch.eye(INPUTS, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.fill_(1.0)
            drawn = layer(x).T
        g = coefficients(*foci(layer), "gaussian", "none")
        s = math.sqrt(INPUTS) / np.sqrt((g**2).sum(1, keepdims=True))
        on = np.abs(array(drawn) - s) < 1e-12
        assert (on | (array(drawn) == 0)).all()
        assert 0 < on.mean() < 1

    @pytest.mark.parametrize("normalizer", NORMALIZERS)
    def test_straight_through_gradient(self, normalizer: str) -> None:
        """Foci have the gaussian's gradient; weights have none where not drawn."""
        x, grad_y = torch.randn(5, INPUTS).double(), torch.randn(5, 4).double()
        results = {}
        for focus in ("bernoulli", "gaussian"):
            torch.manual_seed(0)
            results[focus] = measured(make(focus, normalizer=normalizer), x, grad_y)
        for name in ("mu", "sigma"):
            assert_same(results["bernoulli"][name], results["gaussian"][name])
        assert (results["bernoulli"]["weight"] == 0).any()
