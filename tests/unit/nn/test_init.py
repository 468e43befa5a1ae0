"""Initial centres, apertures and weights."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from focusing import FocusedLinear
from tests.unit.nn.oracle import array

TOPOLOGIES = {2: (6, 6), 3: (3, 4, 3)}


def start(name: str, neurons: int = 7, **options: Any) -> torch.Tensor:
    return getattr(FocusedLinear(36, neurons, **options), name).detach()


@pytest.mark.parametrize("neurons", [2, 4, 800])
def test_spread_on_a_line_is_the_default(neurons: int) -> None:
    expected = torch.linspace(0.2, 0.8, neurons)[:, None]
    torch.testing.assert_close(start("mu", neurons), expected)
    assert torch.equal(start("mu", neurons), start("mu", neurons, mu="spread"))
    clipped = start("mu", neurons, mu_range=(0.3, 0.7))
    assert (clipped.min().item(), clipped.max().item()) == pytest.approx((0.3, 0.7))


@pytest.mark.parametrize("axes", [2, 3])
def test_spread_is_a_grid_elsewhere(axes: int) -> None:
    for margin in (0.0, 0.2, 0.4):
        line = np.linspace(margin, 1 - margin, 3)
        expected = np.array(list(itertools.product(line, repeat=axes)))
        centers = start("mu", 3**axes, topology=TOPOLOGIES[axes], margin=margin)
        np.testing.assert_allclose(array(centers), expected, rtol=1e-6)
    for neurons in (1, 2, 5, 10, 800):  # a grid with too many points is thinned evenly
        centers = start("mu", neurons, topology=TOPOLOGIES[axes])
        assert centers.shape == (neurons, axes)
        assert len(centers.unique(dim=0)) == neurons
        assert (centers.min() >= 0.2) & (centers.max() <= 0.8)
        if neurons >= 10:
            assert (centers.amin(0) < 0.21).all()
            assert (centers.amax(0) > 0.79).all()
            assert ((centers.mean(0) - 0.5).abs() < 0.06).all()


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        ({"mu": "center_jitter"}, 0.475, 0.525),
        ({"mu": "random"}, 0.0, 1.0),
        ({"mu": "random", "mu_range": (-1.0, 2.0)}, -1.0, 2.0),
        ({"sigma": (0.05, 0.25)}, 0.05, 0.25),
        ({"sigma": [0.05, 0.25]}, 0.05, 0.25),
    ],
)
def test_random_values_fill_their_range(options: dict[str, Any], low: float, high: float) -> None:
    values, width = start(next(iter(options)), 5000, **options), high - low
    assert ((values >= low) & (values <= high)).all()
    assert values.min().item() == pytest.approx(low, abs=width / 100)
    assert values.max().item() == pytest.approx(high, abs=width / 100)
    assert values.std().item() == pytest.approx(width / math.sqrt(12), rel=0.05)


@pytest.mark.parametrize("name", ["mu", "sigma"])
def test_numbers_and_tensors(name: str) -> None:
    for number in (0.3, 1):
        assert (start(name, **{name: number}, topology=(6, 6), dtype=torch.float64) == number).all()
    line, plane = 0.1 + 0.9 * torch.rand(7), 0.1 + 0.9 * torch.rand(7, 2)
    assert torch.equal(start(name, **{name: line}), line[:, None])
    assert torch.equal(start(name, **{name: plane}, topology=(6, 6)), plane)
    assert torch.equal(start(name, **{name: line}, topology=(6, 6)), line[:, None].expand(7, 2))
    exact = 0.1 + 0.9 * torch.rand(7, 1, dtype=torch.float64)
    assert torch.equal(start(name, **{name: exact}, dtype=torch.float64), exact)
    pair = torch.tensor([0.1, 0.2])  # a tensor of two is no range
    assert torch.equal(start(name, 2, **{name: pair}), pair[:, None])
    assert torch.equal(start("mu", mu=line.tolist()), line[:, None])
    assert (start("mu", mu="center", topology=(6, 6)) == 0.5).all()
    assert (start("sigma", dtype=torch.float64) == 0.025).all()


def make(init: str, **options: Any) -> FocusedLinear:
    torch.manual_seed(0)
    return FocusedLinear(784, 800, init=init, **{"dtype": torch.float64, **options})


class TestWeights:
    """Weights are uniform within bounds that depend on phi."""

    def test_focus_glorot_is_the_default(self) -> None:
        layer = make("focus_glorot")
        power = array(layer.phi()) ** 2
        bound = np.sqrt(6 / (power.sum(1)[:, None] + power.sum(0)[None]))
        assert (bound.min(), bound.max()) == pytest.approx((0.0532, 0.0875), abs=5e-5)
        ratio = np.abs(array(layer.weight)) / bound
        assert ratio.max() <= 1
        assert (ratio.max(0) > 0.98).all()
        assert ratio.mean() == pytest.approx(0.5, abs=0.002)
        assert layer.weight.mean().item() == pytest.approx(0, abs=1e-4)
        torch.manual_seed(0)
        assert torch.equal(FocusedLinear(784, 800, dtype=torch.float64).weight, layer.weight)

    @pytest.mark.parametrize("topology", [None, (28, 28)])
    @pytest.mark.parametrize("sigma", [0.025, 0.3])
    @pytest.mark.parametrize(("init", "variance"), [("he", 2.0), ("per_connection", 1.0)])
    def test_variance_of_the_output(
        self, init: str, variance: float, sigma: float, topology: Any
    ) -> None:
        layer = make(init, sigma=sigma, topology=topology, dtype=torch.float32)
        y = layer(torch.randn(1000, 784))
        assert y.mean().item() == pytest.approx(0, abs=0.02)
        assert y.var(0).mean().item() == pytest.approx(variance, rel=0.04)
        if init == "he":
            assert y.relu().square().mean().item() == pytest.approx(1.0, rel=0.1)

    @pytest.mark.parametrize(
        ("inputs", "low", "high"), [(784, 0.73, 0.79), (3072, 1.35, 1.55), (3600, 1.35, 1.55)]
    )
    def test_variance_of_focus_glorot(self, inputs: int, low: float, high: float) -> None:
        layer = FocusedLinear(inputs, 800)
        assert low < layer.effective_weight().square().sum(1).mean().item() < high

    def test_per_connection_gives_every_product_the_same_variance(self) -> None:
        layer = FocusedLinear(20, 20000, mu=0.5, sigma=0.3, init="per_connection")
        products = layer.effective_weight().detach()
        torch.testing.assert_close(products.var(0), torch.full((20,), 1 / 20), rtol=0.05, atol=0)

    @pytest.mark.parametrize("options", [{}, {"sigma": 0.3}, {"normalizer": "mean"}])
    def test_glorot_ignores_foci(self, options: dict[str, Any]) -> None:
        layer, plain = make("glorot", **options), torch.nn.Linear(784, 800)
        torch.manual_seed(0)
        torch.nn.init.xavier_uniform_(plain.double().weight)
        torch.testing.assert_close(layer.weight, plain.weight)

    @pytest.mark.parametrize("init", ["focus_glorot", "glorot", "he", "per_connection"])
    def test_bias_is_zero_and_far_weights_are_bounded(self, init: str) -> None:
        layer = make(init)
        assert (layer.bias == 0).all()
        assert layer.weight.isfinite().all()
        assert layer.weight.abs().max() < 100


@pytest.mark.parametrize("options", [{}, {"mu": "random", "sigma": (0.1, 0.2), "init": "he"}])
def test_reset_parameters_is_reproducible(options: dict[str, Any]) -> None:
    torch.manual_seed(3)
    layer = FocusedLinear(20, 10, **options)
    first = {name: value.clone() for name, value in layer.state_dict().items()}
    layer.reset_parameters()
    assert not torch.equal(layer.weight, first["weight"])
    with torch.no_grad():
        layer.bias.fill_(1)
        layer.mu.fill_(0.9)
    layer.prune(1.0)
    torch.manual_seed(3)
    layer.reset_parameters()
    torch.testing.assert_close(dict(layer.state_dict()), first, rtol=0, atol=0)
