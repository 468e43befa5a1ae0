"""The layer that focuses or not, as the paper's experiments start it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from focusing.models.images import resolve_topology
from focusing.nn import FocusedLinear

FOCUS_OPTIONS = frozenset(inspect.signature(FocusedLinear).parameters)


def dense_layer(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with weights from U[-b, b], b = sqrt(6 / inputs), and biases of zero (He)."""
    layer = nn.Linear(inputs, outputs)
    bound = math.sqrt(6 / inputs)
    nn.init.uniform_(layer.weight, -bound, bound)
    nn.init.zeros_(layer.bias)
    return layer


def check_dropout(name: str, shares: Sequence[float]) -> None:
    """Refuse a share that no layer can drop.

    Args:
        name: of the option.
        shares: its numbers.
    """
    for share in shares:
        if not 0 <= share < 1:
            raise ValueError(f"model.{name}: {share:g} must be at least 0 and less than 1.")


def classifier_layer(
    shape: Sequence[int], outputs: int, focus: Mapping[str, Any] | None
) -> nn.Module:
    """A layer on top of something.

    Args:
        shape: of what it sees of a sample, before flattening.
        outputs: number of neurons.
        focus: options of ``FocusedLinear``, with ``topology="image"`` for this shape; None: dense.
    """
    inputs = math.prod(shape)
    if focus is None:
        return dense_layer(inputs, outputs)
    topology = resolve_topology(focus.get("topology"), shape)
    return FocusedLinear(inputs, outputs, **{**focus, "topology": topology})


def nest_focus(options: Mapping[str, Any]) -> dict[str, Any]:
    """Put the options of ``FocusedLinear`` among others under ``focus``."""
    focus = {name: value for name, value in options.items() if name in FOCUS_OPTIONS}
    rest = {name: value for name, value in options.items() if name not in FOCUS_OPTIONS}
    return {**rest, "focus": focus}
