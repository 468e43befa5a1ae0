"""Loops over blocks of a sparse matrix, with vector instructions that LLVM does not find by itself.

All in one file: numba keeps compiled loops until the file that they are in changes. Addresses are
whole numbers.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import carray, types  # type: ignore[attr-defined]
from numba.core import cgutils, config
from numba.extending import intrinsic

from focusing.nn.kernels import compiled

_FEATURES = config.CPU_FEATURES  # type: ignore[attr-defined]
_FEATURES = binding.get_host_cpu_features().flatten() if _FEATURES is None else _FEATURES
LANES = 16 if "+avx512f" in _FEATURES else 8 if "+avx" in _FEATURES else 4
"""Numbers in a vector. Any are correct anywhere; these are fast."""
PANEL = LANES * (2 if LANES == 16 or platform.machine() in ("aarch64", "arm64") else 1)
"""Samples that are computed at once: where there are 32 registers, not 16, two vectors of them."""
NEURONS = 8
"""Neurons that are computed at once."""
FEW = 4
"""Fewer samples than these are computed one by one."""
TASK = 15
"""Whole numbers that tell threads what to do."""
BYTES = 4
"""Of a number in single precision, and of an index in memory."""
_CHAINS = 8
"""Sums that grow side by side, as an addition takes as long as so many can begin."""
_FLOAT, _SHORT, _INDEX = ir.FloatType(), ir.IntType(32), ir.IntType(64)
Value = Any


class _Writer:
    """Writes instructions."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def times(self, number: Value, factor: int) -> Value:
        return self.builder.mul(number, ir.Constant(_INDEX, factor))

    def pointer(self, kind: Any, address: Value, *offsets: Value | int) -> Value:
        """To the value of a kind that is so many values behind an address."""
        found = self.builder.inttoptr(address, kind.as_pointer())
        for offset in offsets:
            number = ir.Constant(_INDEX, offset) if isinstance(offset, int) else offset
            found = self.builder.gep(found, [number])
        return found

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

    def repeated(self, lanes: int, address: Value, *offsets: Value | int) -> Value:
        """One number in all lanes."""
        number = self.builder.load(self.pointer(_FLOAT, address, *offsets))
        nothing = ir.Constant(ir.VectorType(_FLOAT, lanes), ir.Undefined)
        first = self.builder.insert_element(nothing, number, ir.Constant(_SHORT, 0))
        return self.picked(first, nothing, [0] * lanes)

    def picked(self, one: Value, other: Value, lanes: list[int]) -> Value:
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
    """What numba wants to know of a function of so many whole numbers that returns nothing."""

    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        write(_Writer(builder), *given)
        return context.get_dummy_value()

    return types.void(*[types.intp] * arguments), generate


@intrinsic
def _transpose(_, source, width, target, target_width):  # type: ignore[no-untyped-def]
    """Transpose a square of LANES rows and columns, from one matrix to another."""

    def write(to: _Writer, source: Value, width: Value, target: Value, target_width: Value) -> None:
        rows = [to.vector(LANES, source, to.times(width, row)) for row in range(LANES)]
        half = LANES // 2
        left, right = (
            [lane for column in range(first, first + half) for lane in (column, LANES + column)]
            for first in (0, half)
        )
        for _ in range(LANES.bit_length() - 1):  # the upper rows are interleaved with the lower
            rows = [
                to.picked(rows[row], rows[row + half], lanes)
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
            totals = [
                [to.variable(to.repeated(LANES, bias, neuron)) for _ in vectors]
                for neuron in range(NEURONS)
            ]
            with cgutils.for_range(to.builder, count, intp=_INDEX) as loop:
                column = to.times(to.index(columns, loop.index), samples)
                inputs = [to.vector(LANES, x, column, first) for first in vectors]
                for neuron, own in enumerate(totals):
                    factor = to.repeated(LANES, weight, to.times(loop.index, NEURONS), neuron)
                    for total, values in zip(own, inputs, strict=True):
                        to.add_product(total, factor, values)
            for neuron, own in enumerate(totals):
                row = to.times(to.index(rows, neuron), samples)
                for total, first in zip(own, vectors, strict=True):
                    to.store(to.builder.load(total), out, row, first)

        return _instructions(7, write)

    return block


@intrinsic
def _sample(_, x, columns, count, weight, bias, out):  # type: ignore[no-untyped-def]
    """The outputs of NEURONS neurons for one sample; see :func:`_block_of`."""

    def write(to: _Writer, x: Value, columns: Value, count: Value, *others: Value) -> None:
        weight, bias, out = others
        builder = to.builder
        nothing = ir.Constant(ir.VectorType(_FLOAT, NEURONS), [0.0] * NEURONS)
        totals = [to.variable(nothing) for _ in range(_CHAINS)]

        def add(number: Value, total: Value) -> None:
            value = to.repeated(NEURONS, x, to.index(columns, number))
            weights = to.vector(NEURONS, weight, to.times(number, NEURONS))
            to.add_product(total, weights, value)

        zero, one, many = (ir.Constant(_INDEX, step) for step in (0, 1, _CHAINS))
        whole = builder.and_(count, ir.Constant(_INDEX, -_CHAINS))
        with cgutils.for_range_slice(builder, zero, whole, many, _INDEX) as (number, _):
            for chain, total in enumerate(totals):
                add(builder.add(number, ir.Constant(_INDEX, chain)), total)
        with cgutils.for_range_slice(builder, whole, count, one, _INDEX) as (number, _):
            add(number, totals[0])
        result = to.vector(NEURONS, bias)
        for total in totals:
            result = builder.fadd(result, builder.load(total))
        to.store(result, out)

    return _instructions(6, write)


@intrinsic
def _take(_, counter):  # type: ignore[no-untyped-def]
    """The next number, from a counter that threads share."""

    def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        place = builder.inttoptr(given[0], _INDEX.as_pointer())
        return builder.atomic_rmw("add", place, ir.Constant(_INDEX, 1), "monotonic")

    return types.intp(types.intp), generate


def _pointer_to(kind: Any) -> Any:
    """What makes a pointer to such values of an address."""

    @intrinsic
    def pointer(_, address):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            return builder.inttoptr(given[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.intp), generate  # type: ignore[no-untyped-call]

    return pointer


_panel, _half_panel = _block_of(PANEL), _block_of(LANES)
_floats, _shorts, _indices = map(_pointer_to, (types.float32, types.int32, types.intp))


@compiled
def _transposed(source, width, rows, columns, target, target_width):  # type: ignore[no-untyped-def]
    """Write the first rows and columns of a matrix into another one, transposed."""
    whole_rows, whole_columns = rows // LANES * LANES, columns // LANES * LANES
    for column in range(0, whole_columns, LANES):
        for row in range(0, whole_rows, LANES):
            start = source + (row * width + column) * BYTES
            end = target + (column * target_width + row) * BYTES
            _transpose(start, width, end, target_width)  # type: ignore[call-arg]
    old = carray(_floats(source), (rows, width))
    new = carray(_floats(target), (columns, target_width))
    for row in range(rows):
        for column in range(whole_columns if row < whole_rows else 0, columns):
            new[column, row] = old[row, column]


@compiled
def work(task):  # type: ignore[no-untyped-def]
    """Compute outputs until none are left, beside other threads that do the same.

    Args:
        task: address of the whole numbers that :class:`Blocks` puts together.
    """
    given = carray(_indices(task), TASK)
    x, out, space, samples, threads, inputs, neurons, blocks = given[2:10]
    places, columns, weight, bias, rows = given[10:]
    place = carray(_indices(places), blocks + 1)
    row = carray(_shorts(rows), (blocks, NEURONS))
    result = carray(_floats(out), (samples, neurons))
    slot: Any = _take(task)  # type: ignore[call-arg]
    packed = space + slot * (inputs + neurons + 1) * PANEL * BYTES
    group = 1 if samples < FEW else PANEL if samples >= PANEL * threads else LANES
    shares = threads if group == 1 else 1  # of the neurons
    while True:
        number = _take(task + given.itemsize)
        first, share = number // shares * group, number % shares
        if first >= samples:
            return
        known = min(group, samples - first)
        size = PANEL if known > LANES else LANES
        found = packed + inputs * size * BYTES
        start = x + first * inputs * BYTES
        if group > 1:
            if known < size:  # what is left there might be slow to compute with
                carray(_floats(packed), inputs * size)[:] = 0
            _transposed(start, inputs, known, inputs, packed, size)
        for block in range(blocks * share // shares, blocks * (share + 1) // shares):
            count = place[block + 1] - place[block]
            needed = columns + place[block] * BYTES
            weights = weight + place[block] * NEURONS * BYTES
            biases, own = bias + block * NEURONS * BYTES, rows + block * NEURONS * BYTES
            if group == 1:
                _sample(start, needed, count, weights, biases, found)
                outputs = carray(_floats(found), NEURONS)
                for place_in_block in range(NEURONS):
                    neuron = row[block, place_in_block]
                    if neuron < neurons:
                        result[first, neuron] = outputs[place_in_block]
            elif size == PANEL:
                _panel(packed, needed, count, weights, biases, own, found)
            else:
                _half_panel(packed, needed, count, weights, biases, own, found)
        if group > 1:
            _transposed(found, size, neurons, known, out + first * neurons * BYTES, neurons)


def work_in_team(task):  # type: ignore[no-untyped-def]
    """To be compiled to a function that C can call."""
    work(task)
