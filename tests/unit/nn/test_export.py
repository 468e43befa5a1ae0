"""Compiled, exported and traced, the layer computes what it computes in eager mode."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from focusing import FocusedLinear
from tests.unit.nn.oracle import assert_same


@pytest.mark.parametrize("focus", ["gaussian", "triangle"])
def test_compile(focus: str) -> None:
    layer = FocusedLinear(24, 10, focus=focus, sigma=0.3)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    check_compiled(layer, compiled)


@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() == "DEFAULT",
    reason="inductor writes vector instructions whatever ATEN_CPU_CAPABILITY says",
)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own
def test_compile_with_inductor() -> None:
    layer, x = FocusedLinear(24, 10, sigma=0.1), torch.randn(5, 24)
    with torch.no_grad():  # gradients are those of aot_eager, which is much faster
        assert_same(torch.compile(layer, fullgraph=True)(x), layer(x))


def check_compiled(layer: FocusedLinear, compiled: Any) -> None:
    x = torch.randn(5, 24)
    found = []
    for function in (layer, compiled):
        layer.zero_grad()
        y = function(x)
        y.square().sum().backward()
        found.append([y.detach(), *(value.grad for value in layer.parameters())])
    assert_same(found[0], found[1])


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_export(strict: bool, pruned: bool) -> None:
    layer = FocusedLinear(24, 10, sigma=0.1).eval()
    if pruned:
        layer.prune(0.5)
    batch = {0: torch.export.Dim("batch")}
    program = torch.export.export(
        layer, (torch.randn(5, 24),), dynamic_shapes=(batch,), strict=strict
    )
    for rows in (2, 9):
        x = torch.randn(rows, 24)
        assert_same(program.module()(x), layer(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # sizes are constants
def test_jit_trace() -> None:
    layer = FocusedLinear(24, 10, sigma=0.1).eval()
    traced = torch.jit.trace(layer, torch.randn(5, 24))
    x = torch.randn(9, 24)
    assert_same(traced(x), layer(x))


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch's own
@pytest.mark.parametrize("banded", [False, True])
def test_onnx(tmp_path: Path, banded: bool) -> None:
    pytest.importorskip("onnxscript", reason="needs the extra focusing[export]")
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra focusing[export]")
    layer = FocusedLinear(24, 10, topology=(4, 6), sigma=0.2).eval()
    layer.prune(0.3)
    network = nn.Sequential(layer.banded() if banded else layer, nn.ReLU()).eval()
    path = tmp_path / "layer.onnx"
    torch.onnx.export(
        network,
        (torch.randn(5, 24),),
        path,
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        verbose=False,
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    for rows in (1, 8):
        x = torch.randn(rows, 24)
        (found,) = session.run(None, {name: x.numpy()})
        np.testing.assert_allclose(found, network(x).detach(), rtol=1e-4, atol=1e-5)
