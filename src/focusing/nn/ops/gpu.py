"""The GPU engine: two Triton kernels around the matrix products of a dense layer.

One program computes the row of one neuron. The forward kernel reads W and writes K = phi o W; the
backward kernel reads dL/dK and W, and writes dL/dW, dL/dmu and dL/dsigma. phi is recomputed, not
stored: arithmetic is cheaper than memory traffic. The formulas are those of ``fused.py``. Import
this file only where ``triton_runs_on`` is true.

Distances are measured from an origin in the unit cube: the centre or, for a focus outside the cube,
the point nearest to it. The remaining distance from the origin to the centre is common to all
inputs and cancels in the normaliser. It is never added, so that a distant focus loses no precision.
"""

from __future__ import annotations

import contextlib
import math
import os
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import custom_op, triton_op, wrap_triton
from torch.nn import functional

from focusing.nn.focus import MIN_PHI, NORMALIZERS
from focusing.nn.ops import operands_match
from focusing.nn.ops.fused import Gradients, product_with_gradients

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether kernels run in Python on CPU tensors, as in the tests; read when Triton is imported."""
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MAX_BLOCK = 512
"""Most inputs per tile."""
INPUTS_PER_WARP = {1: 128, 2: 128, 3: 64}
"""By number of axes: few enough that all accumulators of a row stay in registers."""

_MIN_LOG_PHI = tl.constexpr(math.log(MIN_PHI))
_NEG_INF = tl.constexpr(-3e38)  # finite, so that _NEG_INF - _NEG_INF is 0, not NaN


@triton.jit
def _load_offsets(
    tau, inputs, valid, axes, origin, inv_sigma, shift, D: tl.constexpr, ORDER: tl.constexpr
):
    """Offsets u of a tile of inputs from the origin, in sigma, (axes, inputs), and the exponents.

    An exponent is the log of the Gaussian to the power ORDER, up to a constant of the row.
    """
    places = tau + inputs[None, :] * D + axes[:, None]
    positions = tl.load(places, mask=valid[None, :] & (axes[:, None] < D), other=0.0)
    u = (positions - origin[:, None]) * inv_sigma[:, None]
    factor: tl.constexpr = -1.0 if ORDER == 2 else -0.5
    return u, factor * tl.sum(u * (u + 2 * shift[:, None]), 0)


@triton.jit
def _load_focus(
    mu, sigma, tau, axes, m, log_sum_phi, D: tl.constexpr, ORDER: tl.constexpr, BLOCK: tl.constexpr
):
    """Origin, 1 / sigma and distance from centre to origin in sigma of a row, for each axis.

    Also its log scale: added to the exponents, it makes the sum of phi^ORDER exp(log_sum_phi).
    """
    center = tl.load(mu + axes, mask=axes < D, other=0.0).to(tl.float32)
    inv_sigma = 1.0 / tl.load(sigma + axes, mask=axes < D, other=1.0).to(tl.float32)
    if ORDER == 0:  # no normaliser: nothing cancels
        return center, inv_sigma, tl.zeros_like(center), 0.0
    origin = tl.minimum(tl.maximum(center, 0.0), 1.0)
    shift = (origin - center) * inv_sigma
    # Online softmax: every lane keeps a running maximum and a sum that is rescaled when the
    # maximum grows, so that one pass over the tiles is enough and nothing overflows.
    running_max = tl.full((BLOCK,), _NEG_INF, tl.float32)
    running_sum = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, m, BLOCK):
        inputs = start + tl.arange(0, BLOCK)
        valid = inputs < m
        _, exponent = _load_offsets(tau, inputs, valid, axes, origin, inv_sigma, shift, D, ORDER)
        exponent = tl.where(valid, exponent, _NEG_INF)
        new_max = tl.maximum(running_max, exponent)
        terms = tl.where(valid, tl.exp(exponent - new_max), 0.0)
        running_sum = running_sum * tl.exp(running_max - new_max) + terms
        running_max = new_max
    # Reduce the lanes to one log-sum-exp.
    row_max = tl.max(running_max, 0)
    row_sum = tl.sum(running_sum * tl.exp(running_max - row_max), 0)
    log_scale = log_sum_phi - row_max - tl.log(row_sum)
    return origin, inv_sigma, shift, log_scale


@triton.jit
def effective_weight_kernel(
    weight,
    mu,
    sigma,
    tau,
    mask,
    product,
    m,
    log_sum_phi,
    D: tl.constexpr,
    AXES: tl.constexpr,
    ORDER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute a row of K = phi o W."""
    row = tl.program_id(0).to(tl.int64)
    axes = tl.arange(0, AXES)
    origin, inv_sigma, shift, log_scale = _load_focus(
        mu + row * D, sigma + row * D, tau, axes, m, log_sum_phi, D, ORDER, BLOCK
    )
    # The second pass of the softmax, fused with the product: a tile of W in, a tile of K out.
    for start in range(0, m, BLOCK):
        inputs = start + tl.arange(0, BLOCK)
        valid = inputs < m
        u, exponent = _load_offsets(tau, inputs, valid, axes, origin, inv_sigma, shift, D, ORDER)
        log_phi = exponent + log_scale
        if ORDER == 2:
            log_phi *= 0.5
        phi = tl.exp(tl.where(log_phi < _MIN_LOG_PHI, _MIN_LOG_PHI, log_phi))  # NaN stays NaN
        value = phi * tl.load(weight + row * m + inputs, mask=valid, other=0.0).to(tl.float32)
        if mask is not None:
            kept = tl.load(mask + row * m + inputs, mask=valid, other=0)
            value = tl.where(kept != 0, value, 0.0)
        tl.store(product + row * m + inputs, value.to(product.dtype.element_ty), mask=valid)


@triton.jit
def gradients_kernel(
    grad_product,
    weight,
    mu,
    sigma,
    tau,
    mask,
    grad_weight,
    grad_mu,
    grad_sigma,
    m,
    log_sum_phi,
    D: tl.constexpr,
    AXES: tl.constexpr,
    ORDER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute a row of dL/dW, dL/dmu and dL/dsigma."""
    row = tl.program_id(0).to(tl.int64)
    axes = tl.arange(0, AXES)
    origin, inv_sigma, shift, log_scale = _load_focus(
        mu + row * D, sigma + row * D, tau, axes, m, log_sum_phi, D, ORDER, BLOCK
    )
    # Accumulators, one per lane: G = dL/dphi o phi and its first two moments, and those of the
    # softmax p = q / sum(q).
    g_sum = tl.zeros((BLOCK,), tl.float32)
    g_u = tl.zeros((AXES, BLOCK), tl.float32)
    g_u2 = tl.zeros((AXES, BLOCK), tl.float32)
    p_u = tl.zeros((AXES, BLOCK), tl.float32)
    p_u2 = tl.zeros((AXES, BLOCK), tl.float32)
    # One pass over the tiles: recompute phi, write dL/dW, and accumulate the moments.
    for start in range(0, m, BLOCK):
        inputs = start + tl.arange(0, BLOCK)
        valid = inputs < m
        u, exponent = _load_offsets(tau, inputs, valid, axes, origin, inv_sigma, shift, D, ORDER)
        log_phi = exponent + log_scale
        p = tl.where(valid, tl.exp(log_phi - log_sum_phi), 0.0)
        if ORDER == 2:
            log_phi *= 0.5
        clamped = log_phi < _MIN_LOG_PHI
        phi = tl.exp(tl.where(clamped, _MIN_LOG_PHI, log_phi))
        grad = phi * tl.load(grad_product + row * m + inputs, mask=valid, other=0.0).to(tl.float32)
        if mask is not None:
            kept = tl.load(mask + row * m + inputs, mask=valid, other=0)
            grad = tl.where(kept != 0, grad, 0.0)
        value = tl.load(weight + row * m + inputs, mask=valid, other=0.0).to(tl.float32)
        tl.store(grad_weight + row * m + inputs, grad.to(grad_weight.dtype.element_ty), mask=valid)
        g = tl.where(clamped, 0.0, grad * value)
        g_sum += g
        g_u += g[None, :] * u
        g_u2 += g[None, :] * u * u
        if ORDER > 0:
            p_u += p[None, :] * u
            p_u2 += p[None, :] * u * u
    # Reduce the lanes, and subtract the normaliser's part: the backward pass of a softmax.
    first = tl.sum(g_u, 1)
    second = tl.sum(g_u2, 1)
    if ORDER > 0:
        total = tl.sum(g_sum, 0)
        first -= total * tl.sum(p_u, 1)
        second += 2 * shift * first - total * tl.sum(p_u2, 1)
    places = row * D + axes
    first = (first * inv_sigma).to(grad_mu.dtype.element_ty)
    second = (second * inv_sigma).to(grad_sigma.dtype.element_ty)
    tl.store(grad_mu + places, first, mask=axes < D)
    tl.store(grad_sigma + places, second, mask=axes < D)


def launch_options(inputs: int, axes: int, normalizer: str) -> dict[str, Any]:
    """Arguments of both kernels besides tensors; ``m`` and ``log_sum_phi`` are not constexpr."""
    order, power = NORMALIZERS[normalizer] or (0, 0.0)
    block = min(MAX_BLOCK, max(32, triton.next_power_of_2(inputs)))
    return {
        "m": inputs,
        "log_sum_phi": math.log(inputs) * power,
        "D": axes,
        "AXES": triton.next_power_of_2(axes),
        "ORDER": order,
        "BLOCK": block,
        "num_warps": max(1, block // INPUTS_PER_WARP[axes]),
    }


def _launch(kernel: Any, inputs: tuple[Any, ...], normalizer: str, *outputs: Tensor) -> None:
    """Launch one program per neuron; the last two inputs are positions and mask."""
    tensors = [None if tensor is None else tensor.contiguous() for tensor in inputs]
    tau = inputs[-2]
    options = launch_options(len(tau), tau.shape[1], normalizer)
    kernel[(len(outputs[0]),)](*tensors, *outputs, **options)


def _run_forward(kernel: Any, *inputs: Any) -> Tensor:
    *tensors, normalizer, dtype = inputs
    weight = tensors[0]
    product = torch.empty(weight.shape, dtype=dtype, device=weight.device)
    _launch(kernel, tuple(tensors), normalizer, product)
    return product


def _run_backward(kernel: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    *tensors, normalizer = inputs
    grad_weight, grad_mu, grad_sigma = (
        torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        for tensor in tensors[1:4]
    )
    _launch(kernel, tuple(tensors), normalizer, grad_weight, grad_mu, grad_sigma)
    return grad_weight, grad_mu, grad_sigma


# Inductor looks into a Triton op and launches its kernels itself. Interpreted kernels cannot be
# traced, so the tests register opaque custom ops.
_register: Any = custom_op if INTERPRETED else triton_op


@_register("focusing::effective_weight", mutates_args=())
def effective_weight(
    weight: Tensor,
    mu: Tensor,
    sigma: Tensor,
    tau: Tensor,
    mask: Tensor | None,
    normalizer: str,
    dtype: torch.dtype,
) -> Tensor:
    """K = phi o W, (n, m), in the precision of the inputs."""
    kernel = wrap_triton(effective_weight_kernel)
    return _run_forward(kernel, weight, mu, sigma, tau, mask, normalizer, dtype)


@_register("focusing::weight_gradients", mutates_args=())
def weight_gradients(
    grad_product: Tensor,
    weight: Tensor,
    mu: Tensor,
    sigma: Tensor,
    tau: Tensor,
    mask: Tensor | None,
    normalizer: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """dL/dW, dL/dmu and dL/dsigma from dL/dK."""
    kernel = wrap_triton(gradients_kernel)
    return _run_backward(kernel, grad_product, weight, mu, sigma, tau, mask, normalizer)


@effective_weight.register_fake
def _(weight: Tensor, *others: Any) -> Tensor:
    *_, dtype = others
    return weight.new_empty(weight.shape, dtype=dtype)


@weight_gradients.register_fake
def _(
    grad_product: Tensor, weight: Tensor, mu: Tensor, sigma: Tensor, *_: Any
) -> tuple[Tensor, ...]:
    return tuple(tensor.new_empty(tensor.shape) for tensor in (weight, mu, sigma))


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.normalizer, _ = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, grad_product: Tensor) -> Gradients:
    """Gradients of all arguments of ``effective_weight``."""
    inputs = (grad_product, *ctx.saved_tensors, ctx.normalizer)
    if torch.is_grad_enabled():  # create_graph=True
        _, gradients = product_with_gradients(ctx.needs_input_grad[:3], *inputs)
        return *gradients, *[None] * 4
    return *weight_gradients(*inputs), *[None] * 4


effective_weight.register_autograd(_backward, setup_context=_save)


class EffectiveWeight(torch.autograd.Function):
    """The two kernels without the overhead of the dispatcher, which small layers would notice."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        """Take the arguments of ``effective_weight``."""
        product = _run_forward(effective_weight_kernel, *inputs)
        _save(ctx, inputs, product)
        return product

    @staticmethod
    def backward(ctx: Any, grad_product: Tensor) -> Gradients:
        """Gradients of weight, mu and sigma."""
        if torch.is_grad_enabled():
            return _backward(ctx, grad_product)
        inputs = (*ctx.saved_tensors, ctx.normalizer)
        return *_run_backward(gradients_kernel, grad_product, *inputs), *[None] * 4


def focused_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mu: Tensor,
    sigma: Tensor,
    tau: Tensor,
    mask: Tensor | None,
    normalizer: str,
) -> Tensor:
    """Map x (b, m) to (b, n); see ``functional.focused_linear``."""
    inputs = (weight, mu, sigma, tau, mask, normalizer, x.dtype)
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        product = effective_weight(*inputs)  # compilers and dispatch modes must see an operator
    else:
        with _device_guard(weight.device):
            product = EffectiveWeight.apply(*inputs)
    return functional.linear(x, product, bias)


def _device_guard(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Make the tensors' device current, because Triton launches on the current device."""
    module = torch.get_device_module(device)
    if device.type == "cpu" or module.current_device() == device.index:
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[Any] = module.device(device)
    return context


def supports(
    x: Tensor, weight: Tensor, mu: Tensor, sigma: Tensor, tau: Tensor, mask: Tensor | None
) -> bool:
    """Whether the kernels, which check neither types nor shapes, take these tensors."""
    return (
        x.dtype in DTYPES
        and weight.dtype in DTYPES
        and mu.dtype in DTYPES
        and sigma.dtype in DTYPES
        and tau.dtype == torch.float32
        and tau.shape[1] in INPUTS_PER_WARP
        and operands_match(x, weight, mu, sigma, tau, mask)
    )


def launch_once(kind: str) -> None:
    """Run both kernels on a device of this type, or raise the error that prevents it."""
    weight, foci = torch.ones(1, 2, device=kind), torch.ones(1, 1, device=kind)
    inputs = (weight, foci, foci, weight.t(), None, "l2")
    _run_forward(effective_weight_kernel, *inputs, torch.float32)
    _run_backward(gradients_kernel, weight, *inputs)
