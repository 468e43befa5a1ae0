"""AnchoredLinear, whose weights move with the focus."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from focusing import AnchoredLinear, FocusedLinear
from tests.unit.nn import oracle
from tests.unit.nn.oracle import BACKENDS, GRIDS, assert_same

SHAPES: dict[Any, tuple[tuple[int, ...], int]] = {
    None: ((12,), 1),
    (5, 4): ((5, 4), 1),
    (4, 5, 3): ((4, 5), 3),
    (3, 4, 5): ((3, 4, 5), 1),
}


def tap_weights(layer: AnchoredLinear, tau: np.ndarray) -> np.ndarray:
    """Input by input and tap by tap; channels are the fastest axis of the inputs."""
    taps, mu, sigma = (oracle.array(v) for v in (layer.taps, *layer.neuron_foci()))
    count, channels, axes = taps.shape[1], taps.shape[-1], mu.shape[1]
    places = np.linspace(-layer.reach, layer.reach, count)
    gap = 2 * layer.reach / (count - 1)
    weight = np.zeros((len(taps), len(tau)))
    for j, i in itertools.product(range(len(taps)), range(len(tau))):
        u = [(tau[i, a] - mu[j, a]) / sigma[j, a] for a in range(axes)]
        for tap in itertools.product(range(count), repeat=axes):
            share = math.prod(max(0.0, 1 - abs(u[a] - places[tap[a]]) / gap) for a in range(axes))
            weight[j, i] += share * taps[(j, *tap, i % channels)]
    return weight


@settings(max_examples=25)
@given(
    topology=st.sampled_from([*SHAPES]),
    grid=st.sampled_from(GRIDS),
    taps=st.sampled_from([2, 3, 5]),
    units=st.sampled_from([1, 2]),
    reach=st.sampled_from([0.5, 2.5]),
    sigma=st.sampled_from([0.05, 0.2, 1.0]),
    seed=st.integers(0, 1000),
)
def test_the_formula(
    topology: Any, grid: str, taps: int, units: int, reach: float, sigma: float, seed: int
) -> None:
    torch.manual_seed(seed)
    axes, channels = SHAPES[topology]
    options: Any = {"topology": topology, "grid": grid, "mu": "random", "sigma": sigma}
    layer = AnchoredLinear(
        math.prod(axes) * channels, 4, taps=taps, reach=reach, units_per_focus=units,
        dtype=torch.float64, **options,
    )  # fmt: skip
    tau = oracle.grid(*axes, channels=channels, kind=grid)
    weight = tap_weights(layer, tau)
    np.testing.assert_allclose(oracle.array(layer.weight), weight, rtol=1e-9, atol=1e-12)
    foci = map(oracle.array, layer.neuron_foci())
    phi = oracle.coefficients(tau, *foci, "gaussian", "l2")
    np.testing.assert_allclose(
        oracle.array(layer.effective_weight()), phi * weight, rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_engine_gives_the_same_gradients(backend: str) -> None:
    torch.manual_seed(0)
    options: Any = {"topology": (8, 8), "sigma": 0.2, "taps": 3, "units_per_focus": 2}
    reference = AnchoredLinear(64, 6, backend="reference", **options)
    layer = AnchoredLinear(64, 6, backend=backend, **options)
    layer.load_state_dict(reference.state_dict())
    x = torch.randn(5, 64)
    for one in (layer, reference):
        one(x).square().sum().backward()
    assert_same(layer(x), reference(x))
    for name, parameter in layer.named_parameters():
        assert_same(parameter.grad, reference.get_parameter(name).grad)


def test_weights_travel_with_the_focus() -> None:
    layer = AnchoredLinear(31, 1, taps=9, mu=0.4, sigma=0.1, dtype=torch.float64)
    before = layer.effective_weight().detach()
    with torch.no_grad():
        layer.mu += 0.1  # three inputs
    after = layer.effective_weight().detach()
    torch.testing.assert_close(after[:, 6:], before[:, 3:-3], rtol=1e-6, atol=1e-9)


def test_initial_norm_matches_a_focused_layer() -> None:
    torch.manual_seed(0)
    options: Any = {"topology": (12, 12), "sigma": 0.15}
    anchored = AnchoredLinear(144, 400, taps=9, **options).effective_weight()
    focused = FocusedLinear(144, 400, **options).effective_weight()
    powers = (weight.square().sum(1).mean().item() for weight in (anchored, focused))
    assert next(powers) == pytest.approx(next(powers), rel=0.05)


def test_it_stores_taps() -> None:
    layer = AnchoredLinear(144, 10, taps=5, topology=(12, 12), sigma=0.15)
    assert [*layer.state_dict()] == ["taps", "bias", "mu", "sigma"]
    assert layer.taps.shape == (10, 5, 5, 1)
    assert repr(layer).endswith("taps=5, reach=2.5)")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"taps": 1}, "taps=1 must be at least 2."),
        ({"taps": 0}, "taps=0 must be a positive integer."),
        ({"reach": 0.0}, "reach=0.0 must be positive."),
        ({"topology": torch.rand(6, 2)}, "anchored weights need a regular topology"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        AnchoredLinear(6, 3, **options)
