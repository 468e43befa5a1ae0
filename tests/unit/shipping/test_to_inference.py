"""Networks of every family have the same outputs after folding, dense or in tiles."""

import pytest
import torch
from torch import nn

from focusing.models import focused_cnn, focused_mlp
from focusing.nn import BandedLinear, FocusedLinear
from tests.unit.models import small

NETWORKS = {
    **small.NETWORKS,
    "wide": lambda: focused_mlp((28, 28, 1), 10, hidden=[80, 60], sigma=0.05, dropout=[0.2, 0.5]),
    "wide_2d": lambda: focused_mlp((28, 28, 1), 10, hidden=[80], sigma=0.1, topology="image"),
    "wide_cnn": lambda: focused_cnn((28, 28, 1), 10, filters=[4, 4], hidden=64, sigma=0.1),
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_folded_network_has_the_same_outputs(name: str, sparse: bool) -> None:
    torch.manual_seed(0)
    net = NETWORKS[name]()
    x = small.inputs_of(net, 8)
    for _ in range(3):  # batch norms see something
        net(x)
    for layer in net.focused_layers().values():
        layer.prune(0.8)
    fast = net.to_inference(sparse)
    torch.testing.assert_close(fast(x), net.eval()(x), rtol=1e-4, atol=1e-4)
    kinds = [type(module) for module in fast.modules()]
    assert not {FocusedLinear, nn.BatchNorm1d, nn.BatchNorm2d} & set(kinds)
    if name == "wide":
        assert (BandedLinear in kinds) == sparse
