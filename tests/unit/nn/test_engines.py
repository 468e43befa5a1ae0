"""All engines match the oracle, whatever the foci do."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import layer as benchmark
from focusing import FocusedLinear
from focusing.nn.ops import available_backends
from tests.unit.nn.oracle import (
    BACKENDS,
    GRIDS,
    NORMALIZERS,
    TINY,
    derivatives,
    measured,
)

SHAPES = {1: [1, 2, 4, 17, 33, 100], 2: [(5, 5), (3, 12), (6, 6, 3)], 3: [(3, 4, 2), (4, 4, 5)]}
TENSORS = ("ascending", "descending", "scattered", "equal")
MUS = ("random", "sorted", "reversed", "equal", "borders", "outside", "clusters")
SIGMAS = ("hundredfold", "two", "narrow", "usual", "wide")
every_backend = pytest.mark.parametrize("backend", BACKENDS)


def make_topology(kind: Any, axes: int, seed: torch.Generator) -> tuple[int, Any]:
    """Number of inputs and topology."""
    if kind not in TENSORS:
        return (kind, None) if isinstance(kind, int) else (math.prod(kind), kind)
    tau = torch.rand(41, axes, generator=seed, dtype=torch.float64)
    if kind in ("ascending", "descending"):
        tau = tau[tau[:, 0].argsort(descending=kind == "descending")]
    return 41, torch.full_like(tau, 0.5) if kind == "equal" else tau


def set_foci(layer: FocusedLinear, mu: str, sigma: str, seed: torch.Generator) -> None:
    """Move the foci as an optimizer step could move them."""
    shape = layer.mu.shape
    place = torch.rand(shape, generator=seed, dtype=torch.float64)
    width = torch.rand(shape, generator=seed, dtype=torch.float64)
    mus = {
        "random": lambda: place,
        "sorted": lambda: place.sort(0).values,
        "reversed": lambda: place.sort(0, descending=True).values,
        "equal": lambda: place[:1].expand(shape),
        "borders": lambda: place.round(),
        "outside": lambda: 4 * place - 1.5,
        "clusters": lambda: (place * 3).round() / 3 + width / 1000,
    }
    sigmas = {
        "hundredfold": lambda: 0.01 * 100**width,
        "two": lambda: torch.where(width < 0.2, 1.0, 0.01),
        "narrow": lambda: torch.full(shape, 0.01),
        "usual": lambda: 0.02 + width / 5,
        "wide": lambda: 1 + 9 * width,
    }
    with torch.no_grad():
        layer.mu.copy_(mus[mu]())
        layer.sigma.copy_(sigmas[sigma]())


@st.composite
def topologies(draw: st.DrawFn) -> tuple[int, Any]:
    axes = draw(st.sampled_from([1, 1, 2, 3]))
    return axes, draw(st.sampled_from([*SHAPES[axes], *TENSORS]))


@settings(max_examples=60)
@given(
    topology=topologies(),
    foci=st.sampled_from([1, 3, 20, 37, 130]),
    units=st.sampled_from([1, 1, 2, 3]),
    batch=st.sampled_from([0, 1, 4]),
    moves=st.lists(
        st.tuples(st.sampled_from(MUS), st.sampled_from(SIGMAS)), min_size=1, max_size=4
    ),
    normalizer=st.sampled_from(NORMALIZERS),
    grid=st.sampled_from(GRIDS),
    flags=st.fixed_dictionaries(
        {name: st.booleans() for name in ("bias", "train_mu", "train_sigma")}
    ),
    pruned=st.sampled_from([None, None, 0.5, 1.2]),
    x_has_grad=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_engines_match_the_oracle_in_float64(
    topology: tuple[int, Any],
    foci: int,
    units: int,
    batch: int,
    moves: list[tuple[str, str]],
    normalizer: str,
    grid: str,
    flags: dict[str, bool],
    pruned: float | None,
    x_has_grad: bool,
    seed: int,
    device: torch.device,
) -> None:
    generator, neurons = torch.Generator().manual_seed(seed), units * foci
    inputs, shape = make_topology(topology[1], topology[0], generator)
    x = torch.randn(batch, inputs, generator=generator, dtype=torch.float64).to(device)
    x.requires_grad_(x_has_grad)
    grad_y = torch.randn(batch, neurons, generator=generator, dtype=torch.float64).to(device)
    weight = torch.randn(neurons, inputs, generator=generator, dtype=torch.float64)
    grid = "linspace" if isinstance(shape, torch.Tensor) else grid
    options: Any = {"topology": shape, "grid": grid, "units_per_focus": units, **flags}
    options |= {"normalizer": normalizer, "dtype": torch.float64, "device": device}
    for backend in BACKENDS:
        layer = FocusedLinear(inputs, neurons, backend=backend, cutoff=TINY, **options)
        with torch.no_grad():
            layer.weight.copy_(weight)
            if layer.bias is not None:
                layer.bias.copy_(torch.randn(neurons, generator=generator))
        generator.manual_seed(seed)
        for step, (mu, sigma) in enumerate(moves):  # one layer, which must not use stale plans
            set_foci(layer, mu, sigma, generator)
            if pruned is not None:
                layer.prune(pruned)
            expected = derivatives(layer, x, grad_y)
            expected.check(measured(layer, x, grad_y), 1e-9, f"{backend}, step {step}")


LARGE = [  # several slabs, and large enough for bands with backend="auto"
    (130, 300, None),
    (900, 37, (30, 30)),
    (300, 130, (10, 10, 3)),
    (512, 67, (8, 8, 8)),
    (257, 200, "ascending"),
    (257, 200, "descending"),
    (257, 200, "scattered"),
]


LARGE_FOCI = [("random", "hundredfold"), ("sorted", "narrow"), ("borders", "usual")]
LARGE_FOCI += [("random", "two")]


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_large_layers_agree_in_float32(
    shape: tuple[int, int, Any], normalizer: str, device: torch.device
) -> None:
    inputs, neurons, topology = shape
    generator = torch.Generator().manual_seed(7)
    if isinstance(topology, str):
        tau = torch.rand(inputs, 1, generator=generator)
        if topology != "scattered":
            tau = tau.sort(0, descending=topology == "descending").values
        topology = tau
    x = torch.randn(9, inputs, generator=generator).to(device).requires_grad_()
    grad_y = torch.randn(9, neurons, generator=generator).to(device)
    options: Any = {"topology": topology, "normalizer": normalizer, "device": device}
    for mu, sigma in LARGE_FOCI:
        expected = None
        for backend in (*BACKENDS, "auto"):  # with the default cutoff
            torch.manual_seed(1)
            layer = FocusedLinear(inputs, neurons, backend=backend, **options)
            set_foci(layer, mu, sigma, generator.manual_seed(3))
            if mu == "sorted":
                layer.prune(0.8)
            expected = expected or derivatives(layer, x, grad_y)
            expected.check(measured(layer, x, grad_y), 1e-4, f"{backend}, mu {mu}")


@pytest.mark.parametrize("normalizer", ["l2", "sum", "mean"])
@every_backend
@pytest.mark.usefixtures("strays_fail")
def test_foci_that_see_no_input_stay_finite(
    backend: str, normalizer: str, device: torch.device, dtype: torch.dtype
) -> None:
    factory: Any = {"device": device, "dtype": dtype}
    for mu, sigma in ((1 / 6, 0.01), (0.5, 0.01), (0.4, 0.001), (5.0, 0.01), (-80.0, 0.9)):
        layer = FocusedLinear(4, 20, normalizer=normalizer, backend=backend, **factory)
        with torch.no_grad():
            layer.mu.fill_(mu)
            layer.sigma.fill_(sigma)
        norm = layer.phi().norm(dim=1) if normalizer == "l2" else layer.phi().sum(1)
        whole = 4.0 if normalizer == "mean" else 2.0
        torch.testing.assert_close(norm, torch.full((20,), whole, **factory))
        results = measured(layer, torch.randn(3, 4, **factory), torch.randn(3, 20, **factory))
        for name, value in results.items():
            assert value.isfinite().all(), name
        nearest = (layer.tau[:, 0] - mu).abs().argmin()
        assert (layer.phi()[:, nearest] == layer.phi().amax(1)).all()


@every_backend
@pytest.mark.usefixtures("strays_fail")
def test_any_parameter_may_be_frozen(backend: str, device: torch.device) -> None:
    names = ["x", "weight", "bias", "mu", "sigma"]
    grad_y = torch.randn(3, 260, device=device)
    layer = FocusedLinear(130, 260, sigma=0.1, backend=backend, device=device)
    for trained in range(2 ** len(names)):
        trainable = {name for bit, name in enumerate(names) if trained >> bit & 1}
        x = torch.randn(3, 130, device=device, requires_grad="x" in trainable)
        for name, parameter in layer.named_parameters():
            parameter.requires_grad_(name in trainable)
            parameter.grad = None
        results = measured(layer, x, grad_y)
        assert set(results) == {"y", *trainable}
        derivatives(layer, x, grad_y).check(results, 1e-4, f"{backend}, {trainable}")


def test_phi_has_no_denormals() -> None:
    smallest = torch.finfo(torch.float32).tiny
    for normalizer in NORMALIZERS:
        phi = FocusedLinear(784, 20, sigma=0.025, normalizer=normalizer).phi().abs()
        assert ((phi == 0) | (phi >= smallest)).all()
        assert phi.amin() < 1e-10


@every_backend
@pytest.mark.parametrize("name", ["mu", "sigma"])
def test_foci_with_any_bit_pattern(name: str, backend: str) -> None:
    """Diverged foci are NaN; uninitialised ones have any bits, such as a signalling NaN."""
    layer, x = FocusedLinear(200, 300, backend=backend), torch.ones(2, 200)
    for bits in (0, 0x7F800001, 0x7FC00000, 0x7F800000, 0x00000001):
        with torch.no_grad():
            getattr(layer, name).view(torch.int32).fill_(bits)
        y = layer(x)
        y.sum().backward()
        assert layer.mu.grad is not None
        assert y.isnan().all() or bits != 0x7FC00000


@every_backend
@pytest.mark.usefixtures("strays_fail")
def test_dtype_may_change_after_the_first_call(backend: str, device: torch.device) -> None:
    layer = FocusedLinear(200, 200, sigma=0.05, backend=backend, cutoff=TINY, device=device)
    layer(torch.randn(2, 200, device=device))
    layer.double()
    x, grad_y = (torch.randn(3, 200, device=device).double() for _ in range(2))
    derivatives(layer, x, grad_y).check(measured(layer, x, grad_y), 1e-10, backend)


@pytest.mark.parametrize(("former", "name"), [("fused", "numba"), ("banded", "numba_banded")])
def test_backend_aliases(former: str, name: str) -> None:
    assert FocusedLinear(4, 2, backend=former).backend == name


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_distant_foci_are_exact_in_float32(normalizer: str) -> None:
    """Up to 16 standard deviations outside, distances from the nearest input keep all digits."""
    results = []
    for dtype, backend in ((torch.float32, "numba"), (torch.float64, "reference")):
        layer = FocusedLinear(
            64, 3, mu_range=(0, 2), normalizer=normalizer, dtype=dtype, backend=backend
        )
        with torch.no_grad():
            layer.mu.fill_(1.5)
            layer.sigma.copy_(torch.tensor([[0.03125], [0.0625], [0.5]]))  # exact in both
            layer.weight.copy_(torch.linspace(-1, 1, 192).view(3, 64))
        y = layer(torch.linspace(0, 1, 64, dtype=dtype)[None])
        trainable = [layer.weight, layer.mu, layer.sigma]
        results.append([y, *torch.autograd.grad(y.sum(), trainable)])
    for single, double in zip(*results, strict=True):
        scale = double.abs().amax(-1, keepdim=True)
        assert ((single - double).abs() <= 3e-5 * scale + 1e-12).all()


def test_available_backends() -> None:
    assert set(BACKENDS) <= set(available_backends("cpu"))
    assert "numba" not in available_backends("meta")
    assert available_backends(torch.device("meta"))[-1] == "reference"


def test_the_benchmark_measures_every_backend() -> None:
    rows = list(benchmark.measure((40, 4, 16), 0.1, rounds=2, seconds=0.0))
    assert {"auto", *BACKENDS} == {row["backend"] for row in rows}
    assert all(row["memory_ratio"] > 0 for row in rows)
