"""Sparse matrix product for CPUs, with SIMD kernels that numba compiles.

Dense BLAS kernels need large tiles, and large tiles of a sparse matrix hold many zeros. Here the
register block is small: six or eight neurons, over the inputs that any of them uses. The SIMD lanes
run across samples. A panel of samples is packed so that the values of one input are contiguous, and
each weight is broadcast and multiplied with all of them. For very few samples the lanes run across
the neurons of a block instead.

LLVM does not vectorise these loops by itself, so the vector instructions are emitted explicitly.
All kernels are in this file because numba invalidates its cache by file. Addresses are integers.
Import this file only where numba is installed.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import carray, types  # type: ignore[attr-defined]
from numba.core import cgutils, config
from numba.extending import intrinsic
from torch import Tensor

from focusing.nn.ops.cpu import workspace
from focusing.nn.ops.kernels import cached_jit
from focusing.nn.sparse.tiles import group_neurons

_FEATURES = config.CPU_FEATURES  # type: ignore[attr-defined]
_FEATURES = binding.get_host_cpu_features().flatten() if _FEATURES is None else _FEATURES
# float32 lanes of a SIMD register. Any value is correct on any CPU; these are fast.
LANES = 16 if "+avx512f" in _FEATURES else 8 if "+avx" in _FEATURES else 4
PANEL = 2 * LANES  # samples per panel: each broadcast weight is used by two registers
# Neurons per register block. Each has two accumulators, out of 32 or 16 SIMD registers.
NEURONS = 8 if LANES == 16 or platform.machine() in ("aarch64", "arm64") else 6
BLOCK_LANES = 8  # lanes of a vector over the neurons of a block; lanes beyond NEURONS are unused
MIN_PANEL_SAMPLES = 4  # below this, samples are computed one by one
TASK_SIZE = 15  # integers in a task
BYTES = 4  # of a float32, and of an index in memory
_ACCUMULATORS = 8  # independent sums that hide the latency of an addition
_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_Task = ctypes.c_ssize_t * TASK_SIZE
Value = Any


class Blocks:
    """A sparse linear layer in float32 on a CPU, stored as blocks of NEURONS neurons.

    Attributes:
        work: share of the n * m products that are computed.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Pack a weight (n, m) and a bias (n,)."""
        matrix = weight.detach().numpy()
        neurons, inputs = matrix.shape
        used = matrix != 0
        groups = group_neurons(used, NEURONS)
        needed = [np.flatnonzero(used[group].any(0)) for group in groups]
        offsets = np.cumsum([0, *map(len, needed)])
        columns = np.concatenate(needed).astype(np.int32)
        # One row of padding: the vector load of the last row may reach beyond it.
        weights = np.zeros((len(columns) + 1, NEURONS), np.float32)
        biases = np.zeros((len(groups) + 1, NEURONS), np.float32)
        rows = np.full((len(groups), NEURONS), neurons, np.int32)  # the last block may be smaller
        for block, group in enumerate(groups):
            packed, size = slice(offsets[block], offsets[block + 1]), len(group)
            weights[packed, :size] = matrix[np.ix_(group, needed[block])].T
            biases[block, :size] = 0 if bias is None else bias.detach().numpy()[group]
            rows[block, :size] = group
        self.work = len(columns) * NEURONS / matrix.size
        self._arrays = offsets, columns, weights, biases, rows
        addresses = (array.ctypes.data for array in self._arrays)
        # Counters of threads and of panels; x, out, space, samples, threads; the constant fields.
        self._task = _Task(*[0] * 7, inputs, neurons, len(groups), *addresses)
        self._neurons, self._space = neurons, (inputs + neurons + 1) * PANEL

    def __call__(self, x: Tensor, threads: int = 1) -> Tensor:
        """Map (b, m) to (b, n), in several threads if there is an ``openmp_team``."""
        x, samples = x.contiguous(), x.shape[0]
        y = x.new_empty(samples, self._neurons)
        space = workspace(threads * self._space, torch.float32)
        task = _Task.from_buffer_copy(self._task)
        task[2:7] = [x.data_ptr(), y.data_ptr(), space.data_ptr(), samples, threads]
        team = openmp_team() if threads > 1 else None
        if team is None:
            run_task(ctypes.addressof(task))
        else:
            run, function = team
            run(function.address, task, threads, 0)
        return y

    def __getstate__(self) -> Any:
        raise TypeError("Blocks hold addresses and cannot be copied; their layer can be.")


@cache
def openmp_team() -> tuple[Any, Any] | None:
    """GNU OpenMP's ``GOMP_parallel`` and the function to run in it; None without GNU OpenMP.

    These are torch's own threads. They spin while they wait for work, so that a second pool of
    threads would compete with them for the cores.
    """
    try:
        run = ctypes.CDLL(None).GOMP_parallel  # (function, argument, threads, flags)
    except (AttributeError, OSError, TypeError):
        return None
    run.argtypes, run.restype = [ctypes.c_void_p] * 2 + [ctypes.c_uint] * 2, None
    return run, cached_jit(_run_in_team, partial(numba.cfunc, types.void(types.intp)))


class _Emitter:
    """Emits LLVM instructions; addresses and offsets are integers, offsets count elements."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def times(self, number: Value, factor: int) -> Value:
        return self.builder.mul(number, ir.Constant(_INT64, factor))

    def pointer(self, kind: Any, address: Value, *offsets: Value | int) -> Value:
        pointer = self.builder.inttoptr(address, kind.as_pointer())
        for offset in offsets:
            number = ir.Constant(_INT64, offset) if isinstance(offset, int) else offset
            pointer = self.builder.gep(pointer, [number])
        return pointer

    def index(self, address: Value, *offsets: Value | int) -> Value:
        """Load an int32 index."""
        short = self.builder.load(self.pointer(_INT32, address, *offsets))
        return self.builder.zext(short, _INT64)

    def vector(self, lanes: int, address: Value, *offsets: Value | int) -> Value:
        """Load a vector, unaligned."""
        pointer = self.pointer(_FLOAT, address, *offsets)
        kind = ir.VectorType(_FLOAT, lanes).as_pointer()
        return self.builder.load(self.builder.bitcast(pointer, kind), align=BYTES)

    def store(self, vector: Value, address: Value, *offsets: Value | int) -> None:
        pointer = self.pointer(_FLOAT, address, *offsets)
        kind = vector.type.as_pointer()
        self.builder.store(vector, self.builder.bitcast(pointer, kind), align=BYTES)

    def broadcast(self, lanes: int, address: Value, *offsets: Value | int) -> Value:
        """Load one number into all lanes."""
        number = self.builder.load(self.pointer(_FLOAT, address, *offsets))
        undefined = ir.Constant(ir.VectorType(_FLOAT, lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, number, ir.Constant(_INT32, 0))
        return self.shuffle(first, undefined, [0] * lanes)

    def shuffle(self, one: Value, other: Value, lanes: list[int]) -> Value:
        """A vector of chosen lanes of two vectors."""
        numbers = ir.Constant(ir.VectorType(_INT32, len(lanes)), lanes)
        return self.builder.shuffle_vector(one, other, numbers)

    def variable(self, value: Value) -> Value:
        place = cgutils.alloca_once(self.builder, value.type)  # type: ignore[no-untyped-call]
        self.builder.store(value, place)
        return place

    def multiply_add(self, variable: Value, one: Value, other: Value) -> None:
        """Add a product to a variable, as one fused instruction where the CPU has it."""
        product = self.builder.fmul(one, other, flags=["contract"])
        total = self.builder.fadd(self.builder.load(variable), product, flags=["contract"])
        self.builder.store(total, variable)


def _void_intrinsic(arguments: int, emit: Callable[..., None]) -> Any:
    """Signature and code generator of an intrinsic that takes integers and returns None."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        emit(_Emitter(builder), *values)
        return context.get_dummy_value()

    return types.void(*[types.intp] * arguments), generate


@intrinsic
def _transpose_tile(_, source, width, target, target_width):  # type: ignore[no-untyped-def]
    """Transpose a tile of LANES x LANES numbers in registers, from one matrix to another."""

    def emit(to: _Emitter, source: Value, width: Value, target: Value, target_width: Value) -> None:
        rows = [to.vector(LANES, source, to.times(width, row)) for row in range(LANES)]
        half = LANES // 2
        left, right = (
            [lane for column in range(first, first + half) for lane in (column, LANES + column)]
            for first in (0, half)
        )
        # Each pass interleaves the upper half of the rows with the lower half (a perfect shuffle);
        # after log2(LANES) passes, rows have become columns.
        for _ in range(LANES.bit_length() - 1):
            rows = [
                to.shuffle(rows[row], rows[row + half], lanes)
                for row in range(half)
                for lanes in (left, right)
            ]
        for row, values in enumerate(rows):
            to.store(values, target, to.times(target_width, row))

    return _void_intrinsic(4, emit)


def _panel_kernel(samples: int) -> Any:
    """The micro-kernel: outputs of one block of NEURONS neurons for a packed panel of samples.

    The intrinsic takes these addresses and numbers:

        x: packed inputs, (m, samples).
        columns: the inputs that the block uses.
        count: their number.
        weight: packed weights, (count, NEURONS).
        bias: biases of the block.
        rows: the output row of each neuron.
        out: outputs, (n, samples).
    """
    vectors = range(0, samples, LANES)

    @intrinsic
    def block(_, x, columns, count, weight, bias, rows, out):  # type: ignore[no-untyped-def]
        def emit(to: _Emitter, x: Value, columns: Value, count: Value, *others: Value) -> None:
            weight, bias, rows, out = others
            # The register block: one accumulator per neuron and vector of samples, from the bias.
            totals = [
                [to.variable(to.broadcast(LANES, bias, neuron)) for _ in vectors]
                for neuron in range(NEURONS)
            ]
            # A rank-1 update per input: its vectors are loaded once and used by all neurons.
            with cgutils.for_range(to.builder, count, intp=_INT64) as loop:
                column = to.times(to.index(columns, loop.index), samples)
                inputs = [to.vector(LANES, x, column, first) for first in vectors]
                for neuron, sums in enumerate(totals):
                    factor = to.broadcast(LANES, weight, to.times(loop.index, NEURONS), neuron)
                    for total, values in zip(sums, inputs, strict=True):
                        to.multiply_add(total, factor, values)
            # Scatter the accumulators to the rows of the neurons.
            for neuron, sums in enumerate(totals):
                row = to.times(to.index(rows, neuron), samples)
                for total, first in zip(sums, vectors, strict=True):
                    to.store(to.builder.load(total), out, row, first)

        return _void_intrinsic(7, emit)

    return block


@intrinsic
def _sample_kernel(_, x, columns, count, weight, bias, out):  # type: ignore[no-untyped-def]
    """Outputs of one block of neurons for a single sample; see :func:`_panel_kernel`."""

    def emit(to: _Emitter, x: Value, columns: Value, count: Value, *others: Value) -> None:
        weight, bias, out = others
        builder = to.builder
        zeros = ir.Constant(ir.VectorType(_FLOAT, BLOCK_LANES), [0.0] * BLOCK_LANES)
        totals = [to.variable(zeros) for _ in range(_ACCUMULATORS)]

        def add(number: Value, total: Value) -> None:
            value = to.broadcast(BLOCK_LANES, x, to.index(columns, number))
            weights = to.vector(BLOCK_LANES, weight, to.times(number, NEURONS))
            to.multiply_add(total, weights, value)

        # Unroll over the inputs with one accumulator each, so that no addition waits for another.
        zero, one, many = (ir.Constant(_INT64, step) for step in (0, 1, _ACCUMULATORS))
        unrolled = builder.and_(count, ir.Constant(_INT64, -_ACCUMULATORS))
        with cgutils.for_range_slice(builder, zero, unrolled, many, _INT64) as (number, _):
            for place, total in enumerate(totals):
                add(builder.add(number, ir.Constant(_INT64, place)), total)
        # The remainder goes to the first accumulator.
        with cgutils.for_range_slice(builder, unrolled, count, one, _INT64) as (number, _):
            add(number, totals[0])
        # Reduce the accumulators.
        result = to.vector(BLOCK_LANES, bias)
        for total in totals:
            result = builder.fadd(result, builder.load(total))
        to.store(result, out)

    return _void_intrinsic(6, emit)


@intrinsic
def _fetch_add(_, counter):  # type: ignore[no-untyped-def]
    """Atomically increment a counter that threads share; returns its former value."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        place = builder.inttoptr(values[0], _INT64.as_pointer())
        return builder.atomic_rmw("add", place, ir.Constant(_INT64, 1), "monotonic")

    return types.intp(types.intp), generate


def _pointer_to(kind: Any) -> Any:
    """An intrinsic that casts an address to a pointer."""

    @intrinsic
    def pointer(_, address):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.intp), generate  # type: ignore[no-untyped-call]

    return pointer


_full_panel, _half_panel = _panel_kernel(PANEL), _panel_kernel(LANES)
_float_pointer, _int32_pointer, _intp_pointer = map(
    _pointer_to, (types.float32, types.int32, types.intp)
)


@cached_jit
def _transpose(source, width, rows, columns, target, target_width):  # type: ignore[no-untyped-def]
    """Write the first rows and columns of a matrix into another one, transposed."""
    # Full tiles in registers, then the right and lower borders number by number.
    full_rows, full_columns = rows // LANES * LANES, columns // LANES * LANES
    for column in range(0, full_columns, LANES):
        for row in range(0, full_rows, LANES):
            start = source + (row * width + column) * BYTES
            end = target + (column * target_width + row) * BYTES
            _transpose_tile(start, width, end, target_width)  # type: ignore[call-arg]
    old = carray(_float_pointer(source), (rows, width))
    new = carray(_float_pointer(target), (columns, target_width))
    for row in range(rows):
        for column in range(full_columns if row < full_rows else 0, columns):
            new[column, row] = old[row, column]


@cached_jit
def run_task(task):  # type: ignore[no-untyped-def]
    """Compute work items until none are left; several threads may run the same task.

    A task is the address of the integers that :class:`Blocks` puts together.
    """
    fields = carray(_intp_pointer(task), TASK_SIZE)
    x, out, space, samples, threads, inputs, neurons, blocks = fields[2:10]
    offsets, columns, weight, bias, rows = fields[10:]
    offset = carray(_intp_pointer(offsets), blocks + 1)
    row = carray(_int32_pointer(rows), (blocks, NEURONS))
    result = carray(_float_pointer(out), (samples, neurons))
    thread: Any = _fetch_add(task)  # type: ignore[call-arg]
    packed = space + thread * (inputs + neurons + 1) * PANEL * BYTES
    # A work item is a panel of samples or, of very few samples, one sample and a share of blocks.
    few = samples < MIN_PANEL_SAMPLES
    group = 1 if few else PANEL if samples >= PANEL * threads else LANES
    shares = threads if group == 1 else 1
    while True:
        item = _fetch_add(task + fields.itemsize)
        first, share = item // shares * group, item % shares
        if first >= samples:
            return
        valid = min(group, samples - first)
        size = PANEL if valid > LANES else LANES
        outputs = packed + inputs * size * BYTES
        start = x + first * inputs * BYTES
        # Pack the panel: after the transposition, the samples of an input are contiguous.
        if group > 1:
            if valid < size:  # old numbers there might be denormal, and slow
                carray(_float_pointer(packed), inputs * size)[:] = 0
            _transpose(start, inputs, valid, inputs, packed, size)
        # The packed panel stays in the cache while the weights of all blocks stream past it.
        for block in range(blocks * share // shares, blocks * (share + 1) // shares):
            count = offset[block + 1] - offset[block]
            needed = columns + offset[block] * BYTES
            weights = weight + offset[block] * NEURONS * BYTES
            biases, block_rows = bias + block * NEURONS * BYTES, rows + block * NEURONS * BYTES
            if group == 1:
                _sample_kernel(start, needed, count, weights, biases, outputs)
                values = carray(_float_pointer(outputs), NEURONS)
                for place in range(NEURONS):
                    neuron = row[block, place]
                    if neuron < neurons:
                        result[first, neuron] = values[place]
            elif size == PANEL:
                _full_panel(packed, needed, count, weights, biases, block_rows, outputs)
            else:
                _half_panel(packed, needed, count, weights, biases, block_rows, outputs)
        # Unpack: outputs come as (neurons, samples).
        if group > 1:
            _transpose(outputs, size, neurons, valid, out + first * neurons * BYTES, neurons)


def _run_in_team(task):  # type: ignore[no-untyped-def]
    """Entry point for C: compiled to a C callback by ``openmp_team``."""
    run_task(task)
