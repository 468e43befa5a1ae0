"""A network behind dynamic foci: it sees each sample through windows that follow the input."""

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
"""What may read the windows: ``model.dynamic.kind``."""


class DynamicNetwork(Network):
    r"""Dynamic foci, then any network on what they read.

    Args:
        focus: reads windows of the samples.
        net: a network on the windows.
        frame: shape of a sample, channels last.
        axes: those along which windows move; the others are channels of ``focus``, and are axes
            again behind it. None: all.

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
        output: Tensor = self.net(self._restored(self.focus(self._moved(input))))
        return output

    def windows(self, input: Tensor) -> Windows:
        """Where each sample is looked at; all of an axis along which windows do not move."""
        windows = self.focus.windows(self._moved(input))
        if not self.rest:
            return windows
        whole = []
        for values, filler in zip(windows, (0.5, 1.0, 0.0), strict=True):
            frame = values.new_full((*values.shape[:2], len(self.shape) - 1), filler)
            frame[..., list(self.axes)] = values
            whole.append(frame)
        return Windows(*whole)

    def _moved(self, input: Tensor) -> Tensor:
        """Samples as ``focus`` takes them: its axes first, the others among the channels."""
        if not self.rest:
            return input
        places = [1 + axis for axis in self.axes]
        return input.movedim(places, self._first).flatten(1 + len(self.axes))

    def _restored(self, read: Tensor) -> Tensor:
        """Windows with the axes of the samples; glimpses are channels."""
        if not self.rest:
            return read
        sizes = [self.shape[axis] for axis in self.rest]
        read = read.reshape(*read.shape[:-1], self.focus.glimpses, *sizes, self.shape[-1])
        read = read.movedim(1 + len(self.axes), -2).flatten(-2)
        return read.movedim(self._first, [1 + axis for axis in self.axes])

    def _dense(self, widths: Sequence[int]) -> Network:
        """The twin has no foci of either kind: it sees the whole frame."""
        whole = copy(self.net)
        whole._shared = {**whole._shared, "inputs": self.shape}
        return whole._dense(widths)


def build_network(options: Mapping[str, Any], **sizes: Any) -> Network:
    """Make the network of a config.

    Args:
        options: ``_target_`` and its options; ``dynamic`` puts dynamic foci before the network:
            options of :class:`focusing.DynamicFocus`, or with ``kind: stn`` of a spatial
            transformer, and ``axes``, those along which windows move.
        **sizes: what the data supplies: ``inputs``, ``outputs``, ``vocabulary``.
    """
    own = {name: value for name, value in options.items() if name != "dynamic"}
    if options.get("dynamic") is None:
        return instantiate(own, Network, **sizes)
    dynamic = dict(options["dynamic"])
    frame = tuple(sizes.get("inputs") or own.pop("inputs"))
    if "vocabulary" in sizes or len(frame) < 2:
        raise UserError(
            f"model.dynamic needs samples with a shape, such as images: these have {frame}. Use "
            "model.dynamic=null."
        )
    *shape, channels = frame
    axes = _read_axes(dynamic.pop("axes", None), shape)
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
    net = instantiate(own, Network, **{**sizes, "inputs": window})
    return DynamicNetwork(focus, net, frame, axes)


def _read_axes(axes: Any, shape: Sequence[int]) -> list[int]:
    """The axes along which windows move, in order."""
    if axes is None:
        return list(range(len(shape)))
    known = list(range(len(shape)))
    if not isinstance(axes, list) or not axes or [axis for axis in known if axis in axes] != axes:
        raise UserError(
            f"model.dynamic.axes={axes} must name axes of a sample in order: from 0 to "
            f"{len(shape) - 1}."
        )
    return axes
