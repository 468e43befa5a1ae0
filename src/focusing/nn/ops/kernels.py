"""Loops over the coefficients of a focused layer, compiled for the CPU by numba.

Element by element a coefficient costs more memory traffic than arithmetic. Here the row of a neuron
is made, used and forgotten while it is in the nearest cache of the core: one pass does what takes
torch a dozen operations over (n, m). Numba compiles a loop when it is first called, in a few
seconds, and keeps the result on disk. Import this file only where numba is installed.

A gaussian is computed as a power of 2: exp(-u^2 / 2) = 2^(-v^2) with v = SCALE * u.
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

FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
"""Sums in any order, so that they are vectorised; NaN and infinity keep their meaning."""
TWO = np.float32(2)  # a constant in double precision would drag single precision along
MIN_EXPONENT = np.float32(math.log2(FAINTEST))  # numba recompiles only if this file changes
SCALE = math.sqrt(math.log2(math.e) / 2)
MIN_SUM = 0.01
"""A sum of coefficients below this belongs to a focus that is far from all inputs."""


def compiled(loop: Callable[..., Any], compile: Callable[..., Any] = numba.njit) -> Any:
    """Compile a loop, and keep the result on disk."""
    options: Any = {"fastmath": FASTMATH, "error_model": "numpy", "nogil": True}  # 1 / 0 is inf
    try:
        function: Any = compile(cache=True, **options)(loop)
    except (RuntimeError, OSError):  # no writable cache folder: compile anew in each process
        return compile(**options)(loop)
    _ignore_write_errors(function._cache)
    return function


def _ignore_write_errors(cache: Any) -> None:
    """Let a full disk cost time only: the code is compiled in memory already."""
    save = cache.save_overload

    def save_overload(signature: Any, result: Any) -> None:
        try:
            save(signature, result)
        except OSError:  # the index may name data of older code now
            Path(cache._cache_file._index_path).unlink(missing_ok=True)

    cache.save_overload = save_overload


@intrinsic
def _exp2_integer(_: Any, exponent: Any) -> Any:
    """2^k of a whole number k in float32, by writing k into the bits of the exponent."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = ir.IntType(32)
        biased = builder.add(builder.fptosi(arguments[0], bits), ir.Constant(bits, 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(bits, 23)), ir.FloatType())

    return types.float32(types.float32), generate


@intrinsic
def _round(_: Any, number: Any) -> Any:
    """Round a float32 to the nearest whole number."""

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


def _exp2(x: Any) -> Any:
    """2^x for -126 < x < 128."""
    raise NotImplementedError  # numba calls the compiled forms below


@overload(_exp2)
def _exp2_of_type(x: Any) -> Any:
    def single(x: Any) -> Any:  # a polynomial, which LLVM can vectorise
        k: Any = _round(x)  # type: ignore[call-arg]
        r = x - k
        p = _C6 * r + _C5
        p = p * r + _C4
        p = p * r + _C3
        p = p * r + _C2
        p = p * r + _C1
        p = p * r + _C0
        return p * _exp2_integer(k)

    def double(x: Any) -> Any:
        return math.exp(x * math.log(2))

    return single if x == types.float32 else double


@compiled
def _origin(tau, mu, sigma, axis, nearest):  # type: ignore[no-untyped-def]
    """The origin of an axis, the factor from there to v, and the offset that v needs.

    The exponent of 2 is v * (offset - v), which is 0 at the origin. The origin is the centre or,
    for a focus far from all inputs, the input ``nearest``, so that nothing underflows.
    """
    factor = tau.dtype.type(SCALE / sigma[axis])
    if nearest < 0:
        return mu[axis], factor, np.float32(0)
    origin = tau[axis, nearest]
    return origin, factor, (mu[axis] - origin) * factor * TWO


@compiled
def _add_exponents(tau, mu, sigma, first, nearest, out):  # type: ignore[no-untyped-def]
    """Add the exponents along all axes but the last to ``out``."""
    for axis in range(len(tau) - 1):
        line = tau[axis, first : first + len(out)]
        origin, factor, offset = _origin(tau, mu, sigma, axis, nearest)
        for j in range(len(out)):
            v = (line[j] - origin) * factor
            out[j] += v * (offset - v)


@compiled
def _moments(tau, mu, sigma, first, nearest, values, out):  # type: ignore[no-untyped-def]
    """Write the sums of values * v and values * v^2 along all axes but the last into ``out``."""
    axes = len(tau)
    for axis in range(axes - 1):
        line = tau[axis, first : first + len(values)]
        origin, factor, _ = _origin(tau, mu, sigma, axis, nearest)
        moment1, moment2 = np.float32(0), np.float32(0)
        for j in range(len(values)):
            v = (line[j] - origin) * factor
            term = values[j] * v
            moment1 += term
            moment2 += term * v
        out[axis], out[axes + axis] = moment1, moment2


@compiled
def _nearest_input(tau, mu, sigma, first, last):  # type: ignore[no-untyped-def]
    """The input with the least distance from a focus, in units of sigma."""
    nearest, least = first, np.inf
    for j in range(first, last):
        distance = 0.0
        for axis in range(len(tau)):
            u = (np.float64(tau[axis, j]) - mu[axis]) / sigma[axis]
            distance += u * u
        if distance < least:
            nearest, least = j, distance
    return nearest


@compiled
def effective_weights(table, tau, mu, sigma, weight, mask, order, norm, out, state):  # type: ignore[no-untyped-def]
    """Write phi o W of the neurons of a plan into ``out``.

    Args:
        table: for each row of the plan its neuron, its first input, the one behind the last, and
            the place of its effective weights in ``out``, (n, 4).
        tau: positions, (d, m).
        mu: centres, (n, d).
        sigma: apertures, (n, d).
        weight: weights, (n, m).
        mask: connections to keep, (n, m); empty: all.
        order: order of the norm that the normaliser fixes; 0: none.
        norm: what the sum of phi^order becomes.
        out: the effective weights of all rows.
        state: what ``gradients`` needs, (n, 3 + 2d): log2 of the scale s, the input that is the
            origin (-1: the centre), the sum of g^order and its first and second moments.
    """
    axes, inputs = tau.shape
    workspace = np.empty(inputs, tau.dtype)
    for row in range(len(table)):
        neuron, first, last, place = table[row]
        g, line = workspace[: last - first], tau[-1, first:last]
        own_weight, product = weight[neuron, first:last], out[place : place + last - first]
        nearest = -1
        # Usually once. If all coefficients nearly vanish, again relative to the nearest input.
        while True:
            origin, factor, offset = _origin(tau, mu[neuron], sigma[neuron], axes - 1, nearest)
            # The exponents of the leading axes, if any, go into g; the last axis joins below.
            if axes > 1:
                g[:] = 0
                _add_exponents(tau, mu[neuron], sigma[neuron], first, nearest, g)
            # In one pass: g * W, still without the scale s, and the sums that s and its gradient
            # need. Nothing but the product is stored on a line, so the loop is all arithmetic.
            total, moment1, moment2 = np.float32(0), np.float32(0), np.float32(0)
            for j in range(len(product)):
                v = (line[j] - origin) * factor
                exponent = v * (offset - v)
                if axes > 1:
                    exponent += g[j]
                value = _exp2(max(exponent, MIN_EXPONENT))
                product[j] = value * own_weight[j]
                if order == 2:
                    value *= value
                if axes > 1:
                    g[j] = value
                total += value
                value *= v
                moment1 += value
                moment2 += value * v
            if order == 0 or nearest >= 0 or not total < MIN_SUM:
                break
            nearest = _nearest_input(tau, mu[neuron], sigma[neuron], first, last)
        own = state[neuron]
        own[1], own[2], own[2 + axes], own[2 + 2 * axes] = nearest, total, moment1, moment2
        if axes > 1:
            _moments(tau, mu[neuron], sigma[neuron], first, nearest, g, own[3:])
        own[0] = 0
        # Scale the row, which is still in the cache, now that the sum is known.
        if order > 0:
            scale = math.sqrt(norm / total) if order == 2 else norm / total
            own[0], s = math.log2(scale), tau.dtype.type(scale)
            for j in range(len(product)):
                product[j] *= s
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
    norm,
    change,
    state,
    grad_weight,
    grad_mu,
    grad_sigma,
):
    """Turn gradients of effective weights into those of weights, (n, m), mu and sigma, (n, d).

    They come in ``change``, at the places of the table or, if that is empty, in ``grad_weight``.
    The other arguments are as ``effective_weights`` had and left them.
    """
    axes, inputs = tau.shape
    workspace, moments = np.empty(inputs, tau.dtype), np.empty(2 * axes, tau.dtype)
    for row in range(len(table)):
        neuron, first, last, place = table[row]
        g, line = workspace[: last - first], tau[-1, first:last]
        own_weight, grad = weight[neuron, first:last], grad_weight[neuron, first:last]
        if change.size:
            grad = change[place : place + last - first]
        # Pruned connections have no gradient.
        if mask.size:
            kept = mask[neuron, first:last]
            for j in range(len(grad)):
                grad[j] *= kept[j]
        own = state[neuron]
        log_scale, nearest = tau.dtype.type(own[0]), int(own[1])
        origin, factor, offset = _origin(tau, mu[neuron], sigma[neuron], axes - 1, nearest)
        if axes > 1:
            g[:] = log_scale
            _add_exponents(tau, mu[neuron], sigma[neuron], first, nearest, g)
        # Compute phi again, which was not stored, and use it three times: for the gradient of the
        # weight, and for the sums over the row that the gradients of mu and sigma consist of.
        total, moment1, moment2 = np.float32(0), np.float32(0), np.float32(0)
        for j in range(len(grad)):
            v = (line[j] - origin) * factor
            exponent = v * (offset - v) + (g[j] if axes > 1 else log_scale)
            value = _exp2(max(exponent, MIN_EXPONENT)) * grad[j]
            grad[j] = value
            value *= own_weight[j]
            if axes > 1:
                g[j] = value
            total += value
            value *= v
            moment1 += value
            moment2 += value * v
        moments[axes - 1], moments[2 * axes - 1] = moment1, moment2
        if axes > 1:
            _moments(tau, mu[neuron], sigma[neuron], first, nearest, g, moments)
        # Take the share of the normaliser off the moments, then go from v about the origin back
        # to distances from the centre.
        share = total / own[2] if order > 0 else 0.0
        for axis in range(axes):
            _, _, offset = _origin(tau, mu[neuron], sigma[neuron], axis, nearest)
            width = sigma[neuron, axis]
            net1 = moments[axis] - share * own[3 + axis]
            net2 = moments[axes + axis] - share * own[3 + axes + axis]
            grad_mu[neuron, axis] = net1 / (width * SCALE)
            grad_sigma[neuron, axis] = (net2 - offset * net1) / (width * SCALE**2)
        # Inputs that the plan skips have no gradient.
        grad_weight[neuron, :first] = 0
        grad_weight[neuron, last:] = 0
        if change.size:
            grad_weight[neuron, first:last] = grad
