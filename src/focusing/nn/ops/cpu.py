"""The CPU engine: numba kernels compute the effective weights, torch multiplies with them.

A focused neuron sees one contiguous interval of inputs. Neurons sorted by their centres therefore
form a band matrix. A :class:`Plan` cuts it into slabs of neighbouring neurons, and each slab is a
dense matrix product on a slice of the inputs. A plan is reused until a focus leaves its slab.
"""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focusing.nn.focus import NORMALIZERS
from focusing.nn.ops import operands_match
from focusing.nn.ops.fused import Gradients, gradients_with_graph
from focusing.nn.ops.matmul import addmm_, mm

try:
    import numba

    AVAILABLE = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]
except ImportError:
    AVAILABLE = False
if AVAILABLE:  # as plain Python the kernels would take minutes
    from focusing.nn.ops import kernels

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

BLOCK = 16  # matrix products are fastest on multiples of this many neurons and inputs
SLAB_BLOCKS = 6  # blocks per slab: smaller slabs fit the band better, but each costs a call
MAX_BAND_SHARE = 0.8  # share of the n * m products above which one dense product is faster
MIN_POOLED = 2**14  # values below which malloc is as fast as a buffer pool
NO_MASK = np.empty((0, 0), np.bool_)
_listeners: list[Any] = []


class Slab(NamedTuple):
    """Some neurons and the slice of inputs that they see.

    Attributes:
        rows: the neurons, in the order of the plan.
        columns: the inputs.
        values: where its weights are in the flat vector of all slabs.
    """

    rows: slice
    columns: slice
    values: slice

    def view(self, vector: Tensor) -> Tensor:
        """Its weights in the flat vector of all slabs, as a matrix (rows, columns)."""
        return vector[self.values].view(-1, self.columns.stop - self.columns.start)


class Plan:
    """A partition of the neurons into slabs.

    Attributes:
        is_dense: whether one slab holds all neurons, in their order, and all inputs.
        slabs: the slabs.
        order: neurons in the order of the slabs; None: in their own order.
        size: number of weights in all slabs.
        table: neuron, first input, end of the inputs, and offset in the flat vector of all slabs
            of each row, (n, 4).
    """

    def __init__(self, edges: Ints, start: Ints, stop: Ints, order: Ints, *, dense: bool) -> None:
        """Make slabs that begin at the rows ``edges`` and see the inputs from start to stop."""
        rows, columns = np.diff(edges, append=len(order)), stop - start
        ends = np.cumsum(rows * columns)
        offsets = ends - rows * columns
        limits = (values.tolist() for values in (edges, edges + rows, start, stop, offsets, ends))
        self.slabs = [
            Slab(slice(row, below), slice(first, last), slice(offset, end))
            for row, below, first, last, offset, end in zip(*limits, strict=True)
        ]
        row_in_slab = np.arange(len(order)) - edges.repeat(rows)
        offset = offsets.repeat(rows) + row_in_slab * columns.repeat(rows)
        self.is_dense, self.size = dense, int(ends[-1])
        with torch.inference_mode(False):  # training may use it later
            self.order = None if (np.diff(order) == 1).all() else torch.from_numpy(order)
        self.table = np.column_stack([order, start.repeat(rows), stop.repeat(rows), offset])


def _band(centers: Floats, widths: Floats, radius: Floats, line: Floats) -> tuple[Ints, ...]:
    """Edges, first and last inputs of slabs and the order of neurons: arguments of a Plan.

    The foci see ``radius`` to either side of their centres on a line of inputs.
    """
    order, edges = _sorted_neurons(centers, widths), _slab_edges(len(centers))
    left = np.minimum.reduceat((centers - radius)[order], edges)
    right = np.maximum.reduceat((centers + radius)[order], edges)
    start = np.searchsorted(line, left) // BLOCK * BLOCK
    stop = np.searchsorted(line, right, side="right")
    stop = np.minimum(-(-stop // BLOCK) * BLOCK, len(line))
    return edges, start, stop, order


def _slab_edges(neurons: int) -> Ints:
    """First neuron of every slab: slabs of nearly equal size, in whole blocks."""
    blocks = -(-neurons // BLOCK)
    count = max(1, round(blocks / SLAB_BLOCKS))
    return np.arange(count) * blocks // count * BLOCK


def _sorted_neurons(centers: Floats, widths: Floats) -> Ints:
    """Sort by centre, and wide foci apart from narrow ones: a slab is as wide as its widest."""
    if widths.max() > 4 * widths.min():
        return np.lexsort((centers, np.floor(np.log2(widths) / 2)))
    return np.argsort(centers, kind="stable")


class CpuEngine:
    """Computes a focused layer on the CPU; keeps its memory between steps.

    Args:
        tau: positions of the inputs, (m, d).
        regular: whether they form a grid.
        normalizer: name of the normaliser.
        cutoff: bands skip inputs whose coefficient is below this share of the neuron's largest.
        bands: ``"always"``, ``"auto"`` (while bands are narrow enough to pay) or ``"never"``.
    """

    def __init__(
        self, tau: Tensor, *, regular: bool, normalizer: str, cutoff: float, bands: str
    ) -> None:
        """Copy the positions."""
        self.tau = tau.detach().numpy().T.copy()  # (d, m); not a view, as storages may move
        self.normalizer, self.pool = normalizer, BufferPool()
        self._radius, self._bands = math.sqrt(-2 * math.log(cutoff)), bands  # in sigma
        self._line: Floats = self.tau[0].astype(np.float64)
        gaps = np.diff(self._line)
        # Bands need inputs that are sorted along the first axis.
        if (gaps < 0).any() or not (regular or len(self.tau) == 1):
            self._bands = "never"
        # The cutoff is relative to the nearest input, which is at most this far from a centre.
        self._half_gap = gaps.max(initial=0.0) / 2
        self._dense: Plan | None = None
        self._latest: tuple[tuple[Ints, ...], Plan] | None = None

    def __call__(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        mu: Tensor,
        sigma: Tensor,
        mask: Tensor | None,
    ) -> Tensor:
        """Map x (b, m) to (b, n); see ``functional.focused_linear``."""
        y: Tensor = NumbaLinear.apply(  # type: ignore[no-untyped-call]
            x, weight, bias, mu, sigma, mask, self, self.plan(mu, sigma)
        )
        return y

    def plan(self, mu: Tensor, sigma: Tensor) -> Plan:
        """The plan for these foci, (n, d).

        It depends on nothing else, neither on earlier steps nor on evaluations between them. Else a
        resumed run would sum in another order and get other bits.
        """
        if self._bands == "never":
            return self._dense_plan(len(mu))
        line = self._line
        with np.errstate(all="ignore"):  # diverged foci give NaN, as weights do
            centers: Floats = as_array(mu)[:, 0].astype(np.float64)
            centers = centers.clip(line[0], line[-1])  # a centre outside sees the border
            widths: Floats = np.abs(as_array(sigma)[:, 0].astype(np.float64))
            radius = widths * self._radius + self._half_gap
            if not (np.isfinite(centers).all() and np.isfinite(radius).all()):
                return self._dense_plan(len(mu))
            band = edges, start, stop, _ = _band(centers, widths, radius, line)
        size = np.diff(edges, append=len(mu)) @ (stop - start)
        if self._bands == "auto" and size >= MAX_BAND_SHARE * len(mu) * len(line):
            return self._dense_plan(len(mu))
        latest = self._latest  # read once: other threads may replace it
        if latest is None or not all(map(np.array_equal, latest[0], band)):
            self._latest = latest = band, Plan(*band, dense=False)
        return latest[1]

    def _dense_plan(self, neurons: int) -> Plan:
        if self._dense is None or len(self._dense.table) != neurons:
            first, inputs = np.zeros(1, np.intp), np.full(1, len(self._line))
            self._dense = Plan(first, first, inputs, np.arange(neurons), dense=True)
        return self._dense


def on_first_compile(callback: Callable[[], Any]) -> None:
    """Call back once, when numba next compiles a kernel in this process."""
    if not AVAILABLE:
        return
    event: Any = import_module("numba.core.event")

    class CompileListener(event.Listener):  # type: ignore[misc]
        def on_start(self, started: Any) -> None:
            if _listeners:
                event.unregister("numba:compile", _listeners.pop())
                callback()

        def on_end(self, ended: Any) -> None:
            pass

    if _listeners:  # from an earlier run in this process
        event.unregister("numba:compile", _listeners.pop())
    _listeners.append(CompileListener())
    event.register("numba:compile", _listeners[0])


def compile_kernels(axes: Iterable[int] = (1, 2)) -> None:
    """Compile the kernels for positions with these numbers of axes, and cache them on disk."""
    from focusing.nn import FocusedLinear

    shapes = {1: None, 2: (4, 4), 3: (2, 2, 4)}
    with torch.random.fork_rng(devices=()):
        for count in axes:
            if count in shapes:
                layer = FocusedLinear(16, 3, topology=shapes[count])
                layer(torch.rand(2, 16)).sum().backward()


def supports(
    x: Tensor, weight: Tensor, mu: Tensor, sigma: Tensor, tau: Tensor, mask: Tensor | None
) -> bool:
    """Whether the kernels, which check neither types nor shapes, take these tensors."""
    return (
        AVAILABLE
        and x.is_cpu
        and x.dtype == weight.dtype == mu.dtype == sigma.dtype == tau.dtype
        and operands_match(x, weight, mu, sigma, tau, mask)
    )


class NumbaLinear(torch.autograd.Function):
    """The product over the slabs of a plan, and its gradients.

    phi is not stored but recomputed in the backward pass; the gradients of mu and sigma are the
    first two moments of dL/dphi o phi.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        mu: Tensor,
        sigma: Tensor,
        mask: Tensor | None,
        engine: CpuEngine,
        plan: Plan,
    ) -> Tensor:
        """Map x (b, m), weight and mask (n, m) and foci (n, d) to y (b, n)."""
        neurons, axes = mu.shape
        if plan.size < MIN_POOLED:
            product = x.new_empty(plan.size)
        else:
            product = engine.pool.lend(plan.size, engine.tau.dtype)
        state = np.empty((neurons, 3 + 2 * axes))
        arguments = _kernel_arguments(engine, plan, mu, sigma, weight, mask)
        kernels.effective_weights(*arguments, product.numpy(), state)
        y = x.new_empty(len(x), neurons)
        if plan.is_dense:
            product = product.view(weight.shape)
            mm(x, product.t(), out=y)
        else:
            # A dense product per slab, written to its columns of y.
            for slab in plan.slabs:
                mm(x[:, slab.columns], slab.view(product).t(), out=y[:, slab.rows])
        ctx.save_for_backward(x, weight, mu, sigma, mask, product)
        ctx.engine, ctx.plan, ctx.state = engine, plan, state
        if plan.order is not None:
            y = torch.empty_like(y).index_copy_(1, plan.order, y)
        if bias is not None:
            y += bias  # faster than addmm
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> Gradients:
        """Gradients of x, weight, bias, mu and sigma."""
        if torch.is_autocast_enabled("cpu"):  # its products would be halves, which NumPy refuses
            with torch.autocast("cpu", enabled=False):
                return NumbaLinear.backward(ctx, grad_y)
        x, weight, mu, sigma, mask, product = ctx.saved_tensors
        engine, plan, needs = ctx.engine, ctx.plan, ctx.needs_input_grad
        if torch.is_grad_enabled():
            tau = torch.from_numpy(engine.tau).t()
            return *gradients_with_graph(
                needs, grad_y, x, weight, mu, sigma, tau, mask, engine.normalizer
            ), *[None] * 3
        grad, grad_product, grad_x = grad_y, engine.tau[0, :0], None
        if plan.is_dense:
            grad_weight = mm(grad.t(), x)
            if needs[0]:
                grad_x = mm(grad, product)
        else:
            grad_weight = weight.new_empty(weight.shape)
            if needs[0]:
                grad_x = torch.zeros_like(x)
            if plan.order is not None:
                grad = grad.index_select(1, plan.order)
                space = workspace(plan.size, x.dtype)
                grad_product = space.numpy()
            # Two dense products per slab; neighbouring slabs add to the same columns of grad_x.
            for slab in plan.slabs:
                rows, columns = slab.rows, slab.columns
                out = grad_weight[rows, columns] if plan.order is None else slab.view(space)
                mm(grad[:, rows].t(), x[:, columns], out=out)
                if grad_x is not None:
                    addmm_(grad_x[:, columns], grad[:, rows], slab.view(product))
        grad_mu, grad_sigma = mu.new_empty(mu.shape), mu.new_empty(mu.shape)
        arguments = _kernel_arguments(engine, plan, mu, sigma, weight, mask)
        results = (tensor.numpy() for tensor in (grad_weight, grad_mu, grad_sigma))
        kernels.gradients(*arguments, grad_product, ctx.state, *results)
        grad_bias = grad_y.sum(0) if needs[2] else None
        return grad_x, grad_weight, grad_bias, grad_mu, grad_sigma, *[None] * 3


def _kernel_arguments(engine: CpuEngine, plan: Plan, *tensors: Tensor | None) -> tuple[Any, ...]:
    """The arguments that both kernels share. Not cached, because storages of tensors may move."""
    arrays = [NO_MASK if tensor is None else as_array(tensor) for tensor in tensors]
    order, power = NORMALIZERS[engine.normalizer] or (0, 0.0)
    return plan.table, engine.tau, *arrays, order, engine.tau.shape[1] ** power


# Memory is reused: page faults of fresh memory would cost more than the arithmetic.

_workspaces = threading.local()
_DTYPES = {torch.float32: np.float32, torch.float64: np.float64, torch.bool: np.bool_}


def workspace(size: int, dtype: torch.dtype) -> Tensor:
    """A CPU tensor of at least this many values, valid until the next call in this thread."""
    name = str(dtype)
    space: Tensor | None = getattr(_workspaces, name, None)
    if space is None or space.numel() < size:
        with torch.inference_mode(False):  # training may use it later
            space = torch.empty(size, dtype=dtype, device="cpu")
        setattr(_workspaces, name, space)
    return space


def as_array(tensor: Tensor) -> npt.NDArray[Any]:
    """An array view of a CPU tensor, to read only, valid until its storage moves.

    Unlike ``tensor.numpy()``, it does not forbid resizing the storage, as FSDP does.
    """
    tensor = tensor.contiguous()
    if not tensor.untyped_storage().nbytes():
        raise RuntimeError("The storage of a parameter is empty: FSDP has freed it.")
    memory: Any = (ctypes.c_byte * tensor.nbytes).from_address(tensor.data_ptr())
    memory.owner = tensor
    array: npt.NDArray[Any] = np.frombuffer(memory, _DTYPES[tensor.dtype])
    return array.reshape(tensor.shape)


class BufferPool:
    """Reuses one CPU buffer, which returns to the pool when the last tensor on it is deleted.

    A tensor that is saved for backward keeps its buffer; a second forward pass gets new memory.
    """

    def __init__(self) -> None:
        self._free: list[Any] = []

    def lend(self, size: int, dtype: np.dtype[Any]) -> Tensor:
        """A tensor of this many values."""
        try:
            buffer = self._free.pop()  # without a check first: another thread might get it
        except IndexError:
            buffer = None
        if buffer is None or len(buffer) < size or buffer.dtype != dtype:
            buffer = np.empty(size, dtype)
        lent = buffer[:size]  # all tensors on the buffer share this view
        weakref.finalize(lent, self._put_back, buffer).atexit = False
        return torch.from_numpy(lent)

    def _put_back(self, buffer: Any) -> None:
        if not self._free:
            self._free.append(buffer)
