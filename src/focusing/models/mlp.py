"""The paper's simple network, a multilayer perceptron."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch import Tensor, nn

from focusing.config import Share
from focusing.models.hidden_layers import dense_layer, focused, resolve_topology
from focusing.models.network import Inputs, Network
from focusing.nn import AnchoredLinear, Dropout, FocusedLinear
from focusing.nn.init import initial_mu
from focusing.nn.ops.matmul import call_layer


class MLP(Network):
    r"""Focused or dense hidden layers, each with batch norm, ReLU and dropout; a dense output.

    Args:
        inputs: number of inputs, or the shape of a sample, which is flattened.
        outputs: number of classes, or 1 for regression.
        hidden: neurons of each hidden layer; a number means one layer.
        focus: options of ``FocusedLinear`` for the hidden layers; None makes them dense. The
            topology describes the inputs; ``"image"`` and ``"sample"`` take the sample's shape.
        later_topology: positions of the neurons for the layers after the first: on a ``"line"``;
            on the ``"grid"`` where ``mu="spread"`` puts their centres; or with ``"previous"`` at
            their current centres.
        later_sigma: initial apertures of the layers after the first; None: as in the first.
        focus_layers: which hidden layers are focused: ``"all"``, or only the ``"first"``, whose
            inputs have meaningful positions.
        anchored: number of taps along each axis of an ``AnchoredLinear``, whose weights move with
            the focus; None: ``FocusedLinear``.
        batch_norm: add batch norm before each hidden ReLU.
        input_dropout: dropout rate of the inputs.
        dropout: dropout rate after each hidden layer, in order; layers without a number have none.

    Shape:
        - Input: (N, \*), flattened.
        - Output: (N, outputs).
    """

    def __init__(
        self,
        inputs: Inputs,
        outputs: int,
        hidden: int | Sequence[int],
        *,
        focus: Mapping[str, Any] | None = None,
        later_topology: Literal["line", "grid", "previous"] = "line",
        later_sigma: Any = None,
        focus_layers: Literal["all", "first"] = "all",
        anchored: int | None = None,
        batch_norm: bool = True,
        input_dropout: Share = 0.0,
        dropout: Sequence[Share] = (),
    ) -> None:
        arguments = locals()
        hidden = [hidden] if isinstance(hidden, int) else hidden
        super().__init__(inputs, outputs, hidden, arguments)
        if len(dropout) > len(hidden):
            raise ValueError(
                f"dropout={list(dropout)} has more numbers than hidden={list(hidden)}: use "
                f"model.dropout={list(dropout)[: len(hidden)]}."
            )
        if later_topology != "line" and focus_layers == "first":
            raise ValueError(
                f"later_topology={later_topology} needs later layers that are focused: use "
                "model.focus_layers=all."
            )
        options = dict(focus or {})
        if "topology" in options:
            options["topology"] = resolve_topology(options["topology"], self.shape)
        layers: dict[str, nn.Module] = {"flatten": nn.Flatten()}
        if input_dropout:
            layers["dropout0"] = Dropout(input_dropout)
        width = self.inputs
        for index, neurons in enumerate(hidden, start=1):
            if focus is None or (focus_layers == "first" and index > 1):
                layers[f"hidden{index}"] = dense_layer(width, neurons)
            else:
                layer = (
                    FocusedLinear(width, neurons, **options)
                    if anchored is None
                    else AnchoredLinear(width, neurons, taps=anchored, **options)
                )
                layers[f"hidden{index}"] = layer
                options["topology"] = _positions(layer, later_topology)
                if later_sigma is not None:
                    options["sigma"] = later_sigma
            if batch_norm:
                layers[f"norm{index}"] = nn.BatchNorm1d(neurons)
            layers[f"relu{index}"] = nn.ReLU()
            if index <= len(dropout) and dropout[index - 1]:
                layers[f"dropout{index}"] = Dropout(dropout[index - 1])
            width = neurons
        layers["output"] = dense_layer(width, outputs)
        for name, module in layers.items():
            self.add_module(name, module)

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, *) to (N, outputs)."""
        for layer in self.children():
            input = call_layer(layer, input)
        return input


def _positions(layer: FocusedLinear, topology: str) -> Tensor | FocusedLinear | None:
    """Positions of a layer's neurons, as the next layer takes them."""
    if topology != "grid":
        return layer if topology == "previous" else None
    (foci, axes), (_, margin, _) = layer.mu.shape, layer._initial_foci
    # Not the initial mu, which may be random: a network from a file would have other positions.
    grid = initial_mu("spread", foci, axes, layer.mu_range, margin)
    return grid.repeat_interleave(layer.units_per_focus, dim=0)


def dense_mlp(
    inputs: Inputs,
    outputs: int,
    hidden: int | Sequence[int],
    *,
    batch_norm: bool = True,
    input_dropout: float = 0.0,
    dropout: Sequence[float] = (),
) -> MLP:
    """An :class:`MLP` without focus."""
    return MLP(**locals())


focused_mlp = focused(MLP)
