"""The product with a sparse matrix on a CPU, by vector instructions that numba compiles for it.

A matrix product is fast on large tiles, and large tiles hold many zeros. A block here is no more
than six or eight neurons and the inputs that any of them needs. What fills the processor's vectors
are samples: their inputs are laid side by side in a panel, so that a weight is multiplied with all
of them at once. Few samples are computed one by one, with the neurons of a block side by side.

LLVM does not find these instructions by itself, so they are written here. All loops are in one
file: numba keeps compiled code until the file that it is in changes. Addresses are whole numbers.
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
from focusing.nn.ops.kernels import compiled
from focusing.nn.sparse.tiles import group_neurons

_FEATURES = config.CPU_FEATURES  # type: ignore[attr-defined]
_FEATURES = binding.get_host_cpu_features().flatten() if _FEATURES is None else _FEATURES
# Numbers in a vector: any are correct anywhere, these are fast.
LANES = 16 if "+avx512f" in _FEATURES else 8 if "+avx" in _FEATURES else 4
PANEL = (
    2 * LANES
)  # samples that are computed at once: every weight that is loaded serves two vectors
# Neurons of a block, which are computed at once. Each takes two registers, and there are 32 or 16.
NEURONS = 8 if LANES == 16 or platform.machine() in ("aarch64", "arm64") else 6
WIDTH = 8  # lanes of a vector with a number for each neuron of a block; the last may mean nothing
MIN_PANEL_SAMPLES = 4  # fewer samples than these are computed one by one
TASK_SIZE = 15  # whole numbers that tell threads what to do
BYTES = 4  # of a number in single precision, and of an index in memory
_CHAINS = 8  # sums that grow side by side, as an addition takes as long as so many can begin
_FLOAT, _SHORT, _INDEX = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_Task = ctypes.c_ssize_t * TASK_SIZE
Value = Any


class Blocks:
    """Multiplies with a sparse matrix, in single precision on a CPU.

    Attributes:
        work: share of the n * m products that are computed.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Take what is needed of a weight (n, m) and a bias (n,)."""
        matrix = weight.detach().numpy()
        neurons, inputs = matrix.shape
        used = matrix != 0
        groups = group_neurons(used, NEURONS)
        needed = [np.flatnonzero(used[group].any(0)) for group in groups]
        places = np.cumsum([0, *map(len, needed)])
        columns = np.concatenate(needed).astype(np.int32)
        # One row more than is used, as a vector of the last may reach beyond it.
        weights = np.zeros((len(columns) + 1, NEURONS), np.float32)
        biases = np.zeros((len(groups) + 1, NEURONS), np.float32)
        rows = np.full((len(groups), NEURONS), neurons, np.int32)  # the last one may have fewer
        for block, group in enumerate(groups):
            own, size = slice(places[block], places[block + 1]), len(group)
            weights[own, :size] = matrix[np.ix_(group, needed[block])].T
            biases[block, :size] = 0 if bias is None else bias.detach().numpy()[group]
            rows[block, :size] = group
        self.work = len(columns) * NEURONS / matrix.size
        self._arrays = places, columns, weights, biases, rows
        addresses = (array.ctypes.data for array in self._arrays)
        # Counters of threads and of panels; x, out, space, samples, threads; what stays the same.
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
    """The function that runs another one in torch's threads, and the function to run.

    Threads of our own would not get far beside these, which wait busily for more work. None: they
    are not those of GNU's OpenMP.
    """
    try:
        run = ctypes.CDLL(None).GOMP_parallel  # (function, argument, threads, flags)
    except (AttributeError, OSError, TypeError):
        return None
    run.argtypes, run.restype = [ctypes.c_void_p] * 2 + [ctypes.c_uint] * 2, None
    return run, compiled(_run_in_team, partial(numba.cfunc, types.void(types.intp)))


class _Writer:
    """Writes LLVM instructions."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def times(self, number: Value, factor: int) -> Value:
        return self.builder.mul(number, ir.Constant(_INDEX, factor))

    def pointer(self, kind: Any, address: Value, *offsets: Value | int) -> Value:
        """To the value of a kind that is so many values behind an address."""
        pointer = self.builder.inttoptr(address, kind.as_pointer())
        for offset in offsets:
            number = ir.Constant(_INDEX, offset) if isinstance(offset, int) else offset
            pointer = self.builder.gep(pointer, [number])
        return pointer

    def index(self, address: Value, *offsets: Value | int) -> Value:
        short = self.builder.load(self.pointer(_SHORT, address, *offsets))
        return self.builder.zext(short, _INDEX)

    def vector(self, lanes: int, address: Value, *offsets: Value | int) -> Value:
        pointer = self.pointer(_FLOAT, address, *offsets)
        kind = ir.VectorType(_FLOAT, lanes).as_pointer()
        return self.builder.load(self.builder.bitcast(pointer, kind), align=BYTES)

    def store(self, vector: Value, address: Value, *offsets: Value | int) -> None:
        pointer = self.pointer(_FLOAT, address, *offsets)
        kind = vector.type.as_pointer()
        self.builder.store(vector, self.builder.bitcast(pointer, kind), align=BYTES)

    def broadcast(self, lanes: int, address: Value, *offsets: Value | int) -> Value:
        """One number in all lanes."""
        number = self.builder.load(self.pointer(_FLOAT, address, *offsets))
        nothing = ir.Constant(ir.VectorType(_FLOAT, lanes), ir.Undefined)
        first = self.builder.insert_element(nothing, number, ir.Constant(_SHORT, 0))
        return self.shuffle(first, nothing, [0] * lanes)

    def shuffle(self, one: Value, other: Value, lanes: list[int]) -> Value:
        """Some lanes of two vectors."""
        numbers = ir.Constant(ir.VectorType(_SHORT, len(lanes)), lanes)
        return self.builder.shuffle_vector(one, other, numbers)

    def variable(self, value: Value) -> Value:
        place = cgutils.alloca_once(self.builder, value.type)  # type: ignore[no-untyped-call]
        self.builder.store(value, place)
        return place

    def add_product(self, variable: Value, one: Value, other: Value) -> None:
        product = self.builder.fmul(one, other, flags=["contract"])  # one rounding, where it can
        total = self.builder.fadd(self.builder.load(variable), product, flags=["contract"])
        self.builder.store(total, variable)


def _instructions(arguments: int, write: Callable[..., None]) -> Any:
    """The signature of a function of so many whole numbers that returns nothing, and its code."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        write(_Writer(builder), *values)
        return context.get_dummy_value()

    return types.void(*[types.intp] * arguments), generate


@intrinsic
def _transpose_square(_, source, width, target, target_width):  # type: ignore[no-untyped-def]
    """Transpose a square of LANES rows and columns, from one matrix to another."""

    def write(to: _Writer, source: Value, width: Value, target: Value, target_width: Value) -> None:
        rows = [to.vector(LANES, source, to.times(width, row)) for row in range(LANES)]
        half = LANES // 2
        left, right = (
            [lane for column in range(first, first + half) for lane in (column, LANES + column)]
            for first in (0, half)
        )
        # Interleave the upper rows with the lower ones: after log2(LANES) times, rows are columns.
        for _ in range(LANES.bit_length() - 1):
            rows = [
                to.shuffle(rows[row], rows[row + half], lanes)
                for row in range(half)
                for lanes in (left, right)
            ]
        for row, values in enumerate(rows):
            to.store(values, target, to.times(target_width, row))

    return _instructions(4, write)


def _block_of(samples: int) -> Any:
    """The outputs of NEURONS neurons, for so many samples.

    A function of

        x: inputs, (m, samples).
        columns: the inputs that are needed.
        count: their number.
        weight: of the neurons, for each of these inputs, (count, NEURONS).
        bias: of the neurons.
        rows: where the outputs of each neuron go.
        out: outputs, (n, samples).
    """
    vectors = range(0, samples, LANES)

    @intrinsic
    def block(_, x, columns, count, weight, bias, rows, out):  # type: ignore[no-untyped-def]
        def write(to: _Writer, x: Value, columns: Value, count: Value, *others: Value) -> None:
            weight, bias, rows, out = others
            # A sum for each neuron and sample stays in a register, and begins with the bias.
            totals = [
                [to.variable(to.broadcast(LANES, bias, neuron)) for _ in vectors]
                for neuron in range(NEURONS)
            ]
            # Load an input of all samples once, and use it for all neurons.
            with cgutils.for_range(to.builder, count, intp=_INDEX) as loop:
                column = to.times(to.index(columns, loop.index), samples)
                inputs = [to.vector(LANES, x, column, first) for first in vectors]
                for neuron, sums in enumerate(totals):
                    factor = to.broadcast(LANES, weight, to.times(loop.index, NEURONS), neuron)
                    for total, values in zip(sums, inputs, strict=True):
                        to.add_product(total, factor, values)
            for neuron, sums in enumerate(totals):
                row = to.times(to.index(rows, neuron), samples)
                for total, first in zip(sums, vectors, strict=True):
                    to.store(to.builder.load(total), out, row, first)

        return _instructions(7, write)

    return block


@intrinsic
def _sample(_, x, columns, count, weight, bias, out):  # type: ignore[no-untyped-def]
    """The outputs of NEURONS neurons for one sample; see :func:`_block_of`."""

    def write(to: _Writer, x: Value, columns: Value, count: Value, *others: Value) -> None:
        weight, bias, out = others
        builder = to.builder
        nothing = ir.Constant(ir.VectorType(_FLOAT, WIDTH), [0.0] * WIDTH)
        totals = [to.variable(nothing) for _ in range(_CHAINS)]

        def add(number: Value, total: Value) -> None:
            value = to.broadcast(WIDTH, x, to.index(columns, number))
            weights = to.vector(WIDTH, weight, to.times(number, NEURONS))
            to.add_product(total, weights, value)

        # Consecutive inputs go to different sums, which do not wait for each other.
        zero, one, many = (ir.Constant(_INDEX, step) for step in (0, 1, _CHAINS))
        whole = builder.and_(count, ir.Constant(_INDEX, -_CHAINS))
        with cgutils.for_range_slice(builder, zero, whole, many, _INDEX) as (number, _):
            for chain, total in enumerate(totals):
                add(builder.add(number, ir.Constant(_INDEX, chain)), total)
        # What is left over goes to the first sum.
        with cgutils.for_range_slice(builder, whole, count, one, _INDEX) as (number, _):
            add(number, totals[0])
        result = to.vector(WIDTH, bias)
        for total in totals:
            result = builder.fadd(result, builder.load(total))
        to.store(result, out)

    return _instructions(6, write)


@intrinsic
def _take(_, counter):  # type: ignore[no-untyped-def]
    """The next number, from a counter that threads share."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        place = builder.inttoptr(values[0], _INDEX.as_pointer())
        return builder.atomic_rmw("add", place, ir.Constant(_INDEX, 1), "monotonic")

    return types.intp(types.intp), generate


def _pointer_to(kind: Any) -> Any:
    """A function that turns an address into a pointer to such values."""

    @intrinsic
    def pointer(_, address):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.intp), generate  # type: ignore[no-untyped-call]

    return pointer


_panel, _half_panel = _block_of(PANEL), _block_of(LANES)
_floats, _shorts, _indices = map(_pointer_to, (types.float32, types.int32, types.intp))


@compiled
def _transpose(source, width, rows, columns, target, target_width):  # type: ignore[no-untyped-def]
    """Write the first rows and columns of a matrix into another one, transposed."""
    # Whole squares by vector instructions, then the borders number by number.
    whole_rows, whole_columns = rows // LANES * LANES, columns // LANES * LANES
    for column in range(0, whole_columns, LANES):
        for row in range(0, whole_rows, LANES):
            start = source + (row * width + column) * BYTES
            end = target + (column * target_width + row) * BYTES
            _transpose_square(start, width, end, target_width)  # type: ignore[call-arg]
    old = carray(_floats(source), (rows, width))
    new = carray(_floats(target), (columns, target_width))
    for row in range(rows):
        for column in range(whole_columns if row < whole_rows else 0, columns):
            new[column, row] = old[row, column]


@compiled
def run_task(task):  # type: ignore[no-untyped-def]
    """Compute outputs until none are left, beside other threads that do the same.

    A task is the address of the whole numbers that :class:`Blocks` puts together.
    """
    fields = carray(_indices(task), TASK_SIZE)
    x, out, space, samples, threads, inputs, neurons, blocks = fields[2:10]
    places, columns, weight, bias, rows = fields[10:]
    place = carray(_indices(places), blocks + 1)
    row = carray(_shorts(rows), (blocks, NEURONS))
    result = carray(_floats(out), (samples, neurons))
    slot: Any = _take(task)  # type: ignore[call-arg]
    packed = space + slot * (inputs + neurons + 1) * PANEL * BYTES
    # Threads share the samples, panel by panel; of few samples they share the neurons.
    few = samples < MIN_PANEL_SAMPLES
    group = 1 if few else PANEL if samples >= PANEL * threads else LANES
    shares = threads if group == 1 else 1
    while True:
        number = _take(task + fields.itemsize)
        first, share = number // shares * group, number % shares
        if first >= samples:
            return
        known = min(group, samples - first)
        size = PANEL if known > LANES else LANES
        outputs = packed + inputs * size * BYTES
        start = x + first * inputs * BYTES
        # Lay the samples of a panel side by side.
        if group > 1:
            if known < size:  # what is left there might be slow to compute with
                carray(_floats(packed), inputs * size)[:] = 0
            _transpose(start, inputs, known, inputs, packed, size)
        # The panel stays in the cache while all blocks of neurons pass by.
        for block in range(blocks * share // shares, blocks * (share + 1) // shares):
            count = place[block + 1] - place[block]
            needed = columns + place[block] * BYTES
            weights = weight + place[block] * NEURONS * BYTES
            biases, own_rows = bias + block * NEURONS * BYTES, rows + block * NEURONS * BYTES
            if group == 1:
                _sample(start, needed, count, weights, biases, outputs)
                values = carray(_floats(outputs), NEURONS)
                for place_in_block in range(NEURONS):
                    neuron = row[block, place_in_block]
                    if neuron < neurons:
                        result[first, neuron] = values[place_in_block]
            elif size == PANEL:
                _panel(packed, needed, count, weights, biases, own_rows, outputs)
            else:
                _half_panel(packed, needed, count, weights, biases, own_rows, outputs)
        if group > 1:
            _transpose(outputs, size, neurons, known, out + first * neurons * BYTES, neurons)


def _run_in_team(task):  # type: ignore[no-untyped-def]
    """To be compiled to a function that C can call."""
    run_task(task)
