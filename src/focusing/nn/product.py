"""The focused product y = x (phi o W)^T + b with a gaussian focus, as autograd functions.

Both give what plain autograd gives, in fewer passes over (n, m) and with less memory. With
G = dL/dphi o phi, the gradient of the exponent of the gaussian, normaliser included, is
H = G - sum(G) q / sum(q), where q is phi^2 (l2), phi (sum) or absent (none); and
dL/dmu = sum(H t) / sigma^2 and dL/dsigma = sum(H t^2) / sigma^3 with t = tau - mu.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from focusing.nn.focus import FAINTEST
from focusing.nn.plan import Floats, Plan, Tile, log_scale

Gradients = tuple[Tensor | None, ...]

_split = torch.split_with_sizes


class FusedProduct(torch.autograd.Function):
    """The product in one piece: few calls, so best for small layers and for GPUs.

    A normalised gaussian is a softmax p, which is safe however far away all inputs are:
    phi = sqrt(m p) for l2 and sqrt(m) p for sum, with q / sum(q) = p in both cases.
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
        inputs = tau.shape[0]
        share = None
        if normalizer == "l2":
            share = distance.neg_().softmax(1).clamp_min_(FAINTEST**2)
            phi = (share * inputs).sqrt_()
        elif normalizer == "sum":
            share = distance.mul_(-0.5).softmax(1).clamp_min_(FAINTEST)
            phi = share * math.sqrt(inputs)
        else:
            phi = distance.mul_(-0.5).exp_().clamp_min_(FAINTEST)
        seen = phi if mask is None else phi * mask
        product = seen * weight
        ctx.save_for_backward(x, sigma, share, seen, product, *offsets)
        if product.dtype != x.dtype:
            product = product.to(x.dtype)
        return functional.linear(x, product, bias)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> Gradients:
        """Gradients of x, weight, bias, mu and sigma."""
        _refuse_second_derivatives()
        x, sigma, share, seen, product, *offsets = ctx.saved_tensors
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


def _refuse_second_derivatives() -> None:
    if torch.is_grad_enabled():
        raise RuntimeError(
            "The fused and banded backends of FocusedLinear have first derivatives only: "
            "use backend='reference' with create_graph=True."
        )


def _offsets(tau: Tensor, mu: Tensor, sigma: Tensor) -> list[Tensor]:
    """(tau - mu) / sigma, of shape (n, m), for each axis."""
    if tau.shape[1] == 1:  # no axes to take apart: small layers spend their time on such calls
        return [torch.sub(tau.t(), mu).div_(sigma)]
    foci = zip(tau.unbind(1), mu.unsqueeze(2).unbind(1), sigma.unsqueeze(2).unbind(1), strict=True)
    return [torch.sub(line, center).div_(width) for line, center, width in foci]


def _row_sums(terms: list[Tensor]) -> Tensor:
    """Sums over the inputs, (n, d), of one (n, m) matrix per axis."""
    sums = [term.sum(1, keepdim=True) for term in terms]
    return sums[0] if len(sums) == 1 else torch.cat(sums, 1)


class TiledProduct(torch.autograd.Function):
    """The product over the tiles of a plan, for CPUs.

    phi is computed tile by tile while it is in the cache, never stored, and computed again for
    the gradient. The exponent of the gaussian is linear in the basis [1, t, t^2]: one small
    matrix product gives the exponents of a tile, and another one, its moments in this basis, all
    that the gradients of mu and sigma need.
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
        plan: Plan,
        normalizer: str,
    ) -> Tensor:
        """Take x (b, m), weight and mask (n, m), foci (n, d) and the plan made for them."""
        tiling, order, spread = plan.tiling, plan.tiling.order, plan.spread
        summed = normalizer != "none" and spread is None
        exponents, scale = _of_tiles(plan, plan.exponents, x.dtype), None
        y = x.new_empty(x.shape[0], weight.shape[0])
        moments = _room(plan, x.dtype) if summed else None
        for tile, own, out, (g, power) in zip(
            tiling.tiles, exponents, _split(y, tiling.sizes, 1), tiling.scratch(), strict=True
        ):
            _gaussian(tile, plan, own, g, relative=summed)
            if moments is not None:
                q = torch.mul(g, g, out=power) if normalizer == "l2" else g
                _moments(tile, q, moments)
            g *= _pick(weight, tile, order)
            if mask is not None:
                g *= _pick(mask, tile, order)
            torch.mm(x[:, tile.columns], g.t(), out=out)
        if moments is not None:
            spread = _about_centers(moments, plan)
            logarithm = log_scale(spread, weight.shape[1], normalizer)
            scaled = plan.exponents.copy()
            scaled[:, 0] += logarithm  # in the gradient it costs nothing
            exponents = _of_tiles(plan, scaled, x.dtype)
            scale = torch.from_numpy(np.exp(logarithm)).to(x.dtype)
            y *= scale
        if order is not None:
            y = torch.empty_like(y).index_copy_(1, order, y)
        if bias is not None:
            y += bias
        ctx.save_for_backward(x, weight, mu, sigma, mask)
        ctx.plan, ctx.spread, ctx.exponents, ctx.scale = plan, spread, exponents, scale
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> Gradients:
        """Gradients of x, weight, bias, mu and sigma."""
        _refuse_second_derivatives()
        x, weight, mu, sigma, mask = ctx.saved_tensors
        plan, tiling, order = ctx.plan, ctx.plan.tiling, ctx.plan.tiling.order
        needs = ctx.needs_input_grad
        grad_bias = grad_y.sum(0) if needs[2] else None
        if order is not None:
            grad_y = grad_y.index_select(1, order)
        exponents, scale = ctx.exponents, ctx.scale
        grad_x = None
        if needs[0]:
            grad_x = torch.empty_like(x) if tiling.covered else torch.zeros_like(x)
        scattered = order is not None and tiling.work < 1
        grad_weight = torch.zeros_like(weight) if scattered else torch.empty_like(weight)
        moments = _room(plan, x.dtype)
        grads, scratch = _split(grad_y, tiling.sizes, 1), tiling.scratch()
        for place, index in enumerate(tiling.walk):
            tile, grad, (phi, product) = tiling.tiles[index], grads[index], scratch[index]
            _gaussian(tile, plan, exponents[index], phi, relative=scale is not None, scale=scale)
            if mask is not None:
                phi *= _pick(mask, tile, order)
            torch.mul(phi, _pick(weight, tile, order), out=product)
            inputs = x[:, tile.columns]
            if grad_x is not None:
                if place == 0 and tiling.covered:
                    torch.mm(grad, product, out=grad_x)
                else:
                    grad_x[:, tile.columns].addmm_(grad, product)
            if order is None:
                own_grad = grad_weight[tile.rows]
                own_grad[:, : tile.columns.start] = 0  # cheaper than to clear all of it before
                own_grad[:, tile.columns.stop :] = 0
                change = torch.mm(grad.t(), inputs, out=own_grad[:, tile.columns])
            else:
                change = torch.mm(grad.t(), inputs)
            _moments(tile, product.mul_(change), moments)
            change *= phi
            if order is not None:
                grad_weight[:, tile.columns].index_copy_(0, order[tile.rows], change)
        grad_mu, grad_sigma = _chain(_about_centers(moments, plan), ctx.spread, plan)
        return (
            grad_x,
            grad_weight,
            grad_bias,
            grad_mu.to(mu.dtype),
            grad_sigma.to(sigma.dtype).div_(sigma),
            *[None] * 3,
        )


def _of_tiles(plan: Plan, exponents: Floats, dtype: torch.dtype) -> Sequence[Tensor]:
    found = torch.from_numpy(exponents).to(dtype, copy=True)
    if plan.tiling.delicate is not None:
        found.index_fill_(0, plan.tiling.delicate, 0)  # they would underflow, which takes long
    return _split(found, plan.tiling.sizes)


def _room(plan: Plan, dtype: torch.dtype) -> Tensor:
    """For moments of all neurons, (1 + 2d, n), as exact as those of the most delicate."""
    exact = dtype if plan.tiling.delicate is None else torch.float64
    return torch.empty(plan.exponents.shape[::-1], dtype=exact, device="cpu")


def _pick(matrix: Tensor, tile: Tile, order: Tensor | None) -> Tensor:
    if order is None:
        return matrix[tile.rows, tile.columns]
    return matrix[:, tile.columns].index_select(0, order[tile.rows])


def _gaussian(
    tile: Tile,
    plan: Plan,
    exponents: Tensor,
    out: Tensor,
    *,
    relative: bool,
    scale: Tensor | None = None,
) -> None:
    """Write the coefficients of a tile into ``out``.

    Those of delicate neurons are relative to the largest, times ``scale``, if ``relative``: so
    they are where the normaliser is summed up.
    """
    rows = tile.delicate
    if rows is None or len(rows) < len(out):
        torch.mm(exponents, tile.basis, out=out).exp_()
    if rows is None:
        return
    exact = torch.from_numpy(plan.exponents[tile.rows])[rows] @ tile.exact
    if relative:
        exact -= exact.amax(1, keepdim=True)
    found = exact.clamp_min_(math.log(FAINTEST)).to(out.dtype).exp_()
    if scale is not None:
        found *= scale[tile.rows][rows, None]
    out.index_copy_(0, rows, found)


def _moments(tile: Tile, values: Tensor, out: Tensor) -> None:
    """Write sums of values * [1, t, t^2] over the inputs of a tile into its part of (1 + 2d, n)."""
    own, rows = out[:, tile.rows], tile.delicate
    if out.dtype == values.dtype:
        torch.mm(tile.basis, values.t(), out=own)
        return
    if rows is None or len(rows) < len(values):
        own.copy_(torch.mm(tile.basis, values.t()))
    if rows is not None:
        delicate = values.index_select(0, rows).to(tile.exact.dtype)
        own.index_copy_(1, rows, torch.mm(tile.exact, delicate.t()))


def _about_centers(moments: Tensor, plan: Plan) -> Floats:
    """Moments in t relative to the centre of each neuron instead of the origin of its tile."""
    found: Floats = moments.double().numpy()
    shift = plan.shift.T
    constant, first, second = found[:1], found[1 : 1 + len(shift)], found[1 + len(shift) :]
    moved = shift * constant
    second -= shift * (2 * first - moved)
    first -= moved
    return found


def _chain(moments: Floats, spread: Floats | None, plan: Plan) -> tuple[Tensor, Tensor]:
    """dL/dmu and sigma * dL/dsigma from the moments of G and, of the normaliser, of q."""
    sums = moments[1:]
    if spread is not None:
        sums = sums - spread[1:] * (moments[0] / spread[0])
    axes = plan.shift.shape[1]
    grads = torch.from_numpy(sums.reshape(2, axes, -1) * plan.precision.T).mT
    if plan.tiling.order is not None:
        grads = torch.empty_like(grads).index_copy_(1, plan.tiling.order, grads)
    return grads[0], grads[1]
