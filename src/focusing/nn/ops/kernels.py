"""Numba kernels of the CPU engine: effective weights phi o W, and their gradients.

Elementwise operations over (n, m) are bound by memory traffic, not by arithmetic. These kernels
fuse them: the row of a neuron is computed, used and dropped while it is in the L1 cache, in one
pass instead of a dozen torch operations. Numba compiles a kernel at its first call, which takes
seconds, and caches it on disk. Import this file only where numba is installed.

A Gaussian is computed as a power of 2: exp(-u^2 / 2) = 2^(-v^2) with v = SCALE * u.
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

from focusing.nn.focus import MIN_PHI

FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
"""Reductions may be reordered, so that LLVM vectorises them; NaN and infinity stay valid."""
TWO = np.float32(2)  # a Python constant would promote float32 to float64
MIN_EXPONENT = np.float32(math.log2(MIN_PHI))  # numba recompiles only if this file changes
SCALE = math.sqrt(math.log2(math.e) / 2)
MIN_SUM = 0.01
"""Below this sum of coefficients, a focus is far from all inputs."""


def cached_jit(function: Callable[..., Any], jit: Callable[..., Any] = numba.njit) -> Any:
    """``numba.njit`` with this file's options and a cache on disk that may fail."""
    options: Any = {"fastmath": FASTMATH, "error_model": "numpy", "nogil": True}  # 1 / 0 is inf
    try:
        dispatcher: Any = jit(cache=True, **options)(function)
    except (RuntimeError, OSError):  # no writable cache folder: compile again in each process
        return jit(**options)(function)
    cache = dispatcher._cache
    save = cache.save_overload

    def save_overload(signature: Any, result: Any) -> None:
        try:
            save(signature, result)
        except OSError:  # a full disk; the index may now name data of older code
            Path(cache._cache_file._index_path).unlink(missing_ok=True)

    cache.save_overload = save_overload
    return dispatcher


@intrinsic
def _exp2_integer(_: Any, exponent: Any) -> Any:
    """2^k of an integer k in float32: k goes into the exponent bits."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = ir.IntType(32)
        biased = builder.add(builder.fptosi(arguments[0], bits), ir.Constant(bits, 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(bits, 23)), ir.FloatType())

    return types.float32(types.float32), generate


@intrinsic
def _round(_: Any, number: Any) -> Any:
    """Round a float32 to the nearest integer."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        rint = builder.module.declare_intrinsic("llvm.rint", [ir.FloatType()])
        return builder.call(rint, arguments)

    return types.float32(types.float32), generate


# Minimax polynomial 2^r = sum of c_k r^k for |r| <= 1/2; its relative error is 2e-9.
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
    raise NotImplementedError  # numba calls the overloads below


@overload(_exp2)
def _exp2_of_type(x: Any) -> Any:
    # Range reduction x = k + r, the polynomial by Horner's rule, then 2^k through the exponent
    # bits: no branch and no call, so that LLVM vectorises the loops around it.
    def single(x: Any) -> Any:
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


@cached_jit
def _origin(tau, mu, sigma, axis, nearest):  # type: ignore[no-untyped-def]
    """Origin of an axis, the factor from distances to v, and the offset in the exponent.

    The exponent of 2 is v * (offset - v), which is 0 at the origin. The origin is the centre or,
    if ``nearest`` is not -1, that input: the shift of a stable softmax, so that a focus far from
    all inputs does not underflow.
    """
    factor = tau.dtype.type(SCALE / sigma[axis])
    if nearest < 0:
        return mu[axis], factor, np.float32(0)
    origin = tau[axis, nearest]
    return origin, factor, (mu[axis] - origin) * factor * TWO


@cached_jit
def _add_exponents(tau, mu, sigma, first, nearest, out):  # type: ignore[no-untyped-def]
    """Add the exponents of all axes but the last to ``out``, one sweep over the row per axis."""
    for axis in range(len(tau) - 1):
        line = tau[axis, first : first + len(out)]
        origin, factor, offset = _origin(tau, mu, sigma, axis, nearest)
        for j in range(len(out)):
            v = (line[j] - origin) * factor
            out[j] += v * (offset - v)


@cached_jit
def _moments(tau, mu, sigma, first, nearest, values, out):  # type: ignore[no-untyped-def]
    """Reduce values * v and values * v^2 along all axes but the last into ``out``."""
    axes = len(tau)
    # One sweep over the row per axis; both sums stay in registers.
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


@cached_jit
def _nearest_input(tau, mu, sigma, first, last):  # type: ignore[no-untyped-def]
    """The input nearest to a focus, in units of sigma: a plain argmin, which is rarely needed."""
    nearest, least = first, np.inf
    for j in range(first, last):
        distance = 0.0
        for axis in range(len(tau)):
            u = (np.float64(tau[axis, j]) - mu[axis]) / sigma[axis]
            distance += u * u
        if distance < least:
            nearest, least = j, distance
    return nearest


@cached_jit
def effective_weights(table, tau, mu, sigma, weight, mask, order, norm, out, state):  # type: ignore[no-untyped-def]
    """Write phi o W of the neurons of a plan into ``out``.

    Args:
        table: neuron, first input, end of the inputs, and offset in ``out`` of each row, (n, 4).
        tau: positions, (d, m).
        mu: centres, (n, d).
        sigma: apertures, (n, d).
        weight: weights, (n, m).
        mask: connections to keep, (n, m); empty: all.
        order: order of the norm that the normaliser fixes; 0: none.
        norm: target of the sum of phi^order.
        out: effective weights of all rows.
        state: saved for ``gradients``, (n, 3 + 2d): log2 of the scale s, the input at the origin
            (-1: the centre), the sum of g^order, and its first and second moments.
    """
    axes, inputs = tau.shape
    workspace = np.empty(inputs, tau.dtype)
    # One row per iteration: it is produced, normalised and masked while it is in the L1 cache.
    for row in range(len(table)):
        neuron, first, last, place = table[row]
        g, line = workspace[: last - first], tau[-1, first:last]
        row_weight, product = weight[neuron, first:last], out[place : place + last - first]
        nearest = -1
        # Runs once, or a second time with the nearest input as origin if the sum underflows.
        while True:
            origin, factor, offset = _origin(tau, mu[neuron], sigma[neuron], axes - 1, nearest)
            # Exponents of the leading axes go into g; the last axis is added in the loop below.
            if axes > 1:
                g[:] = 0
                _add_exponents(tau, mu[neuron], sigma[neuron], first, nearest, g)
            # The fused loop: unnormalised g * W, with the reductions for s and its gradient in
            # registers. On a line it stores only the product, so that it is bound by arithmetic.
            total, moment1, moment2 = np.float32(0), np.float32(0), np.float32(0)
            for j in range(len(product)):
                v = (line[j] - origin) * factor
                exponent = v * (offset - v)
                if axes > 1:
                    exponent += g[j]
                value = _exp2(max(exponent, MIN_EXPONENT))
                product[j] = value * row_weight[j]
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
        saved = state[neuron]
        saved[1], saved[2], saved[2 + axes], saved[2 + 2 * axes] = nearest, total, moment1, moment2
        if axes > 1:
            _moments(tau, mu[neuron], sigma[neuron], first, nearest, g, saved[3:])
        saved[0] = 0
        # Normalise the row now that the sum is known; it is still in the cache.
        if order > 0:
            scale = math.sqrt(norm / total) if order == 2 else norm / total
            saved[0], s = math.log2(scale), tau.dtype.type(scale)
            for j in range(len(product)):
                product[j] *= s
        if mask.size:
            kept = mask[neuron, first:last]
            for j in range(len(product)):
                product[j] *= kept[j]


@cached_jit
def gradients(  # type: ignore[no-untyped-def]
    table,
    tau,
    mu,
    sigma,
    weight,
    mask,
    order,
    norm,
    grad_product,
    state,
    grad_weight,
    grad_mu,
    grad_sigma,
):
    """Turn gradients of effective weights into those of weights, (n, m), mu and sigma, (n, d).

    They come in ``grad_product``, at the offsets of the table or, if it is empty, in
    ``grad_weight``. The other arguments are those of ``effective_weights``.
    """
    axes, inputs = tau.shape
    workspace, moments = np.empty(inputs, tau.dtype), np.empty(2 * axes, tau.dtype)
    # One row per iteration, as in the forward pass.
    for row in range(len(table)):
        neuron, first, last, place = table[row]
        g, line = workspace[: last - first], tau[-1, first:last]
        row_weight, grad = weight[neuron, first:last], grad_weight[neuron, first:last]
        if grad_product.size:
            grad = grad_product[place : place + last - first]
        # Pruned connections have no gradient.
        if mask.size:
            kept = mask[neuron, first:last]
            for j in range(len(grad)):
                grad[j] *= kept[j]
        saved = state[neuron]
        log_scale, nearest = tau.dtype.type(saved[0]), int(saved[1])
        origin, factor, offset = _origin(tau, mu[neuron], sigma[neuron], axes - 1, nearest)
        if axes > 1:
            g[:] = log_scale
            _add_exponents(tau, mu[neuron], sigma[neuron], first, nearest, g)
        # The fused loop: recompute phi, turn grad into dL/dW in place, and reduce G = dL/dphi o phi
        # and its first two moments, which give the gradients of mu and sigma.
        total, moment1, moment2 = np.float32(0), np.float32(0), np.float32(0)
        for j in range(len(grad)):
            v = (line[j] - origin) * factor
            exponent = v * (offset - v) + (g[j] if axes > 1 else log_scale)
            value = _exp2(max(exponent, MIN_EXPONENT)) * grad[j]
            grad[j] = value
            value *= row_weight[j]
            if axes > 1:
                g[j] = value
            total += value
            value *= v
            moment1 += value
            moment2 += value * v
        moments[axes - 1], moments[2 * axes - 1] = moment1, moment2
        if axes > 1:
            _moments(tau, mu[neuron], sigma[neuron], first, nearest, g, moments)
        # Subtract the normaliser's part (the softmax backward pass), then shift the moments from
        # the origin to the centre.
        share = total / saved[2] if order > 0 else 0.0
        for axis in range(axes):
            _, _, offset = _origin(tau, mu[neuron], sigma[neuron], axis, nearest)
            width = sigma[neuron, axis]
            net1 = moments[axis] - share * saved[3 + axis]
            net2 = moments[axes + axis] - share * saved[3 + axes + axis]
            grad_mu[neuron, axis] = net1 / (width * SCALE)
            grad_sigma[neuron, axis] = (net2 - offset * net1) / (width * SCALE**2)
        # Inputs outside the slab have no gradient.
        grad_weight[neuron, :first] = 0
        grad_weight[neuron, last:] = 0
        if grad_product.size:
            grad_weight[neuron, first:last] = grad
