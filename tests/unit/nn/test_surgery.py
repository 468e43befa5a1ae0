"""Focus for the layers of any model, and back."""

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from focusing import FocusedLinear, defocusify, focusify
from tests.unit.nn.oracle import assert_same


def model() -> nn.Sequential:
    return nn.Sequential(
        nn.Sequential(nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 8, bias=False)),
        nn.ReLU(),
        nn.Linear(8, 5),
    )


def focused(module: nn.Module) -> set[str]:
    return {name for name, layer in module.named_modules() if isinstance(layer, FocusedLinear)}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, {"0.0", "0.2", "2"}),
        ("2", {"2"}),
        ("0.*", {"0.0", "0.2"}),
        ("*2", {"0.2", "2"}),
        (["0.0", "2"], {"0.0", "2"}),
        (("0.0", "nothing"), {"0.0"}),
        (lambda name, layer: layer.in_features > 9, {"0.0", "0.2"}),
        (lambda name, layer: name.endswith("0"), {"0.0"}),
    ],
)
def test_where(where: Any, expected: set[str]) -> None:
    network = model()
    before = dict(network.named_modules())
    assert focusify(network, where) is network
    assert focused(network) == expected
    for name, layer in network.named_modules():
        if name not in expected:
            assert layer is before[name], "the others stay as they are"
    assert defocusify(network) is network
    assert focused(network) == set()


def test_defocusify_where() -> None:
    network = focusify(model())
    defocusify(network, "0.*")
    assert focused(network) == {"2"}


@pytest.mark.parametrize("where", ["none", [], lambda name, layer: False, "1"])
def test_nothing_selected(where: Any) -> None:
    for change, network in ((focusify, model()), (defocusify, focusify(model()))):
        with pytest.raises(ValueError, match=r"^where selects no layer.*named_modules"):
            change(network, where)
    with pytest.raises(ValueError, match="^where selects no layer"):
        defocusify(model())
    with pytest.raises(ValueError, match="^where selects no layer"):
        focusify(nn.ReLU())


def test_a_single_layer() -> None:
    layer = focusify(nn.Linear(12, 4))
    assert isinstance(layer, FocusedLinear)
    x = torch.randn(3, 12)
    plain = defocusify(layer)
    assert type(plain) is nn.Linear
    assert_same(plain(x), layer(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("training", [True, False])
def test_keeps_shapes_bias_dtype_and_mode(dtype: torch.dtype, training: bool) -> None:
    network = focusify(model().to(dtype).train(training))
    for name, shape, bias in [
        ("0.0", (10, 12), True),
        ("0.2", (8, 10), False),
        ("2", (5, 8), True),
    ]:
        layer = network.get_submodule(name)
        assert layer.weight.shape == shape
        assert (layer.bias is not None) is bias
        assert {p.dtype for p in layer.parameters()} == {dtype}
        assert layer.training is training
    back = defocusify(network)
    assert {p.dtype for p in back.parameters()} == {dtype}
    assert all(layer.training is training for layer in back.modules())


def test_keeps_the_device() -> None:
    network = focusify(model().to("meta"))
    assert {p.device.type for p in network.parameters()} == {"meta"}


def test_options_are_passed_on() -> None:
    layer = focusify(model(), "0.0", topology=(3, 4), sigma=0.3, train_mu=False, focus="triangle")[
        0
    ][0]
    assert layer.mu.shape == (10, 2)
    assert (layer.sigma == 0.3).all()
    assert not layer.mu.requires_grad
    assert layer.focus == "triangle"


def test_keep_weights() -> None:
    network = model()
    state = copy.deepcopy(network.state_dict())
    x = torch.randn(3, 12)
    before = network(x)
    focusify(network, keep_weights=True, sigma=1e3)
    for name, value in state.items():
        assert torch.equal(network.state_dict()[name], value)
    assert_same(network(x), before)
    anew = focusify(model())
    assert (anew[2].bias == 0).all()


def test_round_trip_computes_the_same() -> None:
    network = focusify(model(), sigma=0.2).eval()
    x = torch.randn(3, 12)
    expected = network(x)
    assert_same(defocusify(copy.deepcopy(network))(x), expected)
    network[0][0].prune(0.5)
    expected = network(x)
    assert_same(defocusify(network)(x), expected)


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(6, 6)
        self.two = self.one
        self.inside = nn.Sequential(self.one, nn.ReLU(), self.one)

    def layers(self) -> list[nn.Module]:
        return [self.one, self.two, self.inside[0], self.inside[2]]


@pytest.mark.parametrize("where", [None, "one", "two", "inside.2"])
def test_shared_layers_stay_shared(where: str | None) -> None:
    network = Shared()
    for change, kind in ((focusify, FocusedLinear), (defocusify, nn.Linear)):
        change(network, where)
        assert len({id(layer) for layer in network.layers()}) == 1
        assert type(network.one) is kind


class TestTransformer:
    def layer(self, **options: Any) -> nn.TransformerEncoderLayer:
        torch.manual_seed(0)
        return nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, **options)

    def test_attention_is_left_alone(self) -> None:
        layer = self.layer()
        projection = layer.self_attn.out_proj
        focusify(layer)
        assert focused(layer) == {"linear1", "linear2"}
        assert layer.self_attn.out_proj is projection
        with pytest.raises(ValueError, match="^where selects no layer"):
            focusify(layer.self_attn)

    @pytest.mark.parametrize("where", [None, "linear1", "linear2"])
    @pytest.mark.parametrize("activation", ["relu", "gelu"])
    def test_the_fast_path_does_not_skip_the_focus(self, activation: str, where: Any) -> None:
        layer = focusify(self.layer(activation=activation), where, sigma=0.1)
        x = torch.randn(3, 5, 16)
        training = layer(x)
        plain = defocusify(copy.deepcopy(layer))
        with torch.no_grad():
            assert_same(layer.eval()(x), training)
            assert_same(copy.deepcopy(layer)(x), training)
            assert_same(plain.eval()(x), training)

    @pytest.mark.parametrize("where", [None, "layers.1.linear2"])
    def test_an_encoder_with_padding(self, where: str | None) -> None:
        encoder = nn.TransformerEncoder(self.layer(), 2, enable_nested_tensor=True)
        focusify(encoder, where, sigma=0.1)
        x, padded = torch.randn(3, 5, 16), torch.zeros(3, 5, dtype=torch.bool)
        padded[0, 4:] = padded[1, 2:] = True
        training = encoder(x, src_key_padding_mask=padded)
        with torch.no_grad():
            found = encoder.eval()(x, src_key_padding_mask=padded)
        assert_same(found[~padded], training[~padded])

    def test_an_untouched_encoder_keeps_its_fast_path(self) -> None:
        network = nn.Sequential(nn.TransformerEncoder(self.layer(), 1), nn.Linear(16, 4)).eval()
        focusify(network, "1")
        x, padded = torch.randn(2, 5, 16), torch.zeros(2, 5, dtype=torch.bool)
        padded[0, 3:] = True
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nested tensors are a prototype
            found = network[0](x, src_key_padding_mask=padded)
        assert (found[padded] == 0).all()  # only the fast path leaves zeros
