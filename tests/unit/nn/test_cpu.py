"""The CPU engine: plans, bands, memory, compilation, and what happens without numba."""

import copy
import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any

import numba
import pytest
import torch
from numba.core.caching import IndexDataCacheFile

from focusing import FocusedLinear
from focusing.nn.ops import kernels
from focusing.nn.ops.cpu import on_first_compile
from tests.unit.nn.oracle import (
    FAST_BACKENDS,
    Result,
    assert_same,
    derivatives,
    measured,
)

# Pairs of mu and sigma, inside, at the border and far outside.
MOVES = [(0.5, 0.3), (0.9, 0.3), (10.0, 0.3), (0.1, 0.02), (0.4, 0.01), (-3.0, 0.05)]
MOVES += [(0.98, 0.02), (2.5, 0.2), (0.02, 0.01), (0.02, 1.0)]


@pytest.mark.parametrize("topology", [None, (8, 16)])
@pytest.mark.parametrize("backend", FAST_BACKENDS)
def test_stale_plans_are_not_used(backend: str, topology: Any) -> None:
    layer = FocusedLinear(128, 260, topology=topology, backend=backend)
    x, grad_y = torch.randn(4, 128, requires_grad=True), torch.randn(4, 260)
    expected: dict[tuple[float, float], Result] = {}
    for start, end in combinations(MOVES, 2):
        for mu, sigma in (start, end, start):
            with torch.no_grad():
                layer.mu.copy_(torch.linspace(mu - 0.1, mu + 0.1, 260)[:, None])
                layer.sigma.fill_(sigma)
            if (mu, sigma) not in expected:
                expected[mu, sigma] = derivatives(layer, x, grad_y)
            results, title = measured(layer, x, grad_y), f"between {start} and {end}"
            expected[mu, sigma].check(results, 2e-4, title)


def test_the_nearest_input_may_be_far_along_the_first_axis() -> None:
    """Of scattered positions in a plane, the nearest may be far away along one axis."""
    line = torch.linspace(0, 1, 100)
    tau = torch.stack([line, torch.where(line < 0.5, 1.0, 0.0)], 1)
    x, grad_y = torch.randn(4, 100), torch.randn(4, 40)
    mu = torch.tensor([[0.1, 0.0]] * 40)
    layer = FocusedLinear(100, 40, topology=tau, mu=mu, sigma=0.05, backend="numba_banded")
    derivatives(layer, x, grad_y).check(measured(layer, x, grad_y), 1e-4, "banded")


@pytest.mark.parametrize("foci", [{"sigma": 0.01}, {"mu": 1.2, "sigma": 0.01}], ids=str)
def test_a_new_plan_after_foci_have_diverged(foci: dict[str, float]) -> None:
    options: Any = {"mu_range": (0.0, 2.0), **foci}
    layer, x = FocusedLinear(400, 160, **options), torch.randn(8, 400)
    kept = copy.deepcopy(layer.state_dict())
    expected = FocusedLinear(400, 160, backend="reference", **options)
    expected.load_state_dict(kept)
    with torch.no_grad():
        layer.mu.fill_(torch.nan)
        assert layer(x).isnan().all()
        layer.load_state_dict(kept)
        assert_same(layer(x), expected(x))


def trained_connections(layer: FocusedLinear) -> torch.Tensor:
    x = torch.ones(2, layer.in_features)
    (gradient,) = torch.autograd.grad(layer(x).sum(), layer.weight)
    return gradient != 0


def test_bands_skip_only_inputs_below_the_cutoff() -> None:
    for cutoff in (1e-7, 1e-3):
        layer = FocusedLinear(784, 400, backend="numba_banded", cutoff=cutoff)
        phi, trained = layer.phi(), trained_connections(layer)
        needed = phi >= cutoff * phi.amax(1, keepdim=True)
        assert trained[needed].all()
        assert trained.float().mean() < needed.float().mean() + 0.25  # whole slabs
    layer = FocusedLinear(4000, 100, mu=0.5, sigma=0.02, backend="numba_banded")
    phi = layer.phi()[0]
    seen = phi[trained_connections(layer)[0]] / phi.max()
    assert 2e-8 < seen.min() <= 1e-7  # the default, up to a block of inputs


def test_auto_uses_bands_only_while_foci_are_narrow() -> None:
    layer = FocusedLinear(784, 800, sigma=0.025)
    assert trained_connections(layer).float().mean() < 0.6
    with torch.no_grad():
        layer.sigma.fill_(0.5)
    assert trained_connections(layer).all()
    with torch.no_grad():
        layer.sigma.fill_(0.01)
    assert trained_connections(layer).float().mean() < 0.4


def test_steps_do_not_depend_on_earlier_ones() -> None:
    """A resumed run has a new engine and must get the same bits: plans depend on the foci alone."""
    layer, x = FocusedLinear(784, 800, sigma=0.025), torch.randn(8, 784)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for step in range(6):
        resumed = copy.deepcopy(layer)  # without the engine
        if step % 2:
            layer(x)  # as an evaluation between two steps
        outputs = [net(x) for net in (layer, resumed)]
        assert torch.equal(*outputs)
        gradients = [torch.autograd.grad(y.square().sum(), net.parameters())
                     for y, net in zip(outputs, (layer, resumed), strict=True)]  # fmt: skip
        assert all(map(torch.equal, *gradients))
        layer.zero_grad()
        layer(x).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_concurrent_graphs_do_not_share_memory(sigma: float) -> None:
    """A layer used twice, and a graph used twice."""
    layer = FocusedLinear(300, 200, sigma=sigma)
    inputs = [torch.randn(4, 300) for _ in range(2)]
    expected = [torch.autograd.grad(layer(x).square().sum(), layer.mu)[0] for x in inputs]
    losses = []
    for x in inputs:
        losses.append(layer(x).square().sum())
        with torch.no_grad():
            layer(torch.randn(9, 300))
    for _ in range(2):
        for loss, gradient in zip(losses, expected, strict=True):
            again = torch.autograd.grad(loss, layer.mu, retain_graph=True)[0]
            assert torch.equal(again, gradient)


def test_training_reuses_its_buffer() -> None:
    layer = FocusedLinear(300, 200, sigma=0.3)
    places = set()
    for _ in range(4):
        loss = layer(torch.randn(4, 300)).sum()
        loss.backward()  # the graph stays alive until the next step
        assert layer._cpu_engine is not None
        places.add(layer._cpu_engine.pool._free[0].ctypes.data)
    assert len(places) == 1


@pytest.mark.parametrize("hide", [torch.detach, lambda t: t.view_as(t), lambda t: t.data])
def test_saved_tensor_hooks_may_keep_aliases(hide: Any) -> None:
    layer = FocusedLinear(300, 200, sigma=0.3)
    x = torch.randn(4, 300, requires_grad=True)
    expected = torch.autograd.grad(layer(x).square().sum(), x)[0]
    with torch.autograd.graph.saved_tensors_hooks(hide, lambda t: t):
        loss = layer(x).square().sum()
    torch.func.functional_call(layer, {"mu": layer.mu.detach() + 0.3}, (x.detach(),))
    assert torch.equal(torch.autograd.grad(loss, x)[0], expected)


def test_storages_may_move_to_shared_memory() -> None:
    """As when a layer is sent to another process."""
    layer = FocusedLinear(300, 200, sigma=0.02)
    torch.nn.init.normal_(layer.bias)
    layer.prune(0.5)
    x, grad = torch.randn(4, 300), torch.randn(4, 200)
    y = layer(x)
    expected = torch.autograd.grad(y, layer.mu, grad, retain_graph=True)[0]
    banded = layer.banded()
    with torch.no_grad():
        banded(x[:1])
    for module in (layer, banded):
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.untyped_storage()._share_filename_cpu_()
    junk = [torch.full((size,), torch.nan) for size in (200, 300, 60_000) for _ in range(50)]
    assert torch.equal(torch.autograd.grad(y, layer.mu, grad)[0], expected)
    assert torch.equal(layer(x), y)
    with torch.no_grad():
        assert_same(banded(x[:1]), y[:1])
    assert junk


@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_threads_may_share_a_layer(sigma: float) -> None:
    layer, inputs = FocusedLinear(300, 200, sigma=sigma).eval(), torch.randn(4, 50, 16, 300)

    @torch.no_grad()
    def outputs(batches: torch.Tensor) -> list[torch.Tensor]:
        return [layer(x) for x in batches]

    expected = [outputs(batches) for batches in inputs]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(outputs, inputs))
    finally:
        sys.setswitchinterval(interval)
    for one, other in zip(results, expected, strict=True):
        assert torch.equal(torch.stack(one), torch.stack(other))


def test_a_missing_cache_folder_is_no_error() -> None:
    """As in a container with a read-only home directory."""
    loop = eval("lambda x: x + 1")  # noqa: S307 - a function without a file cannot be cached
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(loop)
    assert kernels.cached_jit(loop)(1) == 2


def add_two(x):
    return x + 2


def test_a_full_disk_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(IndexDataCacheFile, "_save_data", fail)
    assert kernels.cached_jit(add_two)(1) == 3
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    monkeypatch.undo()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert kernels.cached_jit(add_two)(1) == 3
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".nbi", ".nbc"}


WITHOUT_NUMBA = """
import sys
if sys.argv[1] == "missing":
    sys.modules["numba"] = sys.modules["llvmlite"] = sys.modules["triton"] = None
import torch
from focusing import FocusConstraint, FocusedLinear, param_groups, to_inference
from focusing.nn.ops import available_backends, cpu
assert not cpu.AVAILABLE
assert not sys.modules.get("triton")  # it takes long to import
net = torch.nn.Sequential(FocusedLinear(300, 200, backend="numba"), torch.nn.Linear(200, 3))
optimizer = torch.optim.SGD(param_groups(net, lr=0.01, lr_mu=0.001))
FocusConstraint(net, optimizer)
x, y = torch.randn(64, 300), torch.randint(3, (64,))
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.8 * losses[0], losses
net[0].prune(1.0)
fast = to_inference(net.eval(), sparse=True)
assert "BandedLinear" in repr(fast)
torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
net[0].backend = "triton"  # not installed either
torch.testing.assert_close(net(x), fast(x), rtol=1e-4, atol=1e-4)
assert available_backends("cpu") == ["torch", "reference"]
print("done")
"""


@pytest.mark.parametrize("numba", ["missing", "disabled"])
def test_torch_engine_without_numba_and_triton(numba: str) -> None:
    environment = os.environ | ({"NUMBA_DISABLE_JIT": "1"} if numba == "disabled" else {})
    command = [sys.executable, "-c", WITHOUT_NUMBA, numba]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.stdout == "done\n", result.stderr


def test_first_compile_calls_back_once() -> None:
    calls: list[str] = []
    on_first_compile(lambda: calls.append("compile"))
    loop = numba.njit(lambda x: x + 1)
    assert calls == []
    assert (loop(1), loop(1.0)) == (2, 2.0)  # two types, two compilations
    assert calls == ["compile"]
