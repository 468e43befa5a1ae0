"""Sums in closed form are the sums."""

import numpy as np
import pytest
import torch

from focusing import FocusedLinear
from focusing.nn.line import LEAST_WIDTH, gaussian_sums


@pytest.mark.parametrize("inputs", [101, 784])
@pytest.mark.parametrize("steps", [LEAST_WIDTH, 50, 1000])
def test_sums(inputs: int, steps: float) -> None:
    positions, width = np.linspace(0, 1, inputs), steps / (inputs - 1)
    centers = np.linspace(0, 1, 11)
    s = positions - centers[:, None]
    q = np.exp(-((s / width) ** 2) / 2)
    exact = np.stack([(q * (s / width) ** power).sum(1) for power in range(3)])
    distances = np.stack([centers, 1 - centers])
    found = gaussian_sums(distances, np.full(len(centers), width), 1 / (inputs - 1))
    found /= width ** np.arange(3)[:, None]
    assert np.abs((found - exact) / exact[0]).max() < 3e-8


@pytest.mark.parametrize("normalizer", ["l2", "sum"])
@pytest.mark.parametrize(
    "spoiler", [None, {"sigma": 0.01}, {"mu": 1.5, "mu_range": (0.0, 2.0)}], ids=str
)
def test_a_plan_knows_the_normaliser_only_where_it_is_exact(
    normalizer: str, spoiler: dict[str, object] | None
) -> None:
    options = {"sigma": 0.1, "mu": "spread"} | (spoiler or {})
    layer = FocusedLinear(784, 800, normalizer=normalizer, **options)  # type: ignore[arg-type]
    plan = layer._plan(torch.rand(8, 784))
    assert plan is not None
    assert (plan.spread is None) == (spoiler is not None)


def test_double_precision_is_summed() -> None:
    layer = FocusedLinear(784, 800, sigma=0.1, dtype=torch.float64)
    plan = layer._plan(torch.rand(8, 784, dtype=torch.float64))
    assert plan is not None
    assert plan.spread is None


def test_unevenly_spaced_inputs_are_summed() -> None:
    positions = torch.linspace(0, 1, 784)[:, None] ** 2
    plan = FocusedLinear(784, 800, topology=positions, sigma=0.2)._plan(torch.rand(8, 784))
    assert plan is not None
    assert plan.spread is None


@pytest.mark.parametrize("normalizer", ["l2", "sum"])
@pytest.mark.parametrize("sorted_mu", [True, False])
def test_gradients_are_those_of_the_formulas(normalizer: str, sorted_mu: bool) -> None:
    torch.manual_seed(0)
    mu = torch.rand(200)
    options = {"mu": mu.sort().values if sorted_mu else mu, "sigma": (0.11, 0.3)}
    layer = FocusedLinear(400, 200, normalizer=normalizer, **options)  # type: ignore[arg-type]
    x = torch.randn(16, 400, requires_grad=True)
    plan = layer._plan(x)
    assert plan is not None
    assert plan.spread is not None
    found = []
    for backend in ("auto", "reference"):
        layer.backend = backend
        y = layer(x)
        found.append((y, *torch.autograd.grad(y.square().sum(), (x, *layer.parameters()))))
    for fast, plain in zip(*found, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=2e-5 * plain.abs().max().item())


@pytest.mark.parametrize("inputs", [784, 3072])
def test_the_closed_form_is_as_exact_as_single_precision(inputs: int) -> None:
    torch.manual_seed(0)
    layer = FocusedLinear(inputs, 64, sigma=0.1, backend="banded")
    exact = FocusedLinear(inputs, 64, backend="reference", dtype=torch.float64)
    exact.load_state_dict({name: value.double() for name, value in layer.state_dict().items()})
    x = torch.randn(32, inputs)
    found, expected = layer(x).double(), exact(x.double())
    scale = (found * expected).sum(0) / expected.square().sum(0)  # a wrong normaliser scales y
    torch.testing.assert_close(scale, torch.ones_like(scale), rtol=0, atol=1e-6)
