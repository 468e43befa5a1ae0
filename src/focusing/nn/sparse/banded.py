"""A sparse linear layer for inference, whose neurons see neighbouring inputs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from focusing.nn.ops import PLAIN_TYPES, cpu, is_tracing, record_call
from focusing.nn.sparse.tiles import Tiling, choose_tiling

if cpu.AVAILABLE or TYPE_CHECKING:  # blocks need numba
    from focusing.nn.sparse.blocks import Blocks, openmp_team

MAX_TIMED_SAMPLES = 2048
"""Largest batch that candidates are timed with."""
MAX_BLOCKS_WORK = 0.9
"""Share of the n * m products above which blocks are not even timed."""
Product = Callable[[Tensor], Tensor]


class BandedLinear(nn.Module):
    """Computes ``x W^T + b`` and skips most of the zeros of W.

    Neurons that use nearly the same inputs form a tile: a small dense layer on a slice of the
    inputs or, for images, on a gathered copy of them. A cost model chooses the tiles; where they do
    not pay, a single tile holds everything. Only zeros are skipped.

    In float32 on a CPU with numba, the smaller blocks of ``blocks.py`` replace the tiles. The layer
    autotunes: blocks in one thread, blocks in all threads (elsewhere the tiles) and a dense product
    are timed at the first call with a new number of threads or of samples (rounded to a power of
    two, at most 2048). The fastest is kept until ``weight_0`` or ``bias`` change; changes through
    ``.data`` go unnoticed. The choice may change the last bits of the results between runs.
    ``torch.use_deterministic_algorithms`` takes the blocks, or tiles, without timing.

    Some zeros are multiplied too, so an infinite or NaN input may reach neurons that do not see it.
    Autotuning needs memory for the dense W.

    Args:
        weight: (n, m), mostly zero.
        bias: (n,) or None.
        positions: positions of the inputs, (m, d); None: on a line.
        restore: return the outputs in the order of the neurons. False returns them in the order of
            the attribute ``order`` and saves a copy, if the next layer can be permuted instead.

    Shape:
        - Input: (*, m).
        - Output: (*, n).

    Attributes:
        bias: in the order of the tiles, or None.
        order: the neuron of each output, (n,); None if outputs are in the order of the neurons.
        tiles: number of neurons, first input and number of inputs of each tile; a first input of
            -1 means that the buffer ``columns_<tile>`` lists the inputs.
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
        super().__init__()
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        if positions is None:
            positions = torch.arange(weight.shape[1], device="cpu")[:, None]
        used = (weight != 0).cpu().numpy()
        tiling = choose_tiling(used, positions.detach().cpu().double().numpy(), restore=restore)
        buffers, tiles = _cut(weight, tiling)
        rows = None if tiling.sorted else torch.from_numpy(tiling.order).to(weight.device)
        if bias is not None:
            buffers["bias"] = bias.clone() if rows is None else bias[rows]
        if rows is not None:
            buffers |= {"place": rows.argsort()} if restore else {"order": rows}
        self._build(weight.shape[1], tiles, buffers)

    def _build(self, inputs: int, tiles: list[list[int]], buffers: dict[str, Tensor]) -> None:
        self.in_features, self.out_features = inputs, sum(rows for rows, _, _ in tiles)
        self.tiles = tiles
        self.sizes = [rows for rows, _, _ in tiles]
        self._tile_buffers = [
            (f"weight_{index}", None if start >= 0 else f"columns_{index}", start, width)
            for index, (_, start, width) in enumerate(tiles)
        ]
        for name, value in buffers.items():
            with torch.inference_mode(False):  # inference tensors do not count their versions
                self.register_buffer(name, value.clone() if value.is_inference() else value)
        for name in ("bias", "place", "order"):
            if name not in buffers:
                setattr(self, name, None)  # torch.export miscounts buffers that are None
        self._is_dense = len(tiles) == 1 and self.work == 1
        self._autotune: _Autotune | None = None

    @classmethod
    def from_tiles(
        cls, inputs: int, tiles: list[list[int]], buffers: dict[str, Tensor]
    ) -> BandedLinear:
        """Rebuild a layer from its ``in_features``, its ``tiles`` and its ``state_dict``."""
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer._build(inputs, [list(tile) for tile in tiles], buffers)
        return layer

    @property
    def work(self) -> float:
        """Share of the n * m products that are computed."""
        computed = sum(self.get_buffer(name).numel() for name, *_ in self._tile_buffers)
        return computed / (self.in_features * self.out_features)

    def forward(self, input: Tensor) -> Tensor:
        """Map (*, m) to (*, n)."""
        tracing = is_tracing(input)
        if isinstance(input, fx.Proxy):  # it has no shape yet
            recorded = record_call(self, input)
            return self._by_tiles(input) if recorded is None else recorded
        if input.shape[-1] != self.in_features:  # slices of wider inputs would fit
            raise ValueError(
                f"BandedLinear expects inputs (*, {self.in_features}), not {tuple(input.shape)}."
            )
        x = input if input.dim() == 2 else input.reshape(-1, self.in_features)
        y = self._by_tiles(x) if tracing or not self._can_autotune(x) else self._fastest(x)(x)
        return y if input.dim() == 2 else y.view(*input.shape[:-1], self.out_features)

    def _can_autotune(self, x: Tensor) -> bool:
        """Whether any product may be used: no gradients, dispatch modes or unusual tensors."""
        buffers: Any = self._buffers  # much faster than attributes
        weight, bias = buffers["weight_0"], buffers.get("bias")
        operands = (x, weight) if bias is None else (x, weight, bias)
        return (
            x.dtype == weight.dtype
            and x.device == weight.device
            and type(x) in PLAIN_TYPES
            and type(weight) in PLAIN_TYPES
            and x.shape[0] > 0
            and not (torch.is_grad_enabled() and any(t.requires_grad for t in operands))
            and x.layout is torch.strided
            and not (x.is_meta or x.is_neg() or x._is_zerotensor())
            and not weight.is_inference()  # its changes would go unnoticed
            and not torch._C._is_any_autocast_enabled()
            and torch._C._len_torch_dispatch_stack() == 0
            and not (x.is_cuda and torch.cuda.is_current_stream_capturing())
        )

    def _fastest(self, x: Tensor) -> Product:
        """The fastest product for this batch size and number of threads, timed once."""
        tuned = self._tuned()
        samples, threads = min(x.shape[0], MAX_TIMED_SAMPLES), torch.get_num_threads()
        deterministic = torch._C._get_deterministic_algorithms()
        key = samples.bit_length(), threads, deterministic
        product = tuned.products.get(key)
        if product is None:
            *others, product = self._candidates(tuned, x, threads)
            if others and not deterministic:
                product = min([product, *others], key=lambda one: _seconds(one, x[:samples]))
            tuned.products[key] = product
        return product

    def _tuned(self) -> _Autotune:
        """The autotuning results, which are reset if weights were replaced or changed."""
        buffers: Any = self._buffers
        weight, bias = buffers["weight_0"], buffers.get("bias")
        tuned, bias = self._autotune, weight if bias is None else bias
        if (
            tuned is None
            or tuned.weight is not weight
            or tuned.bias is not bias
            or tuned.versions != (weight._version, bias._version)
        ):
            tuned = self._autotune = _Autotune(weight, bias, (weight._version, bias._version))
        return tuned

    def _candidates(self, tuned: _Autotune, x: Tensor, threads: int) -> list[Product]:
        """Products to time; the last is the choice where timing is not allowed."""
        kept = (product for product in list(tuned.products.values()) if isinstance(product, Dense))
        dense = next(kept, None) or Dense(*self._dense())
        if not cpu.AVAILABLE or x.device.type != "cpu" or x.dtype != torch.float32:
            return [dense] if self._is_dense else [dense, self._by_tiles]
        if tuned.blocks is None:
            tuned.blocks = Blocks(*dense.operands)
        if tuned.blocks.work > MAX_BLOCKS_WORK:
            return [dense]
        threaded = [partial(tuned.blocks, threads=threads)] if threads > 1 and openmp_team() else []
        return [dense, tuned.blocks, *threaded]

    @torch.inference_mode(False)  # they may be used outside of it later
    def _dense(self) -> tuple[Tensor, Tensor | None]:
        """The dense weight (n, m) and the bias, in the order of the outputs."""
        buffers: Any = self._buffers
        if self._is_dense:
            return buffers["weight_0"], buffers.get("bias")
        bias, place = self.bias, self.place
        with torch.no_grad():
            weight = buffers["weight_0"].new_zeros(self.out_features, self.in_features)
            tiles = weight.split_with_sizes(self.sizes)
            for (name, index, start, width), tile in zip(self._tile_buffers, tiles, strict=True):
                columns = buffers[index] if index else slice(start, start + width)
                tile[:, columns] = buffers[name].t()
            if place is None:
                return weight, bias
            return weight[place], None if bias is None else bias[place]

    def _by_tiles(self, x: Tensor) -> Tensor:
        buffers: Any = self._buffers
        if self._is_dense:
            return functional.linear(x, buffers["weight_0"], buffers.get("bias"))
        # One dense product per tile, on a view of its inputs or on a gathered copy.
        outputs = [
            torch.matmul(
                x.index_select(-1, buffers[index]) if index else x.narrow(-1, start, width),
                buffers[weight],
            )
            for weight, index, start, width in self._tile_buffers
        ]
        y, bias, place = torch.cat(outputs, dim=-1), self.bias, self.place
        y = y if bias is None else y + bias.to(y.dtype)
        return y if place is None else y.index_select(-1, place)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[no-untyped-call]
        return {**state, "_autotune": None}

    def extra_repr(self) -> str:
        """Sizes, number of tiles, and share of the products that are computed."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, tiles={len(self.sizes)}, work={self.work:.3f}"
        )


@dataclass
class _Autotune:
    """The fastest products for one version of the weights.

    A thread that finishes after the weights have changed writes into an abandoned instance.
    """

    weight: Tensor
    bias: Tensor  # the weight, if there is no bias
    versions: tuple[int, int]
    products: dict[tuple[int, int, bool], Product] = field(default_factory=dict)
    blocks: Blocks | None = None


class Dense:
    """The dense product."""

    def __init__(self, *operands: Tensor | None) -> None:
        self.operands: Any = operands

    def __call__(self, x: Tensor) -> Tensor:
        """Map (b, m) to (b, n)."""
        return functional.linear(x, *self.operands)


def _seconds(product: Product, x: Tensor) -> float:
    """Minimum over 6 to 60 calls."""
    times: list[float] = []
    while len(times) < 6 or (len(times) < 60 and sum(times) < 0.003):
        start = time.perf_counter()
        product(x)[0, 0].item()  # synchronises with a GPU
        times.append(time.perf_counter() - start)
    return min(times)


def _cut(weight: Tensor, tiling: Tiling) -> tuple[dict[str, Tensor], list[list[int]]]:
    """Buffers and layout of the tiles; weights are transposed, which is faster for few samples.

    A single tile of everything is a dense layer and keeps its layout.
    """
    if len(tiling.tiles) == 1 and tiling.tiles[0].width == weight.shape[1]:
        return {"weight_0": weight.clone()}, [[len(weight), 0, weight.shape[1]]]
    buffers, tiles = {}, []
    for index, tile in enumerate(tiling.tiles):
        rows = weight[torch.from_numpy(tile.rows)]
        if isinstance(tile.columns, slice):
            start, rows = tile.columns.start, rows[:, tile.columns]
        else:
            columns = torch.from_numpy(tile.columns).to(weight.device)
            start, rows = -1, rows[:, columns]
            buffers[f"columns_{index}"] = columns
        # Clone even if contiguous: saving a view would save all of the weight.
        buffers[f"weight_{index}"] = rows.t().clone(memory_format=torch.contiguous_format)
        tiles.append([len(tile.rows), start, tile.width])
    return buffers, tiles
