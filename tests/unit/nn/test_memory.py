"""Memory that a layer keeps: lent to one graph at a time."""

import threading

import pytest
import torch

from focusing import FocusedLinear
from focusing.nn.memory import Reserve

SINGLE = torch.float32


def test_memory_comes_back_and_is_not_lent_twice() -> None:
    reserve = Reserve()
    first, second = reserve.lend(10, SINGLE), reserve.lend(10, SINGLE)
    assert first.data_ptr() != second.data_ptr()
    place = first.data_ptr()
    del first
    assert reserve.lend(8, SINGLE).data_ptr() == place
    assert reserve.lend(8, torch.float64).dtype == torch.float64
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
        assert layer._layout is not None
        places.add(layer._layout.memory._free[0].data_ptr())
    assert len(places) == 1


def test_threads_may_share_a_layer() -> None:
    layer = FocusedLinear(300, 200, sigma=0.3).eval()
    inputs = torch.randn(8, 20, 16, 300)
    wrong = []

    def work(own: torch.Tensor) -> None:
        for x in own:
            if not torch.equal(layer(x), layer(x.clone())):
                wrong.append(x)

    with torch.no_grad():
        expected = [[layer(x) for x in own] for own in inputs]
    threads = [threading.Thread(target=work, args=(own,)) for own in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    with torch.no_grad():
        for own, outputs in zip(inputs, expected, strict=True):
            for x, y in zip(own, outputs, strict=True):
                assert torch.equal(layer(x), y)
