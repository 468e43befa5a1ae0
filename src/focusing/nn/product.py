"""The focused product y = x (phi o W)^T + b with a gaussian focus, as autograd functions.

Both give what plain autograd gives, in fewer passes over (n, m) and with less memory. With
G = dL/dphi o phi, the gradient of the exponent of the gaussian, normaliser included, is
H = G - sum(G) q / sum(q), where q is phi^2 (l2), phi (sum, mean) or absent (none); and
dL/dmu = sum(H t) / sigma^2 and dL/dsigma = sum(H t^2) / sigma^3 with t = tau - mu.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from focusing.nn import kernels
from focusing.nn.focus import FAINTEST, NORMALIZERS, coefficients
from focusing.nn.memory import as_array, scratch
from focusing.nn.plan import Layout, Tiling

Gradients = tuple[Tensor | None, ...]
How = tuple[Layout, Tiling, str]
"""Where the inputs are, tiles of the product, and the name of the normaliser."""

UNPRUNED = np.empty((0, 0), np.bool_)
FRESH = 2**14
"""Fewer values than these are as soon had from the system as from a reserve."""


class FusedProduct(torch.autograd.Function):
    """The product in one piece, of torch operations, for GPUs and mixed precision.

    A normalised gaussian is a softmax p, which is safe however far away all inputs are:
    phi = sqrt(m p) for l2, sqrt(m) p for sum and m p for mean, with q / sum(q) = p in all cases.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        mu: Tensor,
        sigma: Tensor,
        tau: Tensor,
        mask: Tensor | None,
        normalizer: str,
    ) -> Tensor:
        """Take x (b, m), weight and mask (n, m), foci (n, d), positions (m, d)."""
        offsets = _offsets(tau, mu, sigma)
        distance = offsets[0] * offsets[0]
        for u in offsets[1:]:
            distance.addcmul_(u, u)
        share, scheme = None, NORMALIZERS[normalizer]
        if scheme is None:
            phi = distance.mul_(-0.5).exp_().clamp_min_(FAINTEST)
        else:
            order, power = scheme
            share = distance.mul_(-order / 2).softmax(1).clamp_min_(FAINTEST**order)
            phi = share * len(tau) ** power
            if order == 2:
                phi.sqrt_()
        seen = phi if mask is None else phi * mask
        product = seen * weight
        ctx.save_for_backward(x, sigma, share, seen, product, weight, mu, tau, mask, *offsets)
        ctx.normalizer = normalizer
        if product.dtype != x.dtype:
            product = product.to(x.dtype)
        return functional.linear(x, product, bias)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> Gradients:
        """Gradients of x, weight, bias, mu and sigma."""
        x, sigma, share, seen, product, weight, mu, tau, mask, *offsets = ctx.saved_tensors
        if torch.is_grad_enabled():
            given = x, weight, mu, sigma, tau, mask, ctx.normalizer
            return *_differentiable_gradients(ctx, grad_y, *given), None, None, None
        needs = ctx.needs_input_grad
        grad_x = grad_bias = grad_mu = grad_sigma = None
        if needs[0]:
            grad_x = grad_y.mm(product if product.dtype == x.dtype else product.to(x.dtype))
        if needs[2]:
            grad_bias = grad_y.sum(0)
        grad_product = grad_y.t().mm(x)
        if needs[3] or needs[4]:
            change = product * grad_product
            if share is not None:
                change.addcmul_(share, change.sum(1, keepdim=True), value=-1)
            firsts = [change * u for u in offsets]
            grad_mu = _row_sums(firsts).div_(sigma)
            seconds = [first.mul_(u) for first, u in zip(firsts, offsets, strict=True)]
            grad_sigma = _row_sums(seconds).div_(sigma)
        grad_weight = grad_product.mul_(seen) if needs[1] else None
        return grad_x, grad_weight, grad_bias, grad_mu, grad_sigma, None, None, None


def _differentiable_gradients(
    ctx: Any,
    grad_y: Tensor,
    x: Tensor,
    weight: Tensor,
    mu: Tensor,
    sigma: Tensor,
    tau: Tensor,
    mask: Tensor | None,
    normalizer: str,
) -> Gradients:
    """Gradients of x, weight, bias, mu and sigma for ``create_graph=True``: by plain autograd."""
    # Views, as the path from x to a weight that was computed from it is not ours to follow.
    x, weight, mu, sigma = own = [tensor.view_as(tensor) for tensor in (x, weight, mu, sigma)]
    phi = coefficients(tau, mu, sigma, "gaussian", normalizer, sample=False)
    product = (phi if mask is None else phi * mask) * weight
    y = functional.linear(x, product.to(x.dtype))
    wanted = [ctx.needs_input_grad[place] for place in (0, 1, 3, 4)]
    inputs = [tensor for tensor, needed in zip(own, wanted, strict=True) if needed]
    found = iter(torch.autograd.grad(y, inputs, grad_y, create_graph=True) if inputs else ())
    grad_x, grad_weight, grad_mu, grad_sigma = (next(found) if need else None for need in wanted)
    grad_bias = grad_y.sum(0) if ctx.needs_input_grad[2] else None
    return grad_x, grad_weight, grad_bias, grad_mu, grad_sigma


def _offsets(tau: Tensor, mu: Tensor, sigma: Tensor) -> list[Tensor]:
    """(tau - mu) / sigma, of shape (n, m), for each axis."""
    if tau.shape[1] == 1:  # no axes to take apart, so fewer calls
        return [torch.sub(tau.t(), mu).div_(sigma)]
    foci = zip(tau.unbind(1), mu.unsqueeze(2).unbind(1), sigma.unsqueeze(2).unbind(1), strict=True)
    return [torch.sub(line, center).div_(width) for line, center, width in foci]


def _row_sums(terms: list[Tensor]) -> Tensor:
    """Sums over the inputs, (n, d), of one (n, m) matrix per axis."""
    sums = [term.sum(1, keepdim=True) for term in terms]
    return sums[0] if len(sums) == 1 else torch.cat(sums, 1)


class CompiledProduct(torch.autograd.Function):
    """The product over the tiles of a plan, for CPUs, with compiled loops for the coefficients.

    Gradients of mu and sigma are low moments of dL/dphi o phi, summed up while phi, which is never
    stored, is computed again.
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
        how: How,
    ) -> Tensor:
        """Take x (b, m), weight and mask (n, m), foci (n, d), and how to compute their product."""
        layout, tiling, _ = how
        neurons, axes = mu.shape
        if tiling.size < FRESH:
            product = x.new_empty(tiling.size)
        else:
            product = layout.memory.lend(tiling.size, layout.tau.dtype)
        state = np.empty((neurons, 3 + 2 * axes))
        kernels.products(*_arguments(how, mu, sigma, weight, mask), product.numpy(), state)
        if tiling.whole:
            product = product.view(weight.shape)
        ctx.save_for_backward(x, weight, mu, sigma, mask, product)
        ctx.how, ctx.state = how, state
        y = x.new_empty(len(x), neurons)
        if tiling.whole:
            torch.mm(x, product.t(), out=y)
        else:
            for tile in tiling.tiles:
                torch.mm(x[:, tile.columns], tile.of(product).t(), out=y[:, tile.rows])
        if tiling.order is not None:
            y = torch.empty_like(y).index_copy_(1, tiling.order, y)
        if bias is not None:
            y += bias  # faster than addmm
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> Gradients:
        """Gradients of x, weight, bias, mu and sigma."""
        x, weight, mu, sigma, mask, product = ctx.saved_tensors
        layout, tiling, normalizer = ctx.how
        if torch.is_grad_enabled():
            tau = torch.from_numpy(layout.tau).t()
            given = x, weight, mu, sigma, tau, mask, normalizer
            return *_differentiable_gradients(ctx, grad_y, *given), None, None
        grad, change = grad_y, layout.tau[0, :0]
        grad_x, wants_x = None, ctx.needs_input_grad[0]
        if tiling.whole:
            grad_weight = grad.t().mm(x)
            if wants_x:
                grad_x = grad.mm(product)
        else:
            grad_weight = weight.new_empty(weight.shape)
            if wants_x:
                grad_x = torch.zeros_like(x)
            if tiling.order is not None:
                grad = grad.index_select(1, tiling.order)
                space = scratch(tiling.size, x.dtype)
                change = space.numpy()
            for tile in tiling.tiles:
                rows, columns = tile.rows, tile.columns
                own = grad_weight[rows, columns] if tiling.order is None else tile.of(space)
                torch.mm(grad[:, rows].t(), x[:, columns], out=own)
                if grad_x is not None:
                    grad_x[:, columns].addmm_(grad[:, rows], tile.of(product))
        grad_mu, grad_sigma = mu.new_empty(mu.shape), mu.new_empty(mu.shape)
        given = _arguments(ctx.how, mu, sigma, weight, mask)
        found = (each.numpy() for each in (grad_weight, grad_mu, grad_sigma))
        kernels.gradients(*given, change, ctx.state, *found)
        grad_bias = grad_y.sum(0) if ctx.needs_input_grad[2] else None
        return grad_x, grad_weight, grad_bias, grad_mu, grad_sigma, None, None


def _arguments(how: How, *tensors: Tensor | None) -> tuple[Any, ...]:
    """What both loops want. Never kept: arrays do not notice when their tensors move."""
    layout, tiling, normalizer = how
    arrays = [UNPRUNED if tensor is None else as_array(tensor) for tensor in tensors]
    order, power = NORMALIZERS[normalizer] or (0, 0.0)
    return tiling.table, layout.tau, *arrays, order, layout.tau.shape[1] ** power
