"""Loops over the coefficients of a focused layer, compiled for the CPU.

Element by element a coefficient costs more memory traffic than arithmetic. Here each neuron's row
is made, used and forgotten while it is in the core's nearest cache: what takes a dozen operations
of torch over (n, m) takes one visit. Numba compiles a loop when it is first called, in a few
seconds, and keeps the result on disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, overload

from focusing.nn.focus import FAINTEST

AVAILABLE = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]
"""Whether numba compiles; without (``NUMBA_DISABLE_JIT``), loops in Python would take minutes."""
FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
"""Sums in any order, so that they are vectorised; NaN and infinity keep their meaning."""
TWO = np.float32(2)  # a constant in double precision would drag single precision along
FAINTEST_EXPONENT = np.float32(math.log2(FAINTEST))  # numba only notices changes in this file
STEEP = math.sqrt(math.log2(math.e) / 2)
"""2^(-v^2) is the gaussian of u = v / STEEP."""
UNSEEN = 0.01
"""A sum of q below this means a focus that all inputs are far from."""


def compiled(loop: Callable[..., Any], compile: Callable[..., Any] = numba.njit) -> Any:
    """Compile a loop, and keep the result on disk."""
    options: Any = {"fastmath": FASTMATH, "error_model": "numpy", "nogil": True}  # 1 / 0 is inf
    if not AVAILABLE:
        return loop
    try:
        function: Any = compile(cache=True, **options)(loop)
    except (RuntimeError, OSError):  # nowhere to write to: compile anew in each process
        return compile(**options)(loop)
    _save_if_possible(function._cache)
    return function


def _save_if_possible(cache: Any) -> None:
    """A disk that is full now must not end what has been compiled in memory."""
    save = cache.save_overload

    def save_overload(signature: Any, result: Any) -> None:
        try:
            save(signature, result)
        except OSError:  # perhaps of the data alone: the index would name those of older code
            Path(cache._cache_file._index_path).unlink(missing_ok=True)

    cache.save_overload = save_overload


@intrinsic
def _whole_power(_: Any, exponent: Any) -> Any:
    """2^k of a whole number k in float32, by writing k into the bits of the exponent."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = ir.IntType(32)
        biased = builder.add(builder.fptosi(arguments[0], bits), ir.Constant(bits, 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(bits, 23)), ir.FloatType())

    return types.float32(types.float32), generate


@intrinsic
def _nearest_whole(_: Any, number: Any) -> Any:
    """The whole number that is nearest to a float32."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        rint = builder.module.declare_intrinsic("llvm.rint", [ir.FloatType()])
        return builder.call(rint, arguments)

    return types.float32(types.float32), generate


# 2^r = sum of c_k r^k for |r| <= 1/2, of the least relative error: 2e-9 before rounding.
_C0, _C1, _C2, _C3, _C4, _C5, _C6 = (
    np.float32(c)
    for c in (
        1.0000000005541727,
        0.6931472057374941,
        0.2402264689059338,
        0.05550328776465987,
        0.009618488959708784,
        0.0013399931422359553,
        0.00015345811785406953,
    )
)


def _power(x: Any) -> Any:
    """2^x for -126 < x < 128."""
    raise NotImplementedError  # only its compiled forms, below, are called


@overload(_power)
def _power_of_type(x: Any) -> Any:
    def single(x: Any) -> Any:  # which LLVM can vectorise
        k: Any = _nearest_whole(x)  # type: ignore[call-arg]
        r = x - k
        p = _C6 * r + _C5
        p = p * r + _C4
        p = p * r + _C3
        p = p * r + _C2
        p = p * r + _C1
        p = p * r + _C0
        return p * _whole_power(k)

    def double(x: Any) -> Any:
        return math.exp(x * math.log(2))

    return single if x == types.float32 else double


@compiled
def _origin(tau, mu, sigma, axis, nearest):  # type: ignore[no-untyped-def]
    """Where positions are measured from, how steeply, and twice the way from there to the centre.

    With v the scaled distance from the origin, v * (way - v) is the exponent of 2 of a gaussian
    that is 1 at the origin: the centre or, if ``nearest`` is an input, that.
    """
    steep = tau.dtype.type(STEEP / sigma[axis])
    if nearest < 0:
        return mu[axis], steep, np.float32(0)
    origin = tau[axis, nearest]
    return origin, steep, (mu[axis] - origin) * steep * TWO


@compiled
def _exponents(tau, mu, sigma, first, nearest, out):  # type: ignore[no-untyped-def]
    """Add the exponents along all axes but the last to ``out``."""
    for axis in range(len(tau) - 1):
        line = tau[axis, first : first + len(out)]
        origin, steep, way = _origin(tau, mu, sigma, axis, nearest)
        for j in range(len(out)):
            v = (line[j] - origin) * steep
            out[j] += v * (way - v)


@compiled
def _moments(tau, mu, sigma, first, nearest, values, out):  # type: ignore[no-untyped-def]
    """Write sums of values times v and v^2 along all axes but the last into ``out``."""
    axes = len(tau)
    for axis in range(axes - 1):
        line = tau[axis, first : first + len(values)]
        origin, steep, _ = _origin(tau, mu, sigma, axis, nearest)
        once, twice = np.float32(0), np.float32(0)
        for j in range(len(values)):
            v = (line[j] - origin) * steep
            part = values[j] * v
            once += part
            twice += part * v
        out[axis], out[axes + axis] = once, twice


@compiled
def _nearest(tau, mu, sigma, first, last):  # type: ignore[no-untyped-def]
    """Which input is the nearest to a focus."""
    found, least = first, np.inf
    for j in range(first, last):
        distance = 0.0
        for axis in range(len(tau)):
            u = (np.float64(tau[axis, j]) - mu[axis]) / sigma[axis]
            distance += u * u
        if distance < least:
            found, least = j, distance
    return found


@compiled
def products(table, tau, mu, sigma, weight, mask, order, sum_q, out, state):  # type: ignore[no-untyped-def]
    """Write phi o W of the neurons of a tiling into ``out``.

    Args:
        table: for each row of the tiling its neuron, its first input, the one behind the last, and
            the place of its products in ``out``, (n, 4).
        tau: positions, (d, m).
        mu: centres, (n, d).
        sigma: apertures, (n, d).
        weight: weights, (n, m).
        mask: which connections are left, (n, m), or nothing.
        order: q of the normaliser is gaussian^order; 0: there is none.
        sum_q: what phi^order adds up to.
        out: where the products go.
        state: what ``gradients`` wants to know, (n, 3 + 2d): the exponent of 2 of the
            scale s, the input that positions are measured from, the sum of q and its moments.
    """
    axes, inputs = tau.shape
    room = np.empty(inputs, tau.dtype)
    for row in range(len(table)):
        neuron, first, last, place = table[row]
        g, line = room[: last - first], tau[-1, first:last]
        given, product = weight[neuron, first:last], out[place : place + last - first]
        nearest = -1
        while True:
            origin, steep, way = _origin(tau, mu[neuron], sigma[neuron], axes - 1, nearest)
            if axes > 1:
                g[:] = 0
                _exponents(tau, mu[neuron], sigma[neuron], first, nearest, g)
            total, once, twice = np.float32(0), np.float32(0), np.float32(0)
            for j in range(len(product)):
                v = (line[j] - origin) * steep
                exponent = v * (way - v)
                if axes > 1:
                    exponent += g[j]
                value = _power(max(exponent, FAINTEST_EXPONENT))
                product[j] = value * given[j]
                if order == 2:
                    value *= value
                if axes > 1:
                    g[j] = value
                total += value
                value *= v
                once += value
                twice += value * v
            if order == 0 or nearest >= 0 or not total < UNSEEN:
                break
            nearest = _nearest(tau, mu[neuron], sigma[neuron], first, last)
        known = state[neuron]
        known[1], known[2], known[2 + axes], known[2 + 2 * axes] = nearest, total, once, twice
        if axes > 1:
            _moments(tau, mu[neuron], sigma[neuron], first, nearest, g, known[3:])
        known[0] = 0
        if order > 0:
            scale = math.sqrt(sum_q / total) if order == 2 else sum_q / total
            known[0], factor = math.log2(scale), tau.dtype.type(scale)
            for j in range(len(product)):
                product[j] *= factor
        if mask.size:
            kept = mask[neuron, first:last]
            for j in range(len(product)):
                product[j] *= kept[j]


@compiled
def gradients(  # type: ignore[no-untyped-def]
    table,
    tau,
    mu,
    sigma,
    weight,
    mask,
    order,
    sum_q,
    change,
    state,
    grad_weight,
    grad_mu,
    grad_sigma,
):
    """Turn gradients of the products into those of weights, (n, m), and of mu and sigma, (n, d).

    The gradients of the products are in ``change``, in the places that the table gives or, if that
    is empty, in ``grad_weight``. The other arguments are as ``products`` had and left them.
    """
    axes, inputs = tau.shape
    room, moments = np.empty(inputs, tau.dtype), np.empty(2 * axes, tau.dtype)
    for row in range(len(table)):
        neuron, first, last, place = table[row]
        g, line, given = room[: last - first], tau[-1, first:last], weight[neuron, first:last]
        own = grad_weight[neuron, first:last]
        if change.size:
            own = change[place : place + last - first]
        if mask.size:
            kept = mask[neuron, first:last]
            for j in range(len(own)):
                own[j] *= kept[j]
        known = state[neuron]
        scale, nearest = tau.dtype.type(known[0]), int(known[1])
        origin, steep, way = _origin(tau, mu[neuron], sigma[neuron], axes - 1, nearest)
        if axes > 1:
            g[:] = scale
            _exponents(tau, mu[neuron], sigma[neuron], first, nearest, g)
        total, once, twice = np.float32(0), np.float32(0), np.float32(0)
        for j in range(len(own)):
            v = (line[j] - origin) * steep
            exponent = v * (way - v) + (g[j] if axes > 1 else scale)
            value = _power(max(exponent, FAINTEST_EXPONENT)) * own[j]
            own[j] = value
            value *= given[j]
            if axes > 1:
                g[j] = value
            total += value
            value *= v
            once += value
            twice += value * v
        moments[axes - 1], moments[2 * axes - 1] = once, twice
        if axes > 1:
            _moments(tau, mu[neuron], sigma[neuron], first, nearest, g, moments)
        share = total / known[2] if order > 0 else 0.0
        for axis in range(axes):
            _, _, way = _origin(tau, mu[neuron], sigma[neuron], axis, nearest)
            width = sigma[neuron, axis]
            first_moment = moments[axis] - share * known[3 + axis]
            second_moment = moments[axes + axis] - share * known[3 + axes + axis]
            grad_mu[neuron, axis] = first_moment / (width * STEEP)
            grad_sigma[neuron, axis] = (second_moment - way * first_moment) / (width * STEEP**2)
        grad_weight[neuron, :first] = 0
        grad_weight[neuron, last:] = 0
        if change.size:
            grad_weight[neuron, first:last] = own
