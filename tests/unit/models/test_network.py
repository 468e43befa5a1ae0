"""The base class Network: focused layers, dense twins, and error messages."""

import pytest
import torch
from torch import nn

from focusing.models import CNN, MLP, FastText, Transfer, focused_mlp
from focusing.models.network import channels_first
from focusing.nn import FocusedLinear
from tests.unit.models.small import FOCUS, NETWORKS, inputs_of, make

LINEAR = (FocusedLinear, nn.Linear)
NAMES = {
    "mlp_focus": ["hidden1", "hidden2"],
    "cnn_focus": ["hidden"],
    "transfer_focus": ["hidden"],
    "fasttext_focus": ["output"],
}


def trained(net: nn.Module) -> int:
    return sum(weights.numel() for weights in net.parameters() if weights.requires_grad)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.usefixtures("strays_fail")
def test_focused_layers_have_names_and_all_weights_learn(name: str, device: torch.device) -> None:
    with device:
        net = make(name)
    assert list(net.focused_layers()) == NAMES.get(name, [])
    net(inputs_of(net, 16)).square().sum().backward()
    for key, parameter in net.named_parameters():
        assert parameter.requires_grad
        if ".sigma" not in key and ".mu" not in key:  # whose gradient may be zero
            assert parameter.grad is not None
            assert parameter.grad.any() or key.endswith("bias"), key


@pytest.mark.parametrize("channels", [1, 3])
def test_images_reach_convolutions_in_channels_last(channels: int) -> None:
    """A single channel may have any stride, and torch chooses its kernels by it."""
    image = torch.rand(2, channels, 5, 4).to(memory_format=torch.channels_last)
    images = [image.permute(0, 2, 3, 1)]
    if channels == 1:
        images += [image[:, 0], image[:, 0].unsqueeze(1).permute(0, 2, 3, 1)]
        assert images[2].stride() == (20, 4, 1, 20)
    for one in images:
        assert torch.equal(channels_first(one), image)
        assert channels_first(one).stride() == (20 * channels, 1, 4 * channels, channels)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_twin_is_dense_and_of_the_same_kind(name: str, device: torch.device) -> None:
    net = make(name).to(device)
    state = torch.get_rng_state()
    twin = net.match_parameters()
    assert type(twin) is type(net)
    assert not twin.focused_layers()
    plain = [type(layer) for layer in net.modules() if not isinstance(layer, LINEAR)]
    assert plain == [type(layer) for layer in twin.modules() if not isinstance(layer, LINEAR)]
    x = inputs_of(net, 4)
    assert twin.eval()(x).shape == net.eval()(x).shape
    torch.set_rng_state(state)
    again = net.match_parameters()  # the search for widths uses no random numbers
    assert all(map(torch.equal, twin.state_dict().values(), again.state_dict().values()))


@pytest.mark.parametrize("name", ["cnn_focus", "transfer_focus", "fasttext_focus"])
def test_the_twin_has_the_closest_width(name: str) -> None:
    net = make(name)
    widths = range(1, 4 * net.widths[0])
    counts = {width: trained(net._dense([width])) for width in widths}
    best = min(abs(count - trained(net)) for count in counts.values())
    assert abs(trained(net.match_parameters()) - trained(net)) == best


def test_two_layers_keep_their_proportion() -> None:
    twin = focused_mlp(784, 10, hidden=[800, 800], **FOCUS).match_parameters()
    assert all(800 <= width <= 803 for width in twin.widths)
    assert abs(trained(twin) - 1283210) <= 15  # a neuron has 1588
    wide = focused_mlp(30, 2, hidden=[40, 10], topology=(5, 6), **FOCUS)
    twin = wide.match_parameters()
    assert abs(trained(twin) - trained(wide)) <= 5
    assert 3 < twin.widths[0] / twin.widths[1] < 5


def test_a_deep_network() -> None:
    deep = focused_mlp(30, 2, hidden=[12] * 9, topology=(5, 6), **FOCUS)
    twin = deep.match_parameters()  # all combinations of widths would take hours
    assert abs(trained(twin) - trained(deep)) <= 12
    assert {*twin.widths} <= {12, 13, 14}
    narrow = focused_mlp(30, 2, hidden=[40, 40, 4, 4, 4, 4], topology=(5, 6), **FOCUS)
    twin = narrow.match_parameters()  # wide layers count most
    assert abs(trained(twin) - trained(narrow)) <= 4
    assert {*twin.widths[2:]} <= {3, 4, 5}


def test_foci_that_are_not_trained_need_no_wider_twin() -> None:
    net = focused_mlp(30, 2, hidden=[9, 7], train_mu=False, train_sigma=False, **FOCUS)
    twin = net.match_parameters()
    assert twin.widths == (9, 7)
    assert trained(twin) == trained(net)
    assert make("cnn_dense").match_parameters().widths == (8,)
    assert MLP(4, 2, []).match_parameters().widths == ()


def test_the_twin_has_the_type_and_the_features_of_the_network() -> None:
    net = make("transfer_focus").double()
    twin = net.match_parameters()
    assert {weights.dtype for weights in twin.parameters()} == {torch.float64}
    for key, value in net.features.state_dict().items():
        assert torch.equal(value, twin.features.state_dict()[key])


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: MLP(4, 2, [3, 0]), r"hidden=\[3, 0\] must be positive"),
        (lambda: CNN((8, 8), 2, hidden=0), "model.hidden=0 must be at least 1"),
        (lambda: CNN((8, 8), 2, filters=[0]), r"model.filters=\[0\] must be at least 1"),
        (lambda: MLP((0,), 2, [3]), r"inputs=\(0,\) must be positive"),
        (lambda: MLP((4, 0), 2, [3]), r"inputs=\(4, 0\) must be positive"),
        (lambda: MLP(4, 0, [3]), "outputs=0 must be positive"),
        (lambda: CNN((8, 8), 2, filters=[]), r"model.filters=\[\] has too few values"),
        (lambda: MLP(4, 2, [3], dropout=[1.5]), r"model.dropout=\[1.5\] must be less than 1"),
        (lambda: MLP(4, 2, [3], input_dropout=1.0), "model.input_dropout=1.0 must be less than 1"),
        (lambda: CNN((8, 8), 2, dropout=[0.5, -1]), "model.dropout=.* must be at least 0"),
        (lambda: Transfer((8, 8), 2, features="small", dropout=2), "model.dropout=2 must be"),
        (lambda: CNN((8, 8), 2, pool=9), "pool=9 is larger than the images, 8x8"),
        (lambda: CNN((8, 8), 2, dropout=[0.5]), r"model.dropout=\[0.5\] has too few values"),
        (lambda: CNN(64, 2), r"needs images .*, but a sample has shape \(64,\)"),
        (lambda: Transfer(64, 2), "features=vgg16 needs images"),
        (lambda: Transfer((28, 28, 1), 2), "of 32x32 or more, these are 28x28"),
        (lambda: Transfer((32, 32), 2, features="vgg"), "is not one of vgg16, resnet18, small"),
        (lambda: Transfer((32, 32), 2, features="small", pad=-1), "pad=-1 must be at least 0"),
        (lambda: FastText(9, 2, 5, embedding=0), "embedding=0 must be at least 1"),
        (lambda: focused_mlp(9, 2, hidden=[3], topology="image"), "topology=image needs images"),
        (lambda: focused_mlp(9, 2, hidden=[3], topology="grid"), "topology=grid is not image"),
        (lambda: focused_mlp(9, 2, [3], topology="previous"), "use model.later_topology=previous"),
        (
            lambda: focused_mlp(9, 2, [3, 3], later_topology="previous", focus_layers="first"),
            "later_topology=previous needs .* use model.focus_layers=all",
        ),
    ],
)
def test_wrong_arguments(build: object, sentence: str) -> None:
    assert callable(build)
    with pytest.raises(ValueError, match=sentence):
        build()
