"""Compilers, exporters and tracers see plain operations with the same results."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from focusing import FocusedLinear
from tests.unit.nn.oracle import FOCI, assert_same


@pytest.mark.parametrize("focus", ["gaussian", "triangle"])
def test_compile(focus: str) -> None:
    layer, x = FocusedLinear(24, 10, focus=focus, sigma=0.3), torch.randn(5, 24)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    results = []
    for function in (layer, compiled):
        layer.zero_grad()
        y = function(x)
        y.square().sum().backward()
        results.append([y.detach(), *(value.grad for value in layer.parameters())])
    assert_same(results[0], results[1])


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict: bool) -> None:
    layer = FocusedLinear(24, 10, sigma=0.1).eval()
    if strict:
        layer.prune(0.5)
    program = torch.export.export(
        layer,
        (torch.randn(5, 24),),
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        strict=strict,
    )
    for rows in (2, 9):
        x = torch.randn(rows, 24)
        assert_same(program.module()(x), layer(x))


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
        (y,) = session.run(None, {name: x.numpy()})
        np.testing.assert_allclose(y, network(x).detach(), rtol=1e-4, atol=1e-5)


def test_torch_fx_records_layers_as_calls() -> None:
    net = nn.Sequential(FocusedLinear(24, 10), nn.Sequential(nn.ReLU(), FocusedLinear(10, 3)))
    net[0].prune(0.5)
    traced = torch.fx.symbolic_trace(net)
    targets = [node.target for node in traced.graph.nodes if node.op == "call_module"]
    assert targets == ["0", "1.0", "1.1"]
    assert traced.state_dict().keys() == net.state_dict().keys()
    for x in (torch.randn(5, 24), torch.randn(2, 3, 24)):
        assert torch.equal(traced(x), net(x))
    traced.double()(torch.randn(5, 24).double()).sum().backward()
    assert traced.get_submodule("0").mu.grad is not None
    again = torch.fx.symbolic_trace(traced.float())
    assert torch.equal(again(x), net(x))


@pytest.mark.parametrize("focus", FOCI)
def test_torch_fx_traces_a_root_layer(focus: str) -> None:
    layer, x = FocusedLinear(24, 10, focus=focus, sigma=0.1).eval(), torch.randn(2, 3, 24)
    layer.prune(0.2)
    traced = torch.fx.symbolic_trace(layer)
    assert_same(traced(x), layer(x))
    traced(x).sum().backward()
    assert all(value.grad is not None for value in layer.parameters())


def test_torch_fx_on_hooks_and_sparse_layers() -> None:
    hooked = nn.Sequential(FocusedLinear(300, 10), nn.ReLU())
    hooked[0].register_forward_hook(lambda *arguments: arguments[-1] + 1)  # recorded once
    banded = FocusedLinear(300, 200, sigma=0.02).banded()
    assert len(banded.sizes) > 1
    for net in (hooked, banded, nn.Sequential(banded, nn.ReLU())):
        traced = torch.fx.symbolic_trace(net)
        for x in (torch.randn(5, 300), torch.randn(2, 3, 300)):
            assert_same(traced(x), net(x))


@pytest.mark.parametrize("sigma", [0.02, 0.3])
@pytest.mark.parametrize("size", [(9, 3), (300, 200)])
def test_make_fx_and_fake_tensors(size: tuple[int, int], sigma: float) -> None:
    layer = FocusedLinear(*size, sigma=sigma)
    x, other = torch.randn(2, 4, size[0])
    layer(x)
    recorded = make_fx(layer)(x)
    assert_same(recorded(other), layer(other))
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert layer(torch.empty(4, size[0])).shape == (4, size[1])
    assert_same(recorded(other), layer(other))
