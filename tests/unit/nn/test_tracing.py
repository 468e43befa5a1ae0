"""Tracers, fake tensors and forward derivatives meet plain operations."""

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from focusing import FocusedLinear
from tests.unit.nn.oracle import BACKENDS, FOCI, assert_same
from tests.unit.nn.test_interop import LARGE, make


def test_torch_fx_records_calls_of_layers() -> None:
    net = nn.Sequential(make(), nn.Sequential(nn.ReLU(), FocusedLinear(10, 3, sigma=0.1)))
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
def test_torch_fx_looks_into_a_layer_of_its_own(focus: str) -> None:
    layer, x = make(focus=focus).eval(), torch.randn(2, 3, 24)
    layer.prune(0.2)
    traced = torch.fx.symbolic_trace(layer)
    assert_same(traced(x), layer(x))
    traced(x).sum().backward()
    assert all(value.grad is not None for value in layer.parameters())


def test_torch_fx_records_hooks_once() -> None:
    net = nn.Sequential(make(), nn.ReLU())
    net[0].register_forward_hook(lambda *arguments: arguments[-1] + 1)
    x = torch.randn(5, 24)
    found = torch.fx.symbolic_trace(net)(x)
    assert_same(found, net(x))


def test_torch_fx_on_sparse_layers() -> None:
    banded = FocusedLinear(300, 200, sigma=0.02).banded()
    assert len(banded.sizes) > 1
    for net in (banded, nn.Sequential(banded, nn.ReLU())):
        traced = torch.fx.symbolic_trace(net)
        for x in (torch.randn(5, 300), torch.randn(2, 3, 300)):
            assert_same(traced(x), net(x))


@pytest.mark.parametrize("sigma", [0.02, 0.3])
@pytest.mark.parametrize("size", [{"in_features": 9, "out_features": 3}, LARGE], ids=str)
def test_recorded_and_fake_computations(size: dict[str, int], sigma: float) -> None:
    layer = FocusedLinear(**size, sigma=sigma)
    x, other = torch.randn(4, layer.in_features), torch.randn(4, layer.in_features)
    layer(x)
    recorded = make_fx(layer)(x)
    assert_same(recorded(other), layer(other))
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert layer(torch.empty(4, layer.in_features)).shape == (4, layer.out_features)
    assert_same(recorded(other), layer(other))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("backend", BACKENDS)
def test_forward_derivatives(backend: str) -> None:
    layer = make(backend)
    x, tangent = torch.randn(4, 24), torch.randn(4, 24)
    with forward_ad.dual_level():
        y = layer(forward_ad.make_dual(x, tangent))
        found = forward_ad.unpack_dual(y).tangent
    assert_same(found, tangent @ layer.effective_weight().t())
