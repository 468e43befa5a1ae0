"""The paper's networks match the paper: MLP, CNN and FastText."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from focusing.models import (
    CNN,
    MLP,
    FastText,
    dense_mlp,
    focused_cnn,
    focused_fasttext,
    focused_mlp,
)
from focusing.nn import Dropout
from tests.unit.models.small import FOCUS


def kinds(net: nn.Module) -> list[type]:
    return [type(layer) for layer in net.children()]


def test_order_of_mlp_layers() -> None:
    assert kinds(MLP(4, 2, [3, 3], input_dropout=0.2, dropout=[0.25])) == [
        nn.Flatten,
        Dropout,
        *(nn.Linear, nn.BatchNorm1d, nn.ReLU, Dropout),
        *(nn.Linear, nn.BatchNorm1d, nn.ReLU),
        nn.Linear,
    ]
    assert nn.BatchNorm1d not in kinds(MLP(4, 2, [3], batch_norm=False))
    with pytest.raises(ValueError, match=r"more numbers .*: use model.dropout=\[0.1\]"):
        MLP(4, 2, [3], dropout=[0.1, 0.2])


def test_a_simple_network_flattens_and_its_topology_is_that_of_the_inputs() -> None:
    options = {"topology": [4, 3], "mu": "spread", "sigma": 0.1, "train_mu": False}
    net = focused_mlp(12, 2, hidden=[5, 5], later_sigma=0.3, train_sigma=False, **options)
    assert net(torch.randn(5, 2, 6)).shape == (5, 2)
    first, second = net.focused_layers().values()
    assert (first.mu.shape, second.mu.shape) == ((5, 2), (5, 1))
    assert second.sigma.mean().item() == pytest.approx(0.3)
    assert not first.mu.requires_grad
    assert not first.sigma.requires_grad


def test_later_layers_on_the_grid_of_the_centres() -> None:
    """It is where the centres start with mu=spread, it stays, and it is not random."""
    options = {"topology": "image", "later_topology": "grid", "margin": 0.1, "units_per_focus": 2}
    net = focused_mlp((4, 4), 2, hidden=[8, 8], **options)
    first, second = net.focused_layers().values()
    grid = first.neuron_foci().mu.detach().clone()
    assert torch.equal(second.tau, grid)
    assert second.mu.shape == (4, 2)
    with torch.no_grad():
        first.mu.fill_(0.5)
    net(torch.randn(3, 4, 4)).sum().backward()
    assert torch.equal(second.tau, grid)
    elsewhere = focused_mlp((4, 4), 2, hidden=[8, 8], mu="random", **options)
    assert torch.equal(elsewhere.hidden2.tau, grid)
    elsewhere.load_state_dict(net.state_dict())


def test_initialisation_of_dense_and_convolutional_layers() -> None:
    torch.manual_seed(0)
    net = dense_mlp(600, 10, hidden=[500])
    conv = CNN((8, 8, 16), 3).conv1
    for layer, bound in ((net.hidden1, 6 / 600), (conv, 6 / (25 * 16 + 25 * 32))):
        assert 0.99 * math.sqrt(bound) < layer.weight.abs().max() <= math.sqrt(bound)
        assert not layer.bias.any()
    assert not net.output.bias.any()


def test_order_of_cnn_layers() -> None:
    layers = kinds(CNN((8, 8, 1), 3))
    assert layers == [
        *(nn.Conv2d, nn.ReLU, nn.Conv2d, nn.ReLU, nn.MaxPool2d),
        layers[5],  # flattens
        *(Dropout, nn.Linear, nn.BatchNorm1d, nn.ReLU, Dropout, nn.Linear),
    ]
    assert nn.BatchNorm1d not in kinds(CNN((8, 8, 1), 3, batch_norm=False))
    net = CNN((8, 8), 3, dropout=[0.1, 0.4])
    assert (net.dropout1.p, net.dropout2.p) == (0.1, 0.4)
    assert list(dict(net.named_children()))[-6::4] == ["dropout1", "dropout2"]


def test_cnn_matches_plain_torch() -> None:
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
    grey = CNN((8, 8), 3, filters=[2], hidden=4).eval()  # images may come without channels
    x = torch.randn(2, 8, 8)
    torch.testing.assert_close(grey(x), grey(x.unsqueeze(-1)), rtol=1e-4, atol=1e-4)


def test_the_channels_of_a_pixel_share_a_position_in_two_dimensions() -> None:
    net = focused_cnn((8, 6, 1), 3, filters=[4], hidden=5, topology="image", **FOCUS)
    layer = net.focused_layers()["hidden"]
    assert layer.mu.shape == (5, 2)
    assert layer.tau.shape == (4 * 3 * 4, 2)
    assert torch.equal(layer.tau[0], layer.tau[3])  # the channels of the first pixel
    assert not torch.equal(layer.tau[3], layer.tau[4])
    line = focused_cnn((8, 6, 1), 3, filters=[4], hidden=5, **FOCUS).focused_layers()["hidden"]
    assert line.mu.shape == (5, 1)
    assert not torch.equal(line.tau[0], line.tau[1])


def test_the_mean_is_over_all_tokens_and_padding_counts() -> None:
    torch.manual_seed(0)
    net = FastText(5, 2, 5000, embedding=6)
    tokens = torch.tensor([[0, 0, 0, 7, 9]], dtype=torch.int32)
    rows = net.embedding.weight[tokens[0].long()]
    assert rows[0].any()  # token 0, which pads, has an embedding like any other
    torch.testing.assert_close(net(tokens)[0], net.output(rows.mean(0)), rtol=1e-4, atol=1e-4)
    assert 0.0499 < net.embedding.weight.abs().max() <= 0.05  # as in Keras


def test_two_classes_have_one_neuron_and_three_have_three() -> None:
    tokens = torch.zeros(4, 9, dtype=torch.int64)
    assert FastText(9, 2, 30)(tokens).shape == (4, 1)
    assert FastText(9, 3, 30)(tokens).shape == (4, 3)
    layer = focused_fasttext(400, 2, 100, mu=0.5, sigma=0.5).focused_layers()["output"]
    assert (layer.in_features, layer.out_features) == (50, 1)
    assert (layer.mu.item(), layer.sigma.item()) == (0.5, 0.5)
