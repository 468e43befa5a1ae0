"""The Triton kernels, on a GPU or in the interpreter, and compiled for four kinds of GPUs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import launches
from focusing import FocusedLinear
from focusing.nn import ops
from tests.unit.nn.oracle import NORMALIZERS, assert_same, derivatives, measured

gpu = pytest.importorskip("focusing.nn.ops.gpu", reason="Triton is not installed")
DEVICE = "cpu" if gpu.INTERPRETED else "cuda"
ROOT = Path(__file__).parents[3]
TOLERANCES = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
SHAPES = [None, None, (5, 7), (6, 4, 3), (3, 4, 2)]
FOCI = {  # centre, aperture
    "usual": (0.4, 0.1),
    "between inputs": (0.37, 0.001),
    "wide": (0.6, 8.0),
    "outside": (1.5, 0.05),
    "far away": (-80.0, 0.9),
}


def make_layer(inputs: int, neurons: int, backend: str = "triton", **options: Any) -> FocusedLinear:
    torch.manual_seed(0)
    return FocusedLinear(inputs, neurons, backend=backend, device=DEVICE, **options)


def results(layer: FocusedLinear, x: torch.Tensor) -> list[torch.Tensor]:
    """Output, and the gradients of the input and of all parameters."""
    y = layer(x)
    return [y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])]


class Names(TorchDispatchMode):
    """Records the names of all operations."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


@settings(max_examples=25, deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    inputs=st.one_of(st.integers(1, 600), st.sampled_from([1023, 1024, 5000])),
    neurons=st.integers(1, 3),
    foci=st.lists(st.sampled_from(list(FOCI)), min_size=3, max_size=3),
    normalizer=st.sampled_from(NORMALIZERS),
    dtype=st.sampled_from(list(TOLERANCES)),
    pruned=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_kernels_match_the_oracle(
    shape: tuple[int, ...] | None,
    inputs: int,
    neurons: int,
    foci: list[str],
    normalizer: str,
    dtype: torch.dtype,
    pruned: bool,
    seed: int,
) -> None:
    inputs = inputs if shape is None else int(torch.tensor(shape).prod())
    layer = make_layer(inputs, neurons, topology=shape, normalizer=normalizer, dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        chosen = torch.tensor([FOCI[name] for name in foci[:neurons]])
        layer.mu.copy_(chosen[:, :1].expand(layer.mu.shape))
        layer.sigma.copy_(chosen[:, 1:].expand(layer.sigma.shape))
        layer.weight.normal_()
        if pruned:
            layer.mask = torch.rand(neurons, inputs, generator=generator).to(DEVICE) < 0.6
    x = torch.randn(inputs, 4, generator=generator).to(DEVICE, dtype).t().requires_grad_()
    grad_y = torch.randn(4, neurons, generator=generator).to(DEVICE, dtype)
    expected = derivatives(layer, x, grad_y)
    expected.check(measured(layer, x, grad_y), TOLERANCES[dtype], f"{foci[:neurons]}")


class Transposed(torch.nn.Module):
    """Makes a weight that is not contiguous."""

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.t().contiguous().t()


@pytest.mark.parametrize("contiguous", [True, False])
def test_many_rows_match_the_reference(contiguous: bool) -> None:
    x = torch.randn(2, 3, device=DEVICE, requires_grad=True)
    layers = [make_layer(3, 20, backend, sigma=(0.1, 1.0)) for backend in ("triton", "reference")]
    if not contiguous:
        for layer in layers:
            parametrize.register_parametrization(layer, "weight", Transposed())
    assert_same(*(results(layer, x) for layer in layers))


def test_a_step_is_that_of_a_dense_layer_and_two_kernels() -> None:
    dense, *rows = launches.measure()
    kernels = [row for row in rows if row["engine"] == "triton"]
    assert [row["d"] for row in kernels] == [1, 2]
    for row in kernels:
        assert row["layer_operations"] == dense["layer_operations"] + 2
        assert row["network_operations"] == dense["network_operations"] + 4
        assert row["layer_passes"] == 8
        assert launches.meets_goals(row, dense)
    assert not any(launches.meets_goals(row, dense) for row in rows if row["engine"] != "triton")


def test_auto_uses_triton_on_gpus_only() -> None:
    layer = make_layer(20, 3, "auto")
    with Names() as run:
        layer(torch.randn(5, 20, device=DEVICE))
    assert ("focusing::effective_weight" in run.names) == (DEVICE != "cpu")
    assert ops.triton_runs_on(DEVICE)
    assert ("triton" in ops.available_backends(DEVICE)) == (DEVICE != "cpu")


def test_unsupported_inputs_use_another_engine() -> None:
    layer = make_layer(20, 3, dtype=torch.float64)
    x = torch.randn(5, 20, device=DEVICE, dtype=torch.float64)
    with Names() as run:
        layer(x)
        make_layer(20, 3, focus="triangle")(x.float())
    assert "focusing::effective_weight" not in run.names
    grad_y = torch.ones(5, 3, device=DEVICE, dtype=torch.float64)
    derivatives(layer, x, grad_y).check(measured(layer, x, grad_y), 1e-10, "float64")


def test_torch_engine_where_triton_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(kind: str) -> None:
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(gpu, "launch_once", fail)
    ops._triton_runs_on.cache_clear()
    with pytest.warns(UserWarning, match="no C compiler"):
        assert not ops.triton_runs_on("xpu")
    ops._triton_runs_on.cache_clear()


def test_autocast() -> None:
    layer = make_layer(40, 3, sigma=0.1)
    x = torch.randn(5, 40, device=DEVICE, requires_grad=True)
    inputs = {"x": x, **dict(layer.named_parameters())}
    with torch.autocast(DEVICE, torch.bfloat16), Names() as run:
        y = layer(x)
    assert y.dtype == torch.bfloat16
    assert run.names.count("aten::_to_copy") == 2  # x and bias; the kernel writes bfloat16 itself
    grads = torch.autograd.grad(y, inputs.values(), torch.ones_like(y))
    exact = torch.autograd.grad(layer(x).sum(), inputs.values())
    for name, grad, other in zip(inputs, grads, exact, strict=True):
        assert grad.dtype == torch.float32
        assert (grad - other).norm() < 0.03 * other.norm(), name


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, inside the interpreter
@pytest.mark.parametrize("name", ["mu", "sigma"])
@pytest.mark.parametrize("bits", [0, 0x7F800001, 0x7FC00000, 0x7F800000, 0x00000001])
def test_foci_with_any_bit_pattern(name: str, bits: int) -> None:
    layer = make_layer(20, 1)
    with torch.no_grad():
        getattr(layer, name).view(torch.int32).fill_(bits)
    y = layer(torch.ones(2, 20, device=DEVICE))
    y.sum().backward()
    assert y.isnan().all() or bits != 0x7FC00000


@pytest.mark.parametrize("watched", [False, True])
def test_second_derivatives_match_the_reference(watched: bool) -> None:
    x = torch.randn(3, 20, device=DEVICE, requires_grad=True)
    seconds = []
    for backend in ("triton", "reference"):
        layer = make_layer(20, 2, backend, sigma=0.1)
        inputs = [x, layer.weight, layer.mu, layer.sigma]
        with Names() if watched else torch.enable_grad():
            loss = layer(x).square().sum()
            grads = torch.autograd.grad(loss, inputs, create_graph=True)
        seconds.append(torch.autograd.grad(sum(g.square().sum() for g in grads), inputs))
    assert_same(*seconds)


def test_compile_uses_kernels_and_export_plain_operations() -> None:
    layer = make_layer(20, 2, sigma=0.1)
    x = torch.randn(5, 20, device=DEVICE, requires_grad=True)
    graphs = []

    def keep(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph

    torch.compile(layer, fullgraph=True, backend=keep)(x)
    targets = [str(node.target) for node in graphs[0].graph.nodes if node.op == "call_function"]
    assert "focusing.effective_weight.default" in targets
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert_same(results(compiled, x), results(layer, x))
    program = torch.export.export(layer, (x,))
    assert "focusing" not in str(program.graph)
    assert_same(program.module()(x), layer(x))
    parameters = dict(layer.named_parameters())
    grads = torch.func.grad(
        lambda parameters: torch.func.functional_call(layer, parameters, (x,)).square().sum()
    )(parameters)
    assert_same(list(grads.values()), results(layer, x)[2:])


@pytest.mark.skipif(sys.platform != "linux", reason="ptxas and LLVM for AMD come with Linux wheels")
def test_compiled_kernels_do_not_spill() -> None:
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.unit.nn.compile_kernels"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *rows, written = map(json.loads, done.stdout.splitlines())
    assert {row["target"] for row in rows} == {"sm_75", "sm_80", "sm_90", "gfx942"}
    for row in rows:
        assert row["spilled"] == 0, row
        assert row["shared"] <= 2048, row
        assert row["registers"] <= 128, row  # of 255: 512 threads or more on a multiprocessor
    assert written == [["product"], ["grad_weight", "grad_mu", "grad_sigma"]]
