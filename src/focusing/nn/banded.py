"""A sparse linear layer whose neurons see neighbouring inputs, for inference."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from focusing.nn.kernels import dots
from focusing.nn.memory import scratch
from focusing.nn.tiles import Tiling, tiling
from focusing.nn.tracing import needs_plain_operations

FEW = 256
"""Samples up to which preparing calls takes as long as the arithmetic."""
MANY = 600_000
"""Inputs of the samples that are computed at once, such that these stay in the cache."""
TRIED = 512
"""Samples at most with which ways are timed."""
ALONE = 8
"""Fewer samples than these may be faster one by one."""
Dense = tuple[Tensor, Tensor | None]


class BandedLinear(nn.Module):
    """Computes ``x W^T + b`` without most of the zeros of W.

    Neurons that need nearly the same inputs make a tile, which is a small dense layer on the slice
    of inputs that they need (or, for images, on a copy of these inputs). The tiles are chosen by
    what they cost; where none pay, there is a single one of everything. Only zeros are left out.

    A dense product makes better use of many threads than small tiles, and on a CPU a single sample
    wants neither, but each neuron's own interval of inputs. So these are timed when a number of
    samples (to within a factor of two, up to 512) comes up for the first time with a number of
    threads, and the fastest is kept until weights change (``weight_0`` or ``bias``): results may
    differ in their last bits between runs, but not under ``torch.use_deterministic_algorithms``,
    which leaves it to the tiles.

    Args:
        weight: (n, m), mostly zero.
        bias: (n,) or None.
        positions: of the inputs, (m, d); None: on a line.
        restore: give outputs in the order of the neurons. False: as ``order`` says, which saves
            a copy if the next layer can be told.

    Shape:
        - Input: (*, m).
        - Output: (*, n).

    Attributes:
        bias: in the order of the tiles, or None.
        order: the neuron that each output belongs to, (n,); None: its own.
        tiles: number of neurons, first input and number of inputs of each tile; first input -1:
            the tile has a list of its inputs.
    """

    bias: Tensor | None
    place: Tensor | None
    order: Tensor | None

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        restore: bool = True,
    ) -> None:
        """Cut the weight into tiles."""
        super().__init__()
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        if positions is None:
            positions = torch.arange(weight.shape[1], device="cpu")[:, None]
        used = (weight != 0).cpu().numpy()
        found = tiling(used, positions.detach().cpu().double().numpy(), restore=restore)
        buffers, tiles = _cut(weight, found)
        rows = None if found.sorted else torch.from_numpy(found.order).to(weight.device)
        if bias is not None:
            buffers["bias"] = bias.clone() if rows is None else bias[rows]
        if rows is not None:
            buffers |= {"place": rows.argsort()} if restore else {"order": rows}
        self._build(weight.shape[1], tiles, buffers)

    def _build(self, inputs: int, tiles: list[list[int]], buffers: dict[str, Tensor]) -> None:
        self.in_features, self.out_features = inputs, sum(rows for rows, _, _ in tiles)
        self.tiles = tiles
        self.sizes = [rows for rows, _, _ in tiles]
        self._names = [
            (f"weight_{index}", None if start >= 0 else f"columns_{index}", start, width)
            for index, (_, start, width) in enumerate(tiles)
        ]
        for name, value in buffers.items():
            self.register_buffer(name, value)
        for name in ("bias", "place", "order"):
            if name not in buffers:
                setattr(self, name, None)  # torch.export miscounts buffers that are None
        self._whole = len(tiles) == 1 and self.work == 1
        self._forget()

    def _forget(self) -> None:
        self._scratch: threading.local | None = None
        self._ways: dict[tuple[int, int], Dense | Intervals | None] = {}
        self._known: tuple[Any, Any, tuple[int, int] | None] = None, None, None

    @classmethod
    def from_tiles(
        cls, inputs: int, tiles: list[list[int]], buffers: dict[str, Tensor]
    ) -> BandedLinear:
        """Put a layer together again.

        Args:
            inputs: its ``in_features``.
            tiles: its ``tiles``.
            buffers: its ``state_dict``.
        """
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer._build(inputs, [list(each) for each in tiles], buffers)
        return layer

    @property
    def work(self) -> float:
        """Share of the n * m products that are computed."""
        done = sum(self.get_buffer(name).numel() for name, *_ in self._names)
        return done / (self.in_features * self.out_features)

    def forward(self, input: Tensor) -> Tensor:
        """Map (*, m) to (*, n)."""
        buffers: Any = self._buffers  # many times faster than attributes
        plain = needs_plain_operations()
        # Slices of wider inputs would fit; torch.jit cannot record such a check.
        if not (plain and torch._C._get_tracing_state()) and input.shape[-1] != self.in_features:
            raise ValueError(
                f"BandedLinear expects inputs (*, {self.in_features}), not {tuple(input.shape)}."
            )
        if self._whole and (plain or input.numel() >= ALONE * self.in_features):
            return functional.linear(input, buffers["weight_0"], buffers.get("bias"))
        way, samples, watched = None, 0, plain or not _may_choose(input)
        if not watched:
            self._look_for_changes()
            samples = min(input.numel() // self.in_features, TRIED)
            kind = samples.bit_length(), torch.get_num_threads()
            way = self._ways.get(kind)
            if isinstance(way, tuple):
                return functional.linear(input, *way)
        x = input if input.dim() == 2 else input.reshape(-1, self.in_features)
        if (
            plain
            or (torch.is_grad_enabled() and x.requires_grad)
            or torch.is_autocast_enabled(x.device.type)
        ):
            y = self._plain(x)
        elif not samples or x.dtype != buffers["weight_0"].dtype:
            y = self._by_tiles(x)
        elif kind not in self._ways:
            self._ways[kind] = self._fastest(x[:samples])
            return self.forward(input)
        else:
            y = way(x) if isinstance(way, Intervals) else self._by_tiles(x)
        return y if input.dim() == 2 else y.view(*input.shape[:-1], self.out_features)

    def _look_for_changes(self) -> None:
        """Forget what is known of other weights, or of these before they changed."""
        buffers: Any = self._buffers
        weight, bias = buffers["weight_0"], buffers.get("bias")
        other = weight if bias is None else bias
        old_weight, old_other, versions = self._known
        same = weight is old_weight and other is old_other
        if same and (versions is None or versions == (weight._version, other._version)):
            return
        self._forget()
        unknown = weight.is_inference() or other.is_inference()
        self._known = weight, other, None if unknown else (weight._version, other._version)

    def _plain(self, x: Tensor) -> Tensor:
        bias = self.bias
        if self._whole:
            return functional.linear(x, *self._whole_operands())
        y = torch.cat([torch.mm(part, weight) for part, weight in self._operands(x)], dim=1)
        y = y if bias is None else y + bias.to(y.dtype)
        return y if self.place is None else y.index_select(1, self.place)

    def _by_tiles(self, x: Tensor) -> Tensor:
        if self._whole:
            return functional.linear(x, *self._whole_operands())
        return self._few(x) if len(x) <= FEW else self._many(x)

    def _fastest(self, x: Tensor) -> Dense | Intervals | None:
        """A dense product, intervals or, None, tiles: what takes these samples least time."""
        known = [way for way in self._ways.values() if way is not None]  # they need memory
        dense = next((way for way in known if isinstance(way, tuple)), None)
        dense = dense or self._whole_operands()
        ways: list[tuple[float, Dense | Intervals | None]] = [
            (_seconds(self._by_tiles, x), None),
            (_seconds(functional.linear, x, *dense), dense),
        ]
        if len(x) < ALONE and x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
            intervals = next((way for way in known if isinstance(way, Intervals)), None)
            intervals = intervals or Intervals(*dense)
            ways.append((_seconds(intervals, x), intervals))
        return min(ways, key=lambda way: way[0])[1]

    @torch.inference_mode(False)  # they must serve outside of it too
    def _whole_operands(self) -> Dense:
        buffers: Any = self._buffers
        if self._whole:
            return buffers["weight_0"], buffers.get("bias")
        weight = buffers["weight_0"].new_zeros(self.out_features, self.in_features)
        parts = weight.split_with_sizes(self.sizes)
        for (name, picked, start, width), own in zip(self._names, parts, strict=True):
            own[:, buffers[picked] if picked else slice(start, start + width)] = buffers[name].t()
        bias, place = self.bias, self.place
        if place is None:
            return weight, bias
        return weight[place], None if bias is None else bias[place]

    def _many(self, x: Tensor) -> Tensor:
        """The product of many samples, some at a time: these stay in the cache for all tiles."""
        bias, place = self.bias, self.place
        y = x.new_empty(len(x), self.out_features)
        step = max(64, MANY // self.in_features)
        room = None
        if place is not None:
            size = min(len(x), step), self.out_features
            room = scratch(math.prod(size), x.dtype, x.device).view(size)
        for first in range(0, len(x), step):
            samples, result = x[first : first + step], y[first : first + step]
            own = result if room is None else room[: len(samples)]
            outs = own.split_with_sizes(self.sizes, 1)
            for (part, weight), out in zip(self._operands(samples), outs, strict=True):
                torch.mm(part, weight, out=out)  # straight to where the result belongs
            if bias is not None:
                own.add_(bias)
            if place is not None:
                torch.index_select(own, 1, place, out=result)
        return y

    def _operands(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Inputs and weights of each tile."""
        buffers: Any = self._buffers  # many times faster than attributes
        return [
            (
                x.index_select(1, buffers[picked]) if picked else x.narrow(1, start, width),
                buffers[weight],
            )
            for weight, picked, start, width in self._names
        ]

    def _few(self, x: Tensor) -> Tensor:
        """The product of few samples, in memory that the next call will use again.

        The time of few samples goes into preparing calls, which slices of such memory need not.
        """
        if self._scratch is None:
            self._scratch = threading.local()
        room = getattr(self._scratch, "room", None)
        kind = x.shape, x.dtype, x.device
        if room is None or room[0] != kind:
            with torch.inference_mode(False):  # it must serve outside of it too
                inputs, y = torch.empty_like(x), x.new_empty(len(x), self.out_features)
            parts = [
                inputs if picked else inputs.narrow(1, start, width)
                for _, picked, start, width in self._names
            ]
            outs = y.split_with_sizes(self.sizes, 1)
            room = kind, inputs, y, list(zip(self._names, parts, outs, strict=True))
            self._scratch.room = room
        _, inputs, y, tiles = room
        inputs.copy_(x)
        buffers: Any = self._buffers
        for (weight, picked, _, _), part, out in tiles:
            needed = part.index_select(1, buffers[picked]) if picked else part
            torch.mm(needed, buffers[weight], out=out)
        if self.bias is not None:
            y.add_(self.bias)
        return y.clone() if self.place is None else y.index_select(1, self.place)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_scratch": None, "_ways": {}, "_known": (None, None, None)}

    def extra_repr(self) -> str:
        """Sizes and what is left to compute."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, tiles={len(self.sizes)}, work={self.work:.3f}"
        )


class Intervals:
    """The product of few samples, each neuron from its first to its last input."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Take what is needed of a weight (n, m), and a bias (n,)."""
        array = weight.numpy()
        neurons, inputs = array.shape
        used = array != 0
        some, columns = used.any(1), np.arange(inputs)
        first = np.where(some, used.argmax(1), 0)
        last = np.where(some, inputs - used[:, ::-1].argmax(1), 0)
        self._weight = array[(columns >= first[:, None]) & (columns < last[:, None])]
        self._table = np.column_stack([first, last, np.cumsum(last - first) - (last - first)])
        self._bias = np.zeros(neurons, array.dtype) if bias is None else bias.numpy().copy()

    def __call__(self, x: Tensor) -> Tensor:
        """Map (b, m) to (b, n)."""
        y = x.new_empty(len(x), len(self._bias))
        inputs = x.detach().contiguous().numpy()
        dots(inputs, self._table, self._weight, self._bias, y.numpy())
        return y


def _may_choose(x: Tensor) -> bool:
    """Whether nobody watches, and results may depend on how long something takes."""
    return (
        not torch.are_deterministic_algorithms_enabled()
        and torch._C._len_torch_dispatch_stack() == 0
        and not (x.is_cuda and torch.cuda.is_current_stream_capturing())
    )


def _seconds(product: Callable[..., Tensor], *operands: Any) -> float:
    """The shortest time of some calls."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        float(product(*operands)[0, 0])  # waits for other devices
        times.append(time.perf_counter() - start)
    return min(times)


def _cut(weight: Tensor, found: Tiling) -> tuple[dict[str, Tensor], list[list[int]]]:
    """The weights of each tile, transposed, as products of few samples are faster so.

    A single tile of everything is a dense layer and stays what it was.
    """
    if len(found.tiles) == 1 and found.tiles[0].width == weight.shape[1]:
        return {"weight_0": weight.clone()}, [[len(weight), 0, weight.shape[1]]]
    buffers, tiles = {}, []
    for index, tile in enumerate(found.tiles):
        rows = weight[torch.from_numpy(tile.rows)]
        if isinstance(tile.columns, slice):
            start, rows = tile.columns.start, rows[:, tile.columns]
        else:
            columns = torch.from_numpy(tile.columns).to(weight.device)
            start, rows = -1, rows[:, columns]
            buffers[f"columns_{index}"] = columns
        # A copy even if it is contiguous already: of a view, files would hold all of the weight.
        buffers[f"weight_{index}"] = rows.t().clone(memory_format=torch.contiguous_format)
        tiles.append([len(tile.rows), start, tile.width])
    return buffers, tiles
