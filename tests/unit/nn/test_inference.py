"""Networks that only compute: the same outputs, with nothing left to fold."""

import copy

import pytest
import torch
from torch import Tensor, nn

from focusing import BandedLinear, FocusedLinear
from focusing.nn import to_inference


def used(net: nn.Module, x: Tensor) -> nn.Module:
    """With batch norms that have seen something."""
    for _ in range(3):
        net(x)
    for each in net.modules():
        if isinstance(each, nn.BatchNorm1d | nn.BatchNorm2d) and each.affine:
            nn.init.uniform_(each.weight, 0.5, 2)
            nn.init.normal_(each.bias)
    return net


def focused_net(threshold: float | None = 1.5) -> nn.Sequential:
    torch.manual_seed(0)
    first = FocusedLinear(784, 400, mu="random", sigma=0.05)
    second = FocusedLinear(400, 300, mu="random", sigma=0.05, bias=False)
    net = nn.Sequential(
        *(first, nn.BatchNorm1d(400), nn.ReLU(), nn.Dropout(0.5)),
        *(second, nn.BatchNorm1d(300), nn.ReLU(), nn.Linear(300, 10)),
    )
    used(net, torch.randn(32, 784))
    if threshold is not None:
        first.prune(threshold)
        second.prune(threshold)
    return net


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("threshold", [None, 1.5, 100.0])
def test_gives_the_same_outputs(sparse: bool, threshold: float | None) -> None:
    net = focused_net(threshold)
    before = copy.deepcopy(net.state_dict())
    fast = to_inference(net, sparse=sparse)
    x = torch.randn(7, 784)
    torch.testing.assert_close(fast(x), net.eval()(x), rtol=1e-4, atol=1e-4)
    kinds = {type(each) for each in fast.modules()}
    assert not kinds & {FocusedLinear, nn.BatchNorm1d}
    assert (BandedLinear in kinds) == sparse
    assert not any(each.requires_grad for each in fast.parameters())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_the_order_of_the_tiles_is_folded_into_the_next_layer() -> None:
    fast = to_inference(focused_net(), sparse=True)
    first, second = fast[0], fast[4]
    assert isinstance(first, BandedLinear)
    assert isinstance(second, BandedLinear)
    assert first.place is not None  # the next layer needs neighbours side by side
    assert second.place is None
    assert second.order is not None


def test_layers_that_do_not_gain_stay_dense() -> None:
    net = nn.Sequential(FocusedLinear(40, 4, sigma=0.5), nn.ReLU(), nn.Linear(4, 2))
    assert type(to_inference(net, sparse=True)[0]) is nn.Linear


def test_a_layer_alone() -> None:
    layer = FocusedLinear(784, 400, sigma=0.02).eval()
    layer.prune(1.0)
    x = torch.randn(3, 784)
    for sparse, kind in ((False, nn.Linear), (True, BandedLinear)):
        alone = to_inference(layer, sparse=sparse)
        assert type(alone) is kind
        torch.testing.assert_close(alone(x), layer(x), rtol=1e-4, atol=1e-4)


def test_convolutions_take_batch_norms_in() -> None:
    net = nn.Sequential(
        *(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()),
        *(FocusedLinear(144, 5), nn.BatchNorm1d(5, affine=False)),
    )
    x = torch.randn(6, 3, 8, 8)
    used(net, x)
    fast = to_inference(net, sparse=True)
    torch.testing.assert_close(fast(x), net.eval()(x), rtol=1e-4, atol=1e-4)
    assert not any("Norm" in type(each).__name__ for each in fast.modules())


class Twice(nn.Module):
    """Uses a layer before and after, and its output twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.other, self.last = nn.Linear(6, 6), nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.other(self.layer(self.norm(self.layer(x))))
        return self.last(y) + y


class Undecided(nn.Module):
    """Does what its input tells it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return y if y.sum() > 1e9 else self.norm(y)


@pytest.mark.parametrize("kind", [Twice, Undecided])
def test_what_cannot_be_folded_stays(kind: type[nn.Module]) -> None:
    x = torch.randn(5, 6)
    net = used(kind(), x)
    fast = to_inference(net)
    assert any(isinstance(each, nn.BatchNorm1d) for each in fast.modules())
    torch.testing.assert_close(fast(x), net.eval()(x))
