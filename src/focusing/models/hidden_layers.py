"""Building blocks of the networks: dense or focused layers, and the shape of their inputs."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor, nn

from focusing.models.network import Network
from focusing.nn import FocusedLinear

N = TypeVar("N", bound=Network)
NOT_OPTIONS = ("in_features", "out_features", "device", "dtype")
"""Parameters of ``FocusedLinear`` that are no options of a network."""


def dense_layer(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with He initialisation: U[-b, b] with b = sqrt(6 / inputs), zero biases."""
    layer = nn.Linear(inputs, outputs)
    bound = math.sqrt(6 / inputs)
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.zeros_(layer.bias)
    return layer


def classifier_layer(
    shape: Sequence[int], outputs: int, focus: Mapping[str, Any] | None
) -> nn.Module:
    """A dense or focused layer on top of features.

    Args:
        shape: shape of the features of a sample, before flattening.
        outputs: number of neurons.
        focus: options of ``FocusedLinear``, whose topology may also be a word of
            :func:`resolve_topology`; None: dense.
    """
    inputs = math.prod(shape)
    if focus is None:
        return dense_layer(inputs, outputs)
    topology = resolve_topology(focus.get("topology"), shape)
    return FocusedLinear(inputs, outputs, **{**focus, "topology": topology})


def focused(build: Callable[..., N]) -> Callable[..., N]:
    """A builder that takes options of ``FocusedLinear`` as arguments, not as a mapping ``focus``.

    The schema of ``conf/model`` is derived from its signature.
    """
    signature = inspect.signature(build, eval_str=True)
    parameters = {name: own for name, own in signature.parameters.items() if name != "focus"}
    options = dict(inspect.signature(FocusedLinear, eval_str=True).parameters)
    for name in NOT_OPTIONS:
        del options[name]
    options["bias"] = options["bias"].replace(kind=inspect.Parameter.KEYWORD_ONLY)
    words = options["topology"].annotation | str  # "image" and "sample"
    options["topology"] = options["topology"].replace(annotation=words)
    parameters |= options
    returned = build if inspect.isclass(build) else signature.return_annotation

    def build_focused(*args: Any, **kwargs: Any) -> N:
        focus = {name: kwargs.pop(name) for name in options if name in kwargs}
        return build(*args, focus=focus, **kwargs)

    build_focused.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        list(parameters.values()), return_annotation=returned
    )
    annotations = {name: parameter.annotation for name, parameter in parameters.items()}
    build_focused.__annotations__ = {**annotations, "return": returned}
    build_focused.__doc__ = f"{build.__name__} with options of FocusedLinear."
    return build_focused


def image_shape(shape: Sequence[int], who: str) -> tuple[int, int, int]:
    """Height, width and channels of a sample; ``who`` is the subject of the error message."""
    if len(shape) not in (2, 3):
        raise ValueError(
            f"{who} needs images (height, width, channels), but a sample has shape {tuple(shape)}."
        )
    height, width, channels = (*shape, 1)[:3]
    return height, width, channels


def resolve_topology(topology: Any, shape: Sequence[int]) -> Any:
    """Replace ``"image"`` or ``"sample"`` by the shape of a layer's inputs.

    An image may have channels, which share a position. The last size of a sample is its number of
    channels: (frames, coefficients, 1), (depth, height, width, 1).
    """
    if not isinstance(topology, str):
        return topology
    if topology == "image":
        height, width, channels = image_shape(shape, "topology=image")
        return ((height, width), channels)
    if topology == "previous":
        raise ValueError(
            "topology=previous does not place inputs: use model.later_topology=previous, which "
            "places the neurons of an MLP for its later layers."
        )
    if topology != "sample":
        raise ValueError(
            f"topology={topology} is not image, sample, a shape such as [28, 28], or null."
        )
    *axes, channels = shape
    if not 1 <= len(axes) <= 3:
        raise ValueError(
            "topology=sample needs samples of one to three axes and channels, but a sample has "
            f"shape {tuple(shape)}: use topology=null."
        )
    return (tuple(axes), channels)


class ChannelsLast(nn.Module):
    """Flattens (N, C, H, W) so that the channels of a pixel are neighbours, as in Keras."""

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, H * W * C)."""
        return input.permute(0, 2, 3, 1).flatten(1)
