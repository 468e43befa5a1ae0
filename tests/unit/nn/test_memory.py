"""Memory that a layer keeps: lent to one graph at a time."""

import sys
import threading
from typing import Any

import numpy as np
import pytest
import torch

from focusing import FocusedLinear
from focusing.nn.ops.cpu import BufferPool
from tests.unit.nn.oracle import assert_same

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def test_memory_comes_back_and_is_not_lent_twice() -> None:
    reserve = BufferPool()
    first, second = reserve.lend(10, SINGLE), reserve.lend(10, SINGLE)
    assert first.data_ptr() != second.data_ptr()
    place = first.data_ptr()
    del first
    assert reserve.lend(8, SINGLE).data_ptr() == place
    assert reserve.lend(8, DOUBLE).dtype == torch.float64
    assert len(reserve.lend(11, SINGLE)) == 11
    assert len(reserve._free) == 1


@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_graphs_that_live_at_once_do_not_share_memory(sigma: float) -> None:
    """A layer used twice, and a graph used twice."""
    torch.manual_seed(0)
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
            found = torch.autograd.grad(loss, layer.mu, retain_graph=True)[0]
            assert torch.equal(found, gradient)


def test_training_uses_the_same_memory_in_each_step() -> None:
    layer = FocusedLinear(300, 200, sigma=0.3)
    places = set()
    for _ in range(4):
        loss = layer(torch.randn(4, 300)).sum()
        loss.backward()  # and the graph lives on into the next step
        assert layer._cpu_engine is not None
        places.add(layer._cpu_engine.pool._free[0].ctypes.data)
    assert len(places) == 1


@pytest.mark.parametrize("hide", [torch.detach, lambda t: t.view_as(t), lambda t: t.data])
def test_hooks_may_keep_other_tensors_of_the_same_memory(hide: Any) -> None:
    layer = FocusedLinear(300, 200, sigma=0.3)
    x = torch.randn(4, 300, requires_grad=True)
    expected = torch.autograd.grad(layer(x).square().sum(), x)[0]
    with torch.autograd.graph.saved_tensors_hooks(hide, lambda t: t):
        loss = layer(x).square().sum()
    torch.func.functional_call(layer, {"mu": layer.mu.detach() + 0.3}, (x.detach(),))
    assert torch.equal(torch.autograd.grad(loss, x)[0], expected)


def test_tensors_may_move_to_shared_memory() -> None:
    """As they do when a layer is sent to another process."""
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
    layer = FocusedLinear(300, 200, sigma=sigma).eval()
    inputs = torch.randn(4, 100, 16, 300)
    with torch.no_grad():
        expected = [[layer(x) for x in own] for own in inputs]
    wrong: list[Any] = []

    def work(own: torch.Tensor, wanted: list[torch.Tensor]) -> None:
        try:
            with torch.no_grad():
                found = [layer(x) for x in own]
            wrong.extend(y for y, z in zip(found, wanted, strict=True) if not torch.equal(y, z))
        except Exception as error:
            wrong.append(error)

    threads = [
        threading.Thread(target=work, args=each) for each in zip(inputs, expected, strict=True)
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
