"""The paper's small convolutional network."""

import math

import torch
from torch import nn
from torch.nn import functional

from focusing.models import CNN, focused_cnn
from tests.unit.models.small import FOCUS


def test_layers_come_in_the_authors_order() -> None:
    kinds = [type(each) for each in CNN((8, 8, 1), 3).children()]
    flat = [type(each).__name__ for each in CNN((8, 8, 1), 3, batch_norm=False).children()]
    assert kinds == [
        *(nn.Conv2d, nn.ReLU, nn.Conv2d, nn.ReLU, nn.MaxPool2d),
        kinds[5],  # flattens
        *(nn.Dropout, nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Dropout, nn.Linear),
    ]
    assert "BatchNorm1d" not in flat
    net = CNN((8, 8), 3, dropout=[0.1, 0.4])
    assert (net.dropout1.p, net.dropout2.p) == (0.1, 0.4)
    assert list(dict(net.named_children()))[-6::4] == ["dropout1", "dropout2"]


def test_it_computes_what_the_paper_says() -> None:
    torch.manual_seed(0)
    net = CNN((7, 6, 3), 4, filters=[5, 2], hidden=8, batch_norm=False).eval()
    x = torch.randn(2, 7, 6, 3)
    y = x.permute(0, 3, 1, 2)
    for conv in (net.conv1, net.conv2):
        y = functional.relu(functional.conv2d(y, conv.weight, conv.bias, padding=2))
    y = functional.max_pool2d(y, 2)
    assert y.shape == (2, 2, 3, 3)
    # Row by row, and the channels of a pixel side by side, as Keras flattens.
    y = torch.stack([y[:, c, i, j] for i in range(3) for j in range(3) for c in range(2)], dim=1)
    y = net.output(functional.relu(net.hidden(y)))
    torch.testing.assert_close(net(x), y, rtol=1e-4, atol=1e-4)


def test_convolutions_start_as_glorot_says() -> None:
    torch.manual_seed(0)
    net = CNN((8, 8, 16), 3)
    bound = math.sqrt(6 / (25 * 16 + 25 * 32))
    assert 0.99 * bound < net.conv1.weight.abs().max() <= bound
    assert not net.conv1.bias.any()


def test_a_channel_is_no_position_of_its_own_in_two_dimensions() -> None:
    net = focused_cnn((8, 6, 1), 3, filters=[4], hidden=5, topology="image", **FOCUS)
    layer = net.focused_layers()["hidden"]
    assert layer.mu.shape == (5, 2)
    assert layer.tau.shape == (4 * 3 * 4, 2)
    assert torch.equal(layer.tau[0], layer.tau[3])  # the channels of the first pixel
    assert not torch.equal(layer.tau[3], layer.tau[4])
    line = focused_cnn((8, 6, 1), 3, filters=[4], hidden=5, **FOCUS).focused_layers()["hidden"]
    assert line.mu.shape == (5, 1)
    assert not torch.equal(line.tau[0], line.tau[1])


def test_images_may_come_without_channels() -> None:
    torch.manual_seed(0)
    net = CNN((8, 8), 3, filters=[2], hidden=4).eval()
    x = torch.randn(2, 8, 8)
    torch.testing.assert_close(net(x), net(x.unsqueeze(-1)), rtol=1e-4, atol=1e-4)
