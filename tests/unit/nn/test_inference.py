"""to_inference: the same outputs, with foci and batch norms folded."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from focusing import BandedLinear, FocusedLinear
from focusing.nn import to_inference
from tests.unit.nn.oracle import assert_same


@torch.no_grad()
def used(net: nn.Module, x: Tensor) -> nn.Module:
    """A network whose batch norms have statistics and random affine parameters."""
    for _ in range(3):
        net(x)
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d) and layer.affine:
            nn.init.uniform_(layer.weight, 0.5, 2)
            nn.init.normal_(layer.bias)
    return net


def focused_net(threshold: float = 1.5, **factory: Any) -> nn.Sequential:
    first = FocusedLinear(784, 400, mu="random", sigma=0.05, **factory)
    second = FocusedLinear(400, 300, mu="random", sigma=0.05, bias=False, **factory)
    norms = [nn.BatchNorm1d(neurons, **factory) for neurons in (400, 300)]
    net = nn.Sequential(
        *(first, norms[0], nn.ReLU(), nn.Dropout(0.5)),
        *(second, norms[1], nn.ReLU(), nn.Linear(300, 10, **factory)),
    )
    used(net, torch.randn(32, 784, **factory))
    first.prune(threshold)
    second.prune(threshold)
    return net


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 1.5, 100.0])
@pytest.mark.usefixtures("strays_fail")
def test_gives_the_same_outputs(
    sparse: bool, threshold: float, device: torch.device, dtype: torch.dtype
) -> None:
    factory: Any = {"device": device, "dtype": dtype}
    net, x = focused_net(threshold, **factory), torch.randn(7, 784, **factory)
    before = copy.deepcopy(net.state_dict())
    fast = to_inference(net, sparse=sparse, example=x)
    assert_same(fast(x), net.eval()(x))
    types = {type(layer) for layer in fast.modules()}
    assert not types & {FocusedLinear, nn.BatchNorm1d}
    assert (BandedLinear in types) == sparse
    assert not any(parameter.requires_grad for parameter in fast.parameters())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_the_next_layer_takes_in_the_order_of_the_tiles() -> None:
    fast = to_inference(focused_net(), sparse=True, example=torch.randn(2, 784))
    first, second = fast[0], fast[4]
    assert first.place is not None  # the next layer needs the original order
    assert second.place is None
    assert second.order is not None


def test_layers_that_do_not_gain_stay_dense() -> None:
    net = nn.Sequential(FocusedLinear(40, 4, sigma=0.5), nn.ReLU(), nn.Linear(4, 2))
    assert type(to_inference(net, sparse=True)[0]) is nn.Linear


def test_blocks_where_tiles_do_not_pay() -> None:
    layer = FocusedLinear(100, 40, mu="random", sigma=(0.05, 0.2)).eval()
    layer.prune(1.0)
    fast = to_inference(layer, sparse=True)
    assert isinstance(fast, BandedLinear)
    assert fast.work == 1
    x = torch.randn(50, 100)
    assert_same(fast(x), layer(x))
    blocks = fast._tuned().blocks
    assert blocks is not None
    assert blocks.work < 0.7


def test_batch_norms_are_folded_into_convolutions() -> None:
    net = nn.Sequential(
        *(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()),
        *(FocusedLinear(144, 5), nn.BatchNorm1d(5, affine=False)),
    )
    x = torch.randn(6, 3, 8, 8)
    used(net, x)
    fast = to_inference(net, sparse=True)
    assert_same(fast(x), net.eval()(x))
    assert not any("Norm" in type(layer).__name__ for layer in fast.modules())


class Twice(nn.Module):
    """Calls one layer twice, and uses an output twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.other, self.last = nn.Linear(6, 6), nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.other(self.layer(self.norm(self.layer(x))))
        return self.last(y) + y


class Undecided(nn.Module):
    """Has data-dependent control flow."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return y if y.sum() > 1e9 else self.norm(y)


def norm_of_channels() -> nn.Module:
    return nn.Sequential(FocusedLinear(6, 4, sigma=0.1), nn.BatchNorm1d(4))


@pytest.mark.parametrize(
    ("make", "shape"), [(Twice, (5, 6)), (Undecided, (5, 6)), (norm_of_channels, (3, 4, 6))]
)
def test_batch_norms_that_cannot_be_folded(
    make: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape)
    net = used(make(), x)
    for example in (x, None):
        fast = to_inference(net, example=example)
        assert any(isinstance(layer, nn.BatchNorm1d) for layer in fast.modules())
        assert_same(fast(x), net.eval()(x))


def pruned_layer() -> FocusedLinear:
    layer = FocusedLinear(400, 400, mu=torch.rand(400), sigma=0.05)
    layer.prune(0.5)
    return layer


def tied() -> nn.Module:
    first, last = nn.Linear(400, 400), nn.Linear(400, 400)
    last.weight = first.weight
    return nn.Sequential(first, nn.ReLU(), pruned_layer(), nn.ReLU(), last)


def magnitude_pruned() -> nn.Module:
    net = nn.Sequential(
        nn.Linear(400, 40), nn.BatchNorm1d(40), FocusedLinear(40, 400), nn.Linear(400, 5)
    )
    prune.l1_unstructured(net[0], "weight", 0.5)
    prune.l1_unstructured(net[3], "weight", 0.5)
    return net


def parametrized() -> nn.Module:
    last = parametrizations.weight_norm(nn.Linear(400, 5))
    return nn.Sequential(pruned_layer(), nn.ReLU(), last)


def hooked() -> nn.Module:
    net = nn.Sequential(pruned_layer(), nn.BatchNorm1d(400), pruned_layer(), nn.Linear(400, 5))
    net[0].register_forward_hook(lambda _, inputs, output: output.cumsum(1))
    net[3].register_forward_pre_hook(lambda _, inputs: (inputs[0].cumsum(1),))
    return net


class ReadsWeights(nn.Module):
    """Reads the weights of its layers besides calling them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(400, 400), nn.BatchNorm1d(400)
        self.focused, self.last = pruned_layer(), nn.Linear(400, 400)

    def forward(self, x: Tensor) -> Tensor:
        y = self.last(self.focused(self.norm(self.layer(x))))
        weights = self.layer.weight + self.last.weight + self.focused.weight
        return nn.functional.linear(y, weights) * self.norm.weight


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("make", [tied, magnitude_pruned, parametrized, hooked, ReadsWeights])
def test_layers_with_hooks_or_shared_weights(make: Callable[[], nn.Module], sparse: bool) -> None:
    x = torch.randn(8, 400)
    net = used(make(), x).eval()
    fast = to_inference(net, sparse=sparse, example=x)
    torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-3)
