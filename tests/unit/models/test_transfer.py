"""The paper's network for transfer learning."""

from collections import Counter

import pytest
import torch
from torch import nn
from torch.nn import functional

from focusing.models import Transfer, transfer
from focusing.models.transfer import EXTRACTORS, ResNet18, vgg16

CONVOLUTIONS = [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28]
"""Of VGG16, as torchvision numbers them."""


def shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give VGG16 an eighth of its filters, to save time."""
    monkeypatch.setattr(
        transfer, "VGG16_FILTERS", tuple(filters // 8 for filters in transfer.VGG16_FILTERS)
    )


def test_vgg16_has_torchvisions_names_and_shapes() -> None:
    with torch.device("meta"):
        state = Transfer((32, 32, 3), 10, pretrained=False).state_dict()
    names = [key for key in state if key.startswith("features.")]
    assert names == [f"features.{i}.{kind}" for i in CONVOLUTIONS for kind in ("weight", "bias")]
    filters = [state[f"features.{i}.weight"].shape[0] for i in CONVOLUTIONS]
    assert filters == [64, 64, 128, 128, 256, 256, 256, *[512] * 6]
    assert state["features.0.weight"].shape == (64, 3, 3, 3)


def test_vgg16_matches_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    shrunk(monkeypatch)
    torch.manual_seed(0)
    net = vgg16(3)
    x = torch.randn(2, 3, 37, 32)
    y = x
    for place, layer in enumerate(CONVOLUTIONS):
        conv = net[layer]
        assert isinstance(conv, nn.Conv2d)
        y = functional.relu(functional.conv2d(y, conv.weight, conv.bias, padding=1))
        if place in (1, 3, 6, 9, 12):
            y = functional.max_pool2d(y, 2)
    assert y.shape == (2, 64, 1, 1)
    torch.testing.assert_close(net(x), y, rtol=1e-4, atol=1e-4)


def test_resnet18_has_torchvisions_names_and_matches_plain_torch() -> None:
    torch.manual_seed(0)
    net = ResNet18(3).eval()
    state = net.state_dict()
    assert len(state) == 122 - 2  # torchvision's, less fc.weight and fc.bias
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["layer4.0.downsample.0.weight"].shape == (512, 256, 1, 1)
    assert "layer1.0.downsample.0.weight" not in state
    assert "layer2.0.downsample.1.running_var" in state

    def conv(x: torch.Tensor, key: str, stride: int, norm: str) -> torch.Tensor:
        weight = state[f"{key}.weight"]
        x = functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        names = ("running_mean", "running_var", "weight", "bias")
        return functional.batch_norm(x, *(state[f"{norm}.{name}"] for name in names))

    x = torch.randn(2, 3, 40, 33)
    y = functional.relu(conv(x, "conv1", 2, "bn1"))
    y = functional.max_pool2d(y, 3, 2, 1)
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            at = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            inner = functional.relu(conv(y, f"{at}.conv1", stride, f"{at}.bn1"))
            inner = conv(inner, f"{at}.conv2", 1, f"{at}.bn2")
            if stride == 2:
                y = conv(y, f"{at}.downsample.0", 2, f"{at}.downsample.1")
            y = functional.relu(y + inner)
    torch.testing.assert_close(net(x), y, rtol=1e-4, atol=1e-4)


def test_activations_are_not_shared() -> None:
    """Explainers store the inputs of each module, and need one module per call."""
    net, calls = ResNet18(3), Counter[nn.Module]()
    relus = [layer for layer in net.modules() if isinstance(layer, nn.ReLU)]
    for relu in relus:
        relu.register_forward_hook(lambda module, *_: calls.update([module]))
    net(torch.randn(2, 3, 33, 33))
    assert calls == dict.fromkeys(relus, 1)
    assert len(relus) == 17


@pytest.mark.parametrize("pad", [0, 3])
def test_the_head_pools_pads_and_classifies(pad: int) -> None:
    torch.manual_seed(0)
    net = Transfer((9, 8, 3), 4, features="small", pretrained=False, hidden=5, pad=pad).eval()
    x = torch.randn(2, 9, 8, 3)
    pooled = net.features(x.permute(0, 3, 1, 2)).flatten(2).mean(2)
    zeros = torch.zeros(2, pad)
    y = functional.relu(net.norm(net.hidden(torch.cat([zeros, pooled, zeros], 1))))
    torch.testing.assert_close(net(x), net.output(y), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", EXTRACTORS)
def test_extractors_on_the_smallest_image(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "vgg16":
        shrunk(monkeypatch)
    kind = EXTRACTORS[name]
    filters = 64 if name == "vgg16" else kind.filters
    with torch.no_grad():
        features = kind.build(2).eval()(torch.zeros(1, 2, kind.min_size, kind.min_size))
    assert features.shape[:2] == (1, filters)
    assert features.shape[2] >= 1
