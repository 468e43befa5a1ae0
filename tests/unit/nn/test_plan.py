"""What a layer remembers of its foci, and what it skips: right while they move."""

import copy
from typing import Any

import pytest
import torch

from focusing import FocusedLinear
from focusing.nn.ops.cpu import PLAN_STEPS
from tests.unit.nn.oracle import (
    BACKENDS,
    NORMALIZERS,
    TINY,
    Result,
    assert_same,
    derivatives,
    measured,
)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize(
    ("inputs", "neurons", "topology"), [(40, 12, None), (128, 260, None), (36, 40, (6, 6))]
)
def test_backends_stay_equal_while_foci_move(
    inputs: int, neurons: int, topology: Any, normalizer: str
) -> None:
    x, target = torch.randn(16, inputs).double(), torch.randn(16, neurons).double()
    ends, starts = [], []
    for backend in BACKENDS:
        torch.manual_seed(0)
        layer = FocusedLinear(
            inputs,
            neurons,
            topology=topology,
            sigma=(0.02, 0.3),
            normalizer=normalizer,
            backend=backend,
            cutoff=TINY,
            dtype=torch.float64,
        )
        starts.append(layer.mu.detach().clone())
        rate = 0.001 if normalizer == "mean" else 0.02  # its phi is large, and diverges soon
        optimizer = torch.optim.SGD(layer.parameters(), lr=rate, momentum=0.9)
        for _ in range(6):
            optimizer.zero_grad()
            (layer(x) - target).square().sum(1).mean().backward()
            optimizer.step()
            layer.constrain_()
        ends.append(layer.state_dict())
    assert (ends[0]["mu"] - starts[0]).abs().max() > 0.1
    for backend, end in zip(BACKENDS[1:], ends[1:], strict=True):
        torch.testing.assert_close(end, ends[0], rtol=1e-6, atol=1e-8, msg=backend)


MOVES = [
    (0.5, 0.3),
    (0.9, 0.3),
    (10.0, 0.3),  # a wild step
    (0.1, 0.02),
    (0.4, 0.01),
    (-3.0, 0.05),
    (0.98, 0.02),
    (2.5, 0.2),  # outside, and wider than before
]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-4), (torch.float64, 1e-6)])
@pytest.mark.parametrize("topology", [None, (8, 16)])
@pytest.mark.parametrize("backend", ["numba", "numba_banded", "auto"])
def test_nothing_remembered_of_former_foci_misleads(
    backend: str, topology: Any, dtype: torch.dtype, tolerance: float
) -> None:
    layer = FocusedLinear(128, 260, topology=topology, backend=backend, dtype=dtype)
    x = torch.randn(4, 128, dtype=dtype, requires_grad=True)
    grad_y = torch.randn(4, 260, dtype=dtype)
    expected: dict[tuple[float, float], Result] = {}
    for start in MOVES:
        for end in MOVES:
            for mu, sigma in (start, end):
                with torch.no_grad():
                    layer.mu.copy_(torch.linspace(mu - 0.1, mu + 0.1, 260)[:, None])
                    layer.sigma.fill_(sigma)
                if (mu, sigma) not in expected:
                    expected[mu, sigma] = derivatives(layer, x, grad_y)
                found, title = measured(layer, x, grad_y), f"from {start} to {end}"
                expected[mu, sigma].check(found, tolerance, title)


@pytest.mark.parametrize("mu", [0.02, 0.5, 0.98])
@pytest.mark.parametrize("backend", ["numba", "numba_banded", "auto"])
def test_foci_that_breathe(backend: str, mu: float) -> None:
    """Centres stay, apertures change: near a border, on one side only."""
    layer = FocusedLinear(256, 130, mu=mu, backend=backend)
    x, grad_y = torch.randn(4, 256), torch.randn(4, 130)
    for sigma in (0.02, 0.03, 0.06, 0.3, 1.0, 0.3, 0.01, 1.0, 0.01):
        with torch.no_grad():
            layer.sigma.fill_(sigma)
        expected = derivatives(layer, x, grad_y)
        expected.check(measured(layer, x, grad_y), 1e-4, f"sigma {sigma}")


def test_the_nearest_input_may_be_far_along_the_first_axis() -> None:
    """Scattered positions in a plane: an interval of one axis does not hold the nearest input."""
    line = torch.linspace(0, 1, 100)
    tau = torch.stack([line, torch.where(line < 0.5, 1.0, 0.0)], 1)
    x, grad_y = torch.randn(4, 100), torch.randn(4, 40)
    mu = torch.tensor([[0.1, 0.0]] * 40)
    layer = FocusedLinear(100, 40, topology=tau, mu=mu, sigma=0.05, backend="numba_banded")
    derivatives(layer, x, grad_y).check(measured(layer, x, grad_y), 1e-4, "banded")


@pytest.mark.parametrize("backend", ["numba", "numba_banded", "auto"])
def test_slow_drift_over_many_steps(backend: str) -> None:
    """As in training: steps so small that a plan for the last foci nearly fits the next."""
    layer = FocusedLinear(256, 160, sigma=0.03, backend=backend)
    x, grad_y = torch.randn(2, 256), torch.randn(2, 160)
    for step in range(200):
        with torch.no_grad():
            layer.mu += 0.004 * torch.randn(160, 1)
            layer.sigma *= torch.exp(0.05 * torch.randn(160, 1) + 0.005)
            layer.constrain_()
        if step % 5 == 0:
            expected = derivatives(layer, x, grad_y)
            expected.check(measured(layer, x, grad_y), 1e-4, f"step {step}")
        else:
            layer(x)


def trained_connections(layer: FocusedLinear) -> torch.Tensor:
    x = torch.ones(2, layer.in_features)
    (gradient,) = torch.autograd.grad(layer(x).sum(), layer.weight)
    return gradient != 0


def test_banded_skips_only_what_is_below_the_cutoff() -> None:
    for cutoff in (1e-7, 1e-3):
        layer = FocusedLinear(784, 400, backend="numba_banded", cutoff=cutoff)
        phi, trained = layer.phi(), trained_connections(layer)
        needed = phi >= cutoff * phi.amax(1, keepdim=True)
        assert trained[needed].all()
        assert trained.float().mean() < needed.float().mean() + 0.25  # whole tiles


def test_default_cutoff_is_1e_7() -> None:
    layer = FocusedLinear(4000, 100, mu=0.5, sigma=0.02, backend="numba_banded")
    phi = layer.phi()[0]
    seen = phi[trained_connections(layer)[0]] / phi.max()
    assert 2e-8 < seen.min() <= 1e-7  # up to a block of inputs


def test_auto_skips_far_inputs_only_while_foci_are_narrow() -> None:
    layer = FocusedLinear(784, 800, sigma=0.025)
    assert trained_connections(layer).float().mean() < 0.6
    with torch.no_grad():
        layer.sigma.fill_(0.5)
    assert trained_connections(layer).all()
    with torch.no_grad():
        layer.sigma.fill_(0.01)
        for _ in range(PLAN_STEPS):  # it looks again from time to time
            layer(torch.ones(2, 784))
    assert trained_connections(layer).float().mean() < 0.4


def test_small_moves_reuse_the_tiling_and_wear_out() -> None:
    """Planning anew at every step would cost more than the tiles save."""
    layer = FocusedLinear(784, 800, sigma=0.025)
    x = torch.randn(2, 784)
    made = []
    for _ in range(PLAN_STEPS + 2):
        layer(x)
        made.append(layer._cpu_engine._band)
        with torch.no_grad():
            layer.mu.add_(1e-6)
    assert len({id(each) for each in made}) == 2
    assert made[0] is made[PLAN_STEPS]


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("topology", [None, (20, 20)])
def test_a_few_narrow_foci_among_wide_ones_are_as_exact(normalizer: str, topology: Any) -> None:
    torch.manual_seed(0)
    layers = [
        FocusedLinear(400, 160, topology=topology, normalizer=normalizer, dtype=dtype, backend=own)
        for own, dtype in (("auto", torch.float32), ("reference", torch.float64))
    ]
    with torch.no_grad():
        layers[0].mu.uniform_()
        layers[0].sigma.uniform_(0.2, 0.4)
        layers[0].sigma[::20] = 0.015
    layers[1].load_state_dict({name: v.double() for name, v in layers[0].state_dict().items()})
    x = torch.randn(16, 400)
    found = []
    for layer in layers:
        y = layer(x.to(layer.weight.dtype))
        found.append([y, *torch.autograd.grad(y.square().sum(), list(layer.parameters()))])
    for fast, exact in zip(*found, strict=True):
        error = (fast.double() - exact).abs().max() / exact.abs().max()
        assert error < 1e-5


@pytest.mark.parametrize("foci", [{"sigma": 0.01}, {"mu": 1.2, "sigma": 0.01}], ids=str)
def test_foci_that_have_diverged_and_come_back_are_planned_anew(foci: dict[str, float]) -> None:
    options = {"mu_range": (0.0, 2.0), **foci}
    layer = FocusedLinear(400, 160, **options)  # type: ignore[arg-type]
    x, kept = torch.randn(8, 400), copy.deepcopy(layer.state_dict())
    expected = FocusedLinear(400, 160, backend="reference", **options)  # type: ignore[arg-type]
    expected.load_state_dict(kept)
    with torch.no_grad():
        layer.mu.fill_(torch.nan)
        assert layer(x).isnan().all()
        layer.load_state_dict(kept)
        assert_same(layer(x), expected(x))
