"""The paper's simple network."""

import math

import pytest
import torch
from torch import nn

from focusing.models import MLP, dense_mlp, focused_mlp
from focusing.nn import FocusedLinear


def test_focused_layers_are_named_in_order() -> None:
    net = focused_mlp(40, 2, hidden=[8, 6], mu="spread", sigma=0.1)
    assert list(net.focused_layers()) == ["hidden1", "hidden2"]
    assert dense_mlp(40, 2, hidden=[8]).focused_layers() == {}
    assert net(torch.randn(5, 40)).shape == (5, 2)
    assert net(torch.randn(5, 2, 20)).shape == (5, 2)  # flattened


def test_layers_come_in_the_papers_order() -> None:
    net = MLP(4, 2, [3, 3], input_dropout=0.2, dropout=[0.25])
    assert [type(each) for each in net.children()] == [
        nn.Flatten,
        nn.Dropout,
        *(nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Dropout),
        *(nn.Linear, nn.BatchNorm1d, nn.ReLU),
        nn.Linear,
    ]
    assert not any(
        isinstance(each, nn.BatchNorm1d) for each in MLP(4, 2, [3], batch_norm=False).children()
    )


def test_a_topology_is_that_of_the_inputs() -> None:
    net = focused_mlp(12, 2, hidden=[5, 5], topology=[4, 3], mu="spread", sigma=0.1)
    assert net.hidden1.mu.shape == (5, 2)
    assert net.hidden2.mu.shape == (5, 1)


def test_dense_layers_start_as_he_says() -> None:
    torch.manual_seed(0)
    net = dense_mlp(600, 10, hidden=[500])
    bound = math.sqrt(6 / 600)
    assert 0.99 * bound < net.hidden1.weight.abs().max() <= bound
    assert not net.hidden1.bias.any()
    assert not net.output.bias.any()


def test_fixed_foci_have_no_gradient() -> None:
    net = focused_mlp(9, 2, hidden=[3], mu="spread", sigma=0.1, train_mu=False, train_sigma=False)
    layer = net.hidden1
    assert isinstance(layer, FocusedLinear)
    assert not layer.mu.requires_grad
    assert not layer.sigma.requires_grad


def test_too_many_dropouts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"more numbers .*: use model.dropout=\[0.1\]"):
        MLP(4, 2, [3], dropout=[0.1, 0.2])
