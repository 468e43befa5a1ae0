"""The paper's simple network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from focusing.models.dense import dense_layer
from focusing.nn import FocusedLinear


class MLP(nn.Module):
    r"""Hidden layers that focus or not, each with batch norm, ReLU and dropout; a dense output.

    Args:
        inputs: number of inputs, after flattening.
        outputs: number of classes, or 1 for regression.
        hidden: neurons of each hidden layer.
        focus: options of ``FocusedLinear`` for the hidden layers; None makes them dense. A
            topology is that of the inputs: later layers see the neurons before them on a line.
        batch_norm: normalise each hidden layer before its ReLU.
        input_dropout: share of the inputs dropped in training.
        dropout: share of the outputs dropped after each hidden layer, in their order; those
            without a number drop nothing.

    Shape:
        - Input: (N, \*), flattened.
        - Output: (N, outputs).
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: Sequence[int],
        *,
        focus: Mapping[str, Any] | None = None,
        batch_norm: bool = True,
        input_dropout: float = 0.0,
        dropout: Sequence[float] = (),
    ) -> None:
        super().__init__()
        if not all(neurons > 0 for neurons in hidden):
            raise ValueError(f"hidden={list(hidden)} must be positive numbers of neurons.")
        if len(dropout) > len(hidden):
            raise ValueError(
                f"dropout={list(dropout)} has more numbers than hidden={list(hidden)}."
            )
        options = dict(focus or {})
        layers: dict[str, nn.Module] = {"flatten": nn.Flatten()}
        if input_dropout:
            layers["dropout0"] = nn.Dropout(input_dropout)
        width = inputs
        for index, neurons in enumerate(hidden, start=1):
            if focus is None:
                layers[f"hidden{index}"] = dense_layer(width, neurons)
            else:
                layers[f"hidden{index}"] = FocusedLinear(width, neurons, **options)
                options["topology"] = None
            if batch_norm:
                layers[f"norm{index}"] = nn.BatchNorm1d(neurons)
            layers[f"relu{index}"] = nn.ReLU()
            if index <= len(dropout) and dropout[index - 1]:
                layers[f"dropout{index}"] = nn.Dropout(dropout[index - 1])
            width = neurons
        layers["output"] = dense_layer(width, outputs)
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, *) to (N, outputs)."""
        for layer in self.children():
            input = layer(input)
        return input

    def focused_layers(self) -> dict[str, FocusedLinear]:
        """The focused layers by name, in order."""
        children = self.named_children()
        return {name: layer for name, layer in children if isinstance(layer, FocusedLinear)}


def dense_mlp(inputs: int, outputs: int, **options: Any) -> MLP:
    """An :class:`MLP` without focus."""
    return MLP(inputs, outputs, **options)


def focused_mlp(
    inputs: int,
    outputs: int,
    *,
    hidden: Sequence[int],
    batch_norm: bool = True,
    input_dropout: float = 0.0,
    dropout: Sequence[float] = (),
    **focus: Any,
) -> MLP:
    """An :class:`MLP` that focuses; what is not its own option goes to ``FocusedLinear``."""
    return MLP(
        inputs,
        outputs,
        hidden,
        focus=focus,
        batch_norm=batch_norm,
        input_dropout=input_dropout,
        dropout=dropout,
    )
