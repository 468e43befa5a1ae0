"""A network behind dynamic foci: it sees each sample through windows that follow the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from torch import Tensor

from focusing.errors import UserError
from focusing.instantiate import check_arguments, instantiate
from focusing.models.network import Network
from focusing.nn import DynamicFocus


class DynamicNetwork(Network):
    r"""Dynamic foci, then any network on what they read.

    Args:
        focus: reads windows of the samples.
        net: a network on the windows.
        frame: shape of a sample.

    Shape:
        - Input: (N, \*frame).
        - Output: (N, outputs).
    """

    def __init__(self, focus: DynamicFocus, net: Network, frame: Sequence[int]) -> None:
        super().__init__(frame, net.outputs, net.widths)
        self.focus, self.net = focus, net

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, *frame) to (N, outputs)."""
        output: Tensor = self.net(self.focus(input))
        return output

    def _dense(self, widths: Sequence[int]) -> Network:
        """The twin has no foci of either kind: it sees the whole frame."""
        whole = copy(self.net)
        whole.shape = self.shape
        return whole._dense(widths)


def build_network(options: Mapping[str, Any], **sizes: Any) -> Network:
    """Make the network of a config.

    Args:
        options: ``_target_`` and its options; ``dynamic`` puts dynamic foci before the network.
        **sizes: what the data supplies: ``inputs``, ``outputs``, ``vocabulary``.
    """
    own = {name: value for name, value in options.items() if name != "dynamic"}
    dynamic = options.get("dynamic")
    if dynamic is None:
        return instantiate(own, Network, **sizes)
    frame = tuple(sizes.get("inputs") or own.pop("inputs"))
    if "vocabulary" in sizes or len(frame) < 2:
        raise UserError(
            f"model.dynamic needs samples with a shape, such as images: these have {frame}. Use "
            "model.dynamic=null."
        )
    *axes, channels = frame
    check_arguments(DynamicFocus, dynamic)
    try:
        focus = DynamicFocus((tuple(axes), channels), **dynamic)
    except (TypeError, ValueError) as error:
        raise UserError(f"model.dynamic: {error}") from None
    window = (*focus.grid, channels * focus.glimpses)
    net = instantiate(own, Network, **{**sizes, "inputs": window})
    return DynamicNetwork(focus, net, frame)
