"""focusify and defocusify."""

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from focusing import FocusedLinear, defocusify, focusify
from tests.unit.nn.oracle import assert_same


def model() -> nn.Sequential:
    first = nn.Sequential(nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 8, bias=False))
    return nn.Sequential(first, nn.ReLU(), nn.Linear(8, 5))


def focused(module: nn.Module) -> set[str]:
    return {name for name, layer in module.named_modules() if isinstance(layer, FocusedLinear)}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, {"0.0", "0.2", "2"}),
        ("0.*", {"0.0", "0.2"}),
        ("*2", {"0.2", "2"}),
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
    focusify(network)
    defocusify(network, "0.*")
    assert focused(network) == {"2"}


@pytest.mark.parametrize("where", ["none", [], lambda name, layer: False, "1"])
def test_nothing_selected(where: Any) -> None:
    cases = [(focusify, model(), where), (defocusify, focusify(model()), where)]
    for change, network, names in [
        *cases,
        (defocusify, model(), None),
        (focusify, nn.ReLU(), None),
    ]:
        other = r"1, a ReLU: only (Linear|FocusedLinear and AnchoredLinear) layers can be replaced"
        expected = other if names == "1" else "no layer.*named_modules"
        with pytest.raises(ValueError, match=f"^where selects {expected}"):
            change(network, names)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("training", [True, False])
def test_keeps_shapes_bias_dtype_device_and_mode(dtype: torch.dtype, training: bool) -> None:
    network = focusify(model().to(dtype).train(training))
    expected = {"0.0": ((10, 12), True), "0.2": ((8, 10), False), "2": ((5, 8), True)}
    for name, (shape, bias) in expected.items():
        layer = network.get_submodule(name)
        assert layer.weight.shape == shape
        assert (layer.bias is not None) is bias
        assert {p.dtype for p in layer.parameters()} == {dtype}
        assert layer.training is training
    back = defocusify(network)
    assert {p.dtype for p in back.parameters()} == {dtype}
    assert all(layer.training is training for layer in back.modules())
    on_meta = focusify(model().to("meta"))
    assert {p.device.type for p in on_meta.parameters()} == {"meta"}


def test_options_are_passed_on() -> None:
    options: Any = {"topology": (3, 4), "sigma": 0.3, "train_mu": False, "focus": "triangle"}
    layer = focusify(nn.Linear(12, 10), **options)  # returns the new layer
    assert isinstance(layer, FocusedLinear)
    assert layer.mu.shape == (10, 2)
    assert (layer.sigma == 0.3).all()
    assert not layer.mu.requires_grad
    assert layer.focus == "triangle"
    x = torch.randn(3, 12)
    assert_same(defocusify(layer)(x), layer(x))


def test_keep_weights() -> None:
    network, x = model(), torch.randn(3, 12)
    state, before = copy.deepcopy(network.state_dict()), network(x)
    focusify(network, keep_weights=True, sigma=1e3)
    for name, value in state.items():
        assert torch.equal(network.state_dict()[name], value)
    assert_same(network(x), before)
    assert (focusify(model())[2].bias == 0).all()


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(6, 6)
        self.two = self.one
        self.inside = nn.Sequential(self.one, nn.ReLU(), self.one)


def test_weights_of_a_layer_with_further_parameters_are_kept() -> None:
    network = model()
    network[2].scale = nn.Parameter(torch.ones(1))
    weight = network[2].weight.clone()
    assert torch.equal(focusify(network, keep_weights=True)[2].weight, weight)


def test_kept_weights_stay_frozen() -> None:
    network = model().requires_grad_(False)
    focusify(network, "0.0", keep_weights=True)
    trained = [name for name, value in network.named_parameters() if value.requires_grad]
    assert trained == ["0.0.mu", "0.0.sigma"]


@pytest.mark.parametrize("hook", ["forward_hook", "forward_pre_hook", "full_backward_hook"])
def test_hooks_are_not_lost(hook: str) -> None:
    for change, network in ((focusify, model()), (defocusify, focusify(model()))):
        getattr(network[2], f"register_{hook}")(lambda *_: None)
        with pytest.raises(ValueError, match="^2 has hooks, which its replacement would lose"):
            change(network)
        change(network, "0.*")


@pytest.mark.parametrize("where", [None, "one", "two", "inside.2"])
def test_shared_layers_stay_shared(where: str | None) -> None:
    network = Shared()
    for change, kind in ((focusify, FocusedLinear), (defocusify, nn.Linear)):
        change(network, where)
        layers = [network.one, network.two, network.inside[0], network.inside[2]]
        assert len({id(layer) for layer in layers}) == 1
        assert type(network.one) is kind


def encoder_layer(**options: Any) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, **options)


@pytest.mark.parametrize("where", [None, "linear1", "linear2"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_fast_path_of_transformers_does_not_skip_the_focus(activation: str, where: Any) -> None:
    layer = encoder_layer(activation=activation)
    projection = layer.self_attn.out_proj
    focusify(layer, where, sigma=0.1)
    assert layer.self_attn.out_proj is projection  # attention is left alone
    x = torch.randn(3, 5, 16)
    training = layer(x)
    plain = defocusify(copy.deepcopy(layer))
    with torch.no_grad():
        for network in (layer, copy.deepcopy(layer), plain):
            assert_same(network.eval()(x), training)


@pytest.mark.parametrize("where", [None, "layers.1.linear2"])
def test_an_encoder_with_padding(where: str | None) -> None:
    encoder = nn.TransformerEncoder(encoder_layer(), 2, enable_nested_tensor=True)
    focusify(encoder, where, sigma=0.1)
    x, padded = torch.randn(3, 5, 16), torch.zeros(3, 5, dtype=torch.bool)
    padded[0, 4:] = padded[1, 2:] = True
    training = encoder(x, src_key_padding_mask=padded)
    with torch.no_grad():
        y = encoder.eval()(x, src_key_padding_mask=padded)
    assert_same(y[~padded], training[~padded])


def test_an_untouched_encoder_keeps_its_fast_path() -> None:
    network = nn.Sequential(nn.TransformerEncoder(encoder_layer(), 1), nn.Linear(16, 4)).eval()
    focusify(network, "1")
    x, padded = torch.randn(2, 5, 16), torch.zeros(2, 5, dtype=torch.bool)
    padded[0, 3:] = True
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are a prototype
        y = network[0](x, src_key_padding_mask=padded)
    assert (y[padded] == 0).all()  # only the fast path leaves zeros
