"""A network behind dynamic foci, which sees each sample through windows that follow the input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from torch import Tensor

from focusing.errors import UserError
from focusing.instantiate import check_arguments, instantiate
from focusing.models.network import Network
from focusing.nn import DynamicFocus, SpatialTransformer, WindowReader, Windows

READERS: dict[str, type[WindowReader]] = {"focus": DynamicFocus, "stn": SpatialTransformer}
"""Window readers by ``model.dynamic.kind``."""


class DynamicNetwork(Network):
    r"""Dynamic foci, then any network on the windows that they read.

    Args:
        focus: reads windows of the samples.
        net: a network on the windows.
        frame: shape of a sample, channels last.
        axes: axes along which windows move; the other axes are channels for ``focus``, and axes
            again for ``net``. None: all.

    Shape:
        - Input: (N, \*frame).
        - Output: (N, outputs).
    """

    def __init__(
        self,
        focus: WindowReader,
        net: Network,
        frame: Sequence[int],
        axes: Sequence[int] | None = None,
    ) -> None:
        super().__init__(frame, net.outputs, net.widths)
        self.focus, self.net = focus, net
        self.axes = tuple(range(len(frame) - 1) if axes is None else axes)
        self.rest = tuple(axis for axis in range(len(frame) - 1) if axis not in self.axes)
        self._first = list(range(1, 1 + len(self.axes)))

    def forward(self, input: Tensor) -> Tensor:
        """Map (N, *frame) to (N, outputs)."""
        output: Tensor = self.net(self._restore_axes(self.focus(self._axes_first(input))))
        return output

    def windows(self, input: Tensor) -> Windows:
        """The windows of each sample; they cover the axes along which they do not move."""
        windows = self.focus.windows(self._axes_first(input))
        if not self.rest:
            return windows
        whole = []
        for values, filler in zip(windows, (0.5, 1.0, 0.0), strict=True):
            frame = values.new_full((*values.shape[:2], len(self.shape) - 1), filler)
            frame[..., list(self.axes)] = values
            whole.append(frame)
        return Windows(*whole)

    def _axes_first(self, input: Tensor) -> Tensor:
        """Samples as ``focus`` takes them: its axes first, the others merged with the channels."""
        if not self.rest:
            return input
        places = [1 + axis for axis in self.axes]
        return input.movedim(places, self._first).flatten(1 + len(self.axes))

    def _restore_axes(self, read: Tensor) -> Tensor:
        """Windows with the axes of the samples; glimpses are channels."""
        if not self.rest:
            return read
        sizes = [self.shape[axis] for axis in self.rest]
        read = read.reshape(*read.shape[:-1], self.focus.glimpses, *sizes, self.shape[-1])
        read = read.movedim(1 + len(self.axes), -2).flatten(-2)
        return read.movedim(self._first, [1 + axis for axis in self.axes])

    def _dense(self, widths: Sequence[int]) -> Network:
        """The dense twin has no foci of either kind: it sees the whole frame."""
        net = copy(self.net)
        net._dense_arguments = {**net._dense_arguments, "inputs": self.shape}
        return net._dense(widths)


def build_network(options: Mapping[str, Any], **sizes: Any) -> Network:
    """Build the network of a config.

    Args:
        options: ``_target_`` and its options. ``dynamic`` puts dynamic foci before the network: it
            has ``axes``, along which windows move, and options of :class:`focusing.DynamicFocus`
            or, with ``kind: stn``, of a spatial transformer.
        **sizes: sizes from the data: ``inputs``, ``outputs``, ``vocabulary``.
    """
    model = {name: value for name, value in options.items() if name != "dynamic"}
    if options.get("dynamic") is None:
        return instantiate(model, Network, **sizes)
    dynamic = dict(options["dynamic"])
    frame = tuple(sizes.get("inputs") or model.pop("inputs"))
    if "vocabulary" in sizes or len(frame) < 2:
        raise UserError(
            f"model.dynamic needs samples with a shape, such as images: these have {frame}. Use "
            "model.dynamic=null."
        )
    *shape, channels = frame
    axes = _parse_axes(dynamic.pop("axes", None), shape)
    kind = dynamic.pop("kind", "focus")
    if kind not in READERS:
        raise UserError(f"model.dynamic.kind={kind} is not one of {', '.join(READERS)}.")
    check_arguments(READERS[kind], dynamic)
    inner = [size for axis, size in enumerate(shape) if axis not in axes]
    topology = tuple(shape[axis] for axis in axes), channels * math.prod(inner)
    try:
        focus = READERS[kind](topology, **dynamic)
    except (TypeError, ValueError) as error:
        raise UserError(f"model.dynamic: {error}") from None
    for axis, points in zip(axes, focus.grid, strict=True):
        shape[axis] = points
    window = (*shape, channels * focus.glimpses)
    net = instantiate(model, Network, **{**sizes, "inputs": window})
    return DynamicNetwork(focus, net, frame, axes)


def _parse_axes(axes: Any, shape: Sequence[int]) -> list[int]:
    """The axes along which windows move, in order."""
    known = list(range(len(shape)))
    if axes is None:
        return known
    if not isinstance(axes, list) or not axes or [axis for axis in known if axis in axes] != axes:
        raise UserError(
            f"model.dynamic.axes={axes} must name axes of a sample in order: from 0 to "
            f"{len(shape) - 1}."
        )
    return axes
