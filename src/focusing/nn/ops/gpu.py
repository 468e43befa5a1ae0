"""The engine for GPUs: two Triton kernels around the matrix products of a dense layer.

A program computes the row of one neuron. Forward reads W and writes K = phi o W; backward reads
dL/dK and W, and writes dL/dW and the row's dL/dmu and dL/dsigma. Neither keeps phi: to compute it
again takes arithmetic, of which a GPU has plenty. The formulas are those of ``fused.py``. Import
this file only where Triton is installed: ``triton_runs_on`` says whether it is.

Offsets are measured from an origin inside the unit cube: the centre or, of a focus outside, the
point nearest to it. The distance from there to the centre is common to all inputs and cancels in
the normaliser; it is never added, so that a focus far away loses no digits.
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

from focusing.nn.focus import FAINTEST, NORMALIZERS, coefficients
from focusing.nn.ops import fit_together
from focusing.nn.ops.fused import Gradients

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether kernels run in Python on CPU tensors, as in the tests; Triton asks when it is loaded."""
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MAX_BLOCK = 512
"""Inputs at a time."""
INPUTS_PER_WARP = {1: 128, 2: 128, 3: 64}
"""By number of axes: so few for each thread that all sums of a row stay in registers."""

_MIN_LOG_PHI = tl.constexpr(math.log(FAINTEST))
_LOWEST = tl.constexpr(-3e38)  # minus infinity, but its difference to itself is 0


@triton.jit
def _offsets(
    tau, inputs, valid, axes, origin, narrowness, shift, D: tl.constexpr, ORDER: tl.constexpr
):
    """Inputs as seen from the origin, in sigma, (axes, inputs), and the exponents they give.

    An exponent is the log of the gaussian to the power ORDER, up to a summand of the row.
    """
    places = tau + inputs[None, :] * D + axes[:, None]
    positions = tl.load(places, mask=valid[None, :] & (axes[:, None] < D), other=0.0)
    u = (positions - origin[:, None]) * narrowness[:, None]
    factor: tl.constexpr = -1.0 if ORDER == 2 else -0.5
    return u, factor * tl.sum(u * (u + 2 * shift[:, None]), 0)


@triton.jit
def _foci(
    mu, sigma, tau, axes, m, log_sum_phi, D: tl.constexpr, ORDER: tl.constexpr, BLOCK: tl.constexpr
):
    """Of a row and each axis: the origin, 1 / sigma, and its distance from the centre in sigma.

    Also what to add to the exponents of the row so that its phi^ORDER add up to exp(log_sum_phi).
    """
    center = tl.load(mu + axes, mask=axes < D, other=0.0).to(tl.float32)
    narrowness = 1.0 / tl.load(sigma + axes, mask=axes < D, other=1.0).to(tl.float32)
    if ORDER == 0:  # nothing cancels
        return center, narrowness, tl.zeros_like(center), 0.0
    origin = tl.minimum(tl.maximum(center, 0.0), 1.0)
    shift = (origin - center) * narrowness
    highest = tl.full((BLOCK,), _LOWEST, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, m, BLOCK):
        inputs = start + tl.arange(0, BLOCK)
        valid = inputs < m
        _, exponent = _offsets(tau, inputs, valid, axes, origin, narrowness, shift, D, ORDER)
        exponent = tl.where(valid, exponent, _LOWEST)
        higher = tl.maximum(highest, exponent)
        total = total * tl.exp(highest - higher) + tl.where(valid, tl.exp(exponent - higher), 0.0)
        highest = higher
    top = tl.max(highest, 0)
    log_scaler = log_sum_phi - top - tl.log(tl.sum(total * tl.exp(highest - top), 0))
    return origin, narrowness, shift, log_scaler


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
    """A row of K = phi o W."""
    row = tl.program_id(0).to(tl.int64)
    axes = tl.arange(0, AXES)
    origin, narrowness, shift, log_scaler = _foci(
        mu + row * D, sigma + row * D, tau, axes, m, log_sum_phi, D, ORDER, BLOCK
    )
    for start in range(0, m, BLOCK):
        inputs = start + tl.arange(0, BLOCK)
        valid = inputs < m
        u, exponent = _offsets(tau, inputs, valid, axes, origin, narrowness, shift, D, ORDER)
        log_phi = exponent + log_scaler
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
    """A row of dL/dW, dL/dmu and dL/dsigma."""
    row = tl.program_id(0).to(tl.int64)
    axes = tl.arange(0, AXES)
    origin, narrowness, shift, log_scaler = _foci(
        mu + row * D, sigma + row * D, tau, axes, m, log_sum_phi, D, ORDER, BLOCK
    )
    change_sum = tl.zeros((BLOCK,), tl.float32)  # of G = dL/dphi o phi,
    change_u = tl.zeros((AXES, BLOCK), tl.float32)  # G u
    change_u2 = tl.zeros((AXES, BLOCK), tl.float32)  # and G u^2;
    share_u = tl.zeros((AXES, BLOCK), tl.float32)  # the same with p = q / sum(q) for G
    share_u2 = tl.zeros((AXES, BLOCK), tl.float32)
    for start in range(0, m, BLOCK):
        inputs = start + tl.arange(0, BLOCK)
        valid = inputs < m
        u, exponent = _offsets(tau, inputs, valid, axes, origin, narrowness, shift, D, ORDER)
        log_phi = exponent + log_scaler
        share = tl.where(valid, tl.exp(log_phi - log_sum_phi), 0.0)
        if ORDER == 2:
            log_phi *= 0.5
        faint = log_phi < _MIN_LOG_PHI
        phi = tl.exp(tl.where(faint, _MIN_LOG_PHI, log_phi))
        slope = phi * tl.load(grad_product + row * m + inputs, mask=valid, other=0.0).to(tl.float32)
        if mask is not None:
            kept = tl.load(mask + row * m + inputs, mask=valid, other=0)
            slope = tl.where(kept != 0, slope, 0.0)
        value = tl.load(weight + row * m + inputs, mask=valid, other=0.0).to(tl.float32)
        tl.store(grad_weight + row * m + inputs, slope.to(grad_weight.dtype.element_ty), mask=valid)
        change = tl.where(faint, 0.0, slope * value)
        change_sum += change
        change_u += change[None, :] * u
        change_u2 += change[None, :] * u * u
        if ORDER > 0:
            share_u += share[None, :] * u
            share_u2 += share[None, :] * u * u
    first = tl.sum(change_u, 1)
    second = tl.sum(change_u2, 1)
    if ORDER > 0:
        total = tl.sum(change_sum, 0)
        first -= total * tl.sum(share_u, 1)
        second += 2 * shift * first - total * tl.sum(share_u2, 1)
    places = row * D + axes
    first = (first * narrowness).to(grad_mu.dtype.element_ty)
    second = (second * narrowness).to(grad_sigma.dtype.element_ty)
    tl.store(grad_mu + places, first, mask=axes < D)
    tl.store(grad_sigma + places, second, mask=axes < D)


def launch_options(inputs: int, axes: int, normalizer: str) -> dict[str, Any]:
    """What both kernels take besides tensors; all but ``m`` and the sum is compiled in."""
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
    """Fill outputs from inputs, of which positions and mask are the last."""
    tensors = [None if tensor is None else tensor.contiguous() for tensor in inputs]
    tau = inputs[-2]
    options = launch_options(len(tau), tau.shape[1], normalizer)
    kernel[(len(outputs[0]),)](*tensors, *outputs, **options)


def _make_product(kernel: Any, *inputs: Any) -> Tensor:
    *tensors, normalizer, dtype = inputs
    weight = tensors[0]
    product = torch.empty(weight.shape, dtype=dtype, device=weight.device)
    _launch(kernel, tuple(tensors), normalizer, product)
    return product


def _make_gradients(kernel: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    *tensors, normalizer = inputs
    grad_weight, grad_mu, grad_sigma = (
        torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        for tensor in tensors[1:4]
    )
    _launch(kernel, tuple(tensors), normalizer, grad_weight, grad_mu, grad_sigma)
    return grad_weight, grad_mu, grad_sigma


# Inductor sees the kernels inside a Triton op and launches them itself. The interpreter cannot be
# traced, so there the ops stay closed.
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
    return _make_product(kernel, weight, mu, sigma, tau, mask, normalizer, dtype)


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
    return _make_gradients(kernel, grad_product, weight, mu, sigma, tau, mask, normalizer)


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
    """The gradients of all arguments of ``effective_weight``."""
    if torch.is_grad_enabled():
        return *_gradients_with_graph(ctx, grad_product), *[None] * 4
    return *weight_gradients(grad_product, *ctx.saved_tensors, ctx.normalizer), *[None] * 4


effective_weight.register_autograd(_backward, setup_context=_save)


class EffectiveWeight(torch.autograd.Function):
    """The two kernels without the dispatcher, whose Python would keep a small layer waiting."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        """Take the arguments of ``effective_weight``."""
        product = _make_product(effective_weight_kernel, *inputs)
        _save(ctx, inputs, product)
        return product

    @staticmethod
    def backward(ctx: Any, grad_product: Tensor) -> Gradients:
        """Gradients of weight, mu and sigma."""
        if torch.is_grad_enabled():
            return _backward(ctx, grad_product)
        inputs = (*ctx.saved_tensors, ctx.normalizer)
        return *_make_gradients(gradients_kernel, grad_product, *inputs), *[None] * 4


def _gradients_with_graph(ctx: Any, grad_product: Tensor) -> Gradients:
    """Gradients of weight, mu and sigma by plain autograd, for ``create_graph=True``."""
    *own, tau, mask = ctx.saved_tensors
    weight, mu, sigma = own = [tensor.view_as(tensor) for tensor in own]
    phi = coefficients(tau, mu, sigma, "gaussian", ctx.normalizer, sample=False)
    product = ((phi if mask is None else phi * mask) * weight).to(grad_product.dtype)
    needs = ctx.needs_input_grad[:3]
    inputs = [tensor for tensor, needed in zip(own, needs, strict=True) if needed]
    values = iter(torch.autograd.grad(product, inputs, grad_product, create_graph=True))
    return tuple(next(values) if needed else None for needed in needs)


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
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():  # something watches
        product = effective_weight(*inputs)
    else:
        with _current(weight.device):
            product = EffectiveWeight.apply(*inputs)
    return functional.linear(x, product, bias)


def _current(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Triton launches on the current device, which need not be that of the tensors."""
    module = torch.get_device_module(device)
    if device.type == "cpu" or module.current_device() == device.index:
        return contextlib.nullcontext()
    context: contextlib.AbstractContextManager[Any] = module.device(device)
    return context


def supports(
    x: Tensor, weight: Tensor, mu: Tensor, sigma: Tensor, tau: Tensor, mask: Tensor | None
) -> bool:
    """Whether tensors may go to the kernels, which check neither types nor sizes."""
    return (
        x.dtype in DTYPES
        and weight.dtype in DTYPES
        and mu.dtype in DTYPES
        and sigma.dtype in DTYPES
        and tau.dtype == torch.float32
        and tau.shape[1] in INPUTS_PER_WARP
        and fit_together(x, weight, mu, sigma, tau, mask)
    )


def launch_once(kind: str) -> None:
    """Run both kernels on a device of this type; raises whatever keeps Triton from it."""
    weight, foci = torch.ones(1, 2, device=kind), torch.ones(1, 1, device=kind)
    inputs = (weight, foci, foci, weight.t(), None, "l2")
    _make_product(effective_weight_kernel, *inputs, torch.float32)
    _make_gradients(gradients_kernel, weight, *inputs)
