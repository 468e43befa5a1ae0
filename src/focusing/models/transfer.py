"""The paper's network for transfer learning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge
from torch import Tensor, nn
from torch.nn import functional

from focusing.config import AtLeastOne, Share
from focusing.models.extractors import EXTRACTORS, load_features
from focusing.models.hidden_layers import classifier_layer, dense_layer, focused, image_shape
from focusing.models.network import Inputs, Network, channels_first


class Transfer(Network):
    r"""Features, their mean over the image, a hidden layer that focuses or not, a dense output.

    The paper: VGG16 - global average pooling - Hidden(40) - Output; all weights are trained.

    Args:
        inputs: (height, width, channels) or (height, width).
        outputs: number of classes.
        features: name of the extractor: ``"vgg16"``, ``"resnet18"`` or ``"small"``.
        pretrained: start with weights from ImageNet, not with random ones.
        weights: a file of weights with torchvision's names; None: download them.
        hidden: neurons of the hidden layer.
        focus: options of ``FocusedLinear`` for the hidden layer; None makes it dense.
        pad: number of zeros on either side of the features.
        batch_norm: normalise the hidden layer before its ReLU.
        dropout: share dropped after the hidden layer.

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
        self._shared |= {"pretrained": False, "weights": None}  # a twin gets present features
        if weights is not None and not pretrained:
            raise ValueError(
                f"model.weights={weights} is not read when model.pretrained=false: leave one out."
            )
        kind = EXTRACTORS[features]
        height, width, channels = image_shape(self.shape, f"features={features}")
        if min(height, width) < kind.smallest:
            raise ValueError(
                f"features={features} needs images of {kind.smallest}x{kind.smallest} or more, "
                f"these are {height}x{width}."
            )
        self.pad = pad
        self.features = kind.build(channels)
        self.hidden = classifier_layer([kind.filters + 2 * pad], hidden, focus)
        self.norm = nn.BatchNorm1d(hidden) if batch_norm else nn.Identity()
        self.relu = nn.ReLU()
        self.dropout = nn.Dropout(dropout)
        self.output = dense_layer(hidden, outputs)
        if pretrained:
            load_features(self.features, features, weights)

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, height, width, channels) to (N, outputs)."""
        pooled = self.features(channels_first(input)).mean((2, 3))
        hidden = self.norm(self.hidden(functional.pad(pooled, (self.pad, self.pad))))
        return self.output(self.dropout(self.relu(hidden)))  # type: ignore[no-any-return]

    def match_parameters(self) -> Transfer:
        """A fair dense twin; it starts with the present features of this network."""
        twin = super().match_parameters()
        assert isinstance(twin, Transfer)  # noqa: S101 - for the type checker
        twin.features.load_state_dict(self.features.state_dict())
        return twin


dense_transfer = Transfer
focused_transfer = focused(Transfer)
