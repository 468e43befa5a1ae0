"""The paper's network for transfer learning, its feature extractors, and their weights.

Parameters have the same names as in torchvision, so that its weights can be loaded without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn import functional

from focusing.config import AtLeastOne, Share
from focusing.errors import UserError
from focusing.models.hidden_layers import classifier_layer, dense_layer, focused, image_shape
from focusing.models.network import Inputs, Network, channels_first
from focusing.nn import Dropout
from focusing.validation import check_regular

VGG16_FILTERS = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""Filters of each convolution; 0 is pooling."""
REMEDY = "give a file with model.weights=PATH, or use model.pretrained=false"
WEIGHTS_URL = "https://download.pytorch.org/models/"


class Transfer(Network):
    r"""Features, global average pooling, a focused or dense hidden layer, a dense output.

    In the paper: VGG16, global average pooling, Hidden(40), Output; all weights are trained.

    Args:
        inputs: (height, width, channels) or (height, width).
        outputs: number of classes.
        features: name of the extractor: ``"vgg16"``, ``"resnet18"`` or ``"small"``.
        pretrained: start from ImageNet weights, not from random ones.
        weights: a state dict with torchvision's names; None: download it.
        hidden: neurons of the hidden layer.
        focus: options of ``FocusedLinear`` for the hidden layer; None makes it dense.
        pad: number of zeros on either side of the features.
        batch_norm: add batch norm before the hidden ReLU.
        dropout: dropout rate after the hidden layer.

    Shape:
        - Input: (N, height, width, channels), or without the channels.
        - Output: (N, outputs).
    """

    features: nn.Module

    def __init__(
        self,
        inputs: Inputs,
        outputs: int,
        *,
        features: Literal["vgg16", "resnet18", "small"] = "vgg16",
        pretrained: bool = True,
        weights: str | Path | None = None,
        hidden: AtLeastOne = 40,
        focus: Mapping[str, Any] | None = None,
        pad: Annotated[int, Ge(0)] = 0,
        batch_norm: bool = True,
        dropout: Share = 0.2,
    ) -> None:
        super().__init__(inputs, outputs, [hidden], locals())
        # A dense twin gets the current features; see match_parameters.
        self._dense_arguments |= {"pretrained": False, "weights": None}
        if weights is not None and not pretrained:
            raise ValueError(
                f"model.weights={weights} is not read when model.pretrained=false: leave one out."
            )
        kind = EXTRACTORS[features]
        height, width, channels = image_shape(self.shape, f"features={features}")
        if min(height, width) < kind.min_size:
            raise ValueError(
                f"features={features} needs images of {kind.min_size}x{kind.min_size} or more, "
                f"these are {height}x{width}."
            )
        self.pad = pad
        self.features = kind.build(channels)
        self.hidden = classifier_layer([kind.filters + 2 * pad], hidden, focus)
        self.norm = nn.BatchNorm1d(hidden) if batch_norm else nn.Identity()
        self.relu = nn.ReLU()
        self.dropout = Dropout(dropout)
        self.output = dense_layer(hidden, outputs)
        if pretrained:
            load_features(self.features, features, weights)

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, height, width, channels) to (N, outputs)."""
        pooled = self.features(channels_first(input)).mean((2, 3))
        hidden = self.norm(self.hidden(functional.pad(pooled, (self.pad, self.pad))))
        return self.output(self.dropout(self.relu(hidden)))  # type: ignore[no-any-return]

    def match_parameters(self) -> Transfer:
        """A fair dense twin, with the current features of this network."""
        twin = super().match_parameters()
        assert isinstance(twin, Transfer)  # noqa: S101 - for the type checker
        twin.features.load_state_dict(self.features.state_dict())
        return twin


dense_transfer = Transfer
focused_transfer = focused(Transfer)


@dataclass(frozen=True)
class Extractor:
    """A feature extractor.

    Args:
        build: builds it for a number of channels; it maps (N, C, H, W) to (N, filters, H', W').
        filters: number of features.
        min_size: minimum height and width of an image.
        prefix: prefix of its parameters' names in a state dict.
        url: address of its ImageNet weights; the name ends with the start of their SHA-256.
    """

    build: Callable[[int], nn.Module]
    filters: int
    min_size: int
    prefix: str = ""
    url: str | None = None


def vgg16(channels: int = 3) -> nn.Sequential:
    """The convolutions of VGG16."""
    layers: list[nn.Module] = []
    for filters in VGG16_FILTERS:
        if filters:
            layers += [_conv(channels, filters), nn.ReLU()]  # not in place, as explainers hook it
            channels = filters
        else:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers)


class ResNet18(nn.Module):
    """ResNet-18 without its last layer."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.conv1 = _conv(channels, 64, size=7, stride=2, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(BasicBlock(64, 64), BasicBlock(64, 64))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512))

    def forward(self, input: Tensor) -> Tensor:
        """Map images (N, C, H, W) to features (N, 512, H / 32, W / 32)."""
        output = self.maxpool(self.relu(self.bn1(self.conv1(input))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            output = stage(output)
        return output  # type: ignore[no-any-return]


class BasicBlock(nn.Module):
    """Two convolutions with a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = _conv(inputs, outputs, stride=stride, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu1 = nn.ReLU()
        self.conv2 = _conv(outputs, outputs, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu2 = nn.ReLU()
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            shortcut = _conv(inputs, outputs, size=1, stride=stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, inputs, H, W) to (N, outputs, H / stride, W / stride)."""
        output = self.relu1(self.bn1(self.conv1(input)))
        output = self.bn2(self.conv2(output))
        shortcut = input if self.downsample is None else self.downsample(input)
        return self.relu2(output + shortcut)  # type: ignore[no-any-return]


def small(channels: int = 3) -> nn.Sequential:
    """Two convolutions, for tests and trial runs."""
    layers = [_conv(channels, 8), nn.ReLU(), nn.MaxPool2d(2), _conv(8, 16), nn.ReLU()]
    return nn.Sequential(*layers)


def _conv(
    inputs: int, outputs: int, size: int = 3, stride: int = 1, bias: bool = True
) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=bias)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)
    return conv


EXTRACTORS = {
    "vgg16": Extractor(vgg16, 512, 32, "features.", WEIGHTS_URL + "vgg16-397923af.pth"),
    "resnet18": Extractor(ResNet18, 512, 1, "", WEIGHTS_URL + "resnet18-f37072fd.pth"),
    "small": Extractor(small, 16, 2, "features."),
}


def load_features(module: nn.Module, name: str, path: str | Path | None = None) -> None:
    """Load pretrained weights into a feature extractor.

    Args:
        module: a feature extractor of :data:`EXTRACTORS`.
        name: its name there.
        path: a state dict with torchvision's names; weights of other layers are ignored.
            None: download the ImageNet weights, once.

    Raises:
        UserError: if the weights are missing or do not fit.
    """
    state, source = (_download(name), name) if path is None else (_read(Path(path)), str(path))
    prefix, expected = EXTRACTORS[name].prefix, module.state_dict()
    for key, value in expected.items():
        weights = state.get(prefix + key)
        if not isinstance(weights, Tensor):
            raise UserError(f"{source} has no {prefix}{key}: these are not weights of {name}.")
        if weights.shape != value.shape:
            raise UserError(
                f"{source}: {prefix}{key} has shape {tuple(weights.shape)}, but this network needs "
                f"{tuple(value.shape)}."
            )
    module.load_state_dict({key: state[prefix + key] for key in expected})


def _read(path: Path) -> Mapping[str, Any]:
    try:
        path = path.expanduser()
        check_regular(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"model.weights={path} cannot be read: {error.strerror}.") from None
    except Exception:  # torch raises many kinds, and advises to load without weights_only
        raise UserError(
            f"model.weights={path} is not a file of weights: give a state dict of torch.save."
        ) from None
    if not isinstance(state, Mapping):
        kind = type(state).__name__
        raise UserError(f"model.weights={path} is not a state dict: it is a {kind}.")
    return state


def _download(name: str) -> Mapping[str, Any]:
    url = EXTRACTORS[name].url
    if url is None:
        raise UserError(f"model.features={name} has no ImageNet weights: {REMEDY}.")
    # Not load_state_dict_from_url, which prints a line even if there is no network.
    file = url.rpartition("/")[2]
    copy = Path(torch.hub.get_dir()) / "checkpoints" / file
    prefix = file.removesuffix(".pth").rpartition("-")[2]
    try:
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(url, str(copy), prefix, progress=sys.stderr.isatty())
    except OSError as error:  # no network, no such host, a full disk
        reason = getattr(error, "reason", None) or error
        raise UserError(f"{url} cannot be downloaded ({reason}): {REMEDY}.") from None
    except RuntimeError as error:
        raise UserError(f"{url} came damaged ({error}): try again, or {REMEDY}.") from None
    try:
        state: Mapping[str, Any] = torch.load(copy, map_location="cpu", weights_only=True)
    except Exception:  # torch raises many kinds
        raise UserError(f"{copy} is damaged: remove it, or {REMEDY}.") from None
    return state
