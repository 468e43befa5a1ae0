"""The torch engine: plain torch operations for any device and dtype, with hand-written gradients.

It computes what autograd computes (Gaussian focus, first derivatives) in fewer passes over (n, m)
and with less memory. With G = dL/dphi o phi, the gradient of the Gaussian's exponent, normaliser
included, is H = G - sum(G) q / sum(q), where q is phi^2 (l2), phi (sum, mean) or absent (none).
Then dL/dmu = sum(H t) / sigma^2 and dL/dsigma = sum(H t^2) / sigma^3 with t = tau - mu.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from focusing.nn.focus import MIN_PHI, NORMALIZERS, coefficients

Gradients = tuple[Tensor | None, ...]


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
    if mu.dtype != tau.dtype:
        mu, sigma = mu.to(tau.dtype), sigma.to(tau.dtype)
    y: Tensor = FusedLinear.apply(  # type: ignore[no-untyped-call]
        x, weight, bias, mu, sigma, tau, mask, normalizer
    )
    return y


class FusedLinear(torch.autograd.Function):
    """The product and its gradients.

    A normalised Gaussian is a softmax p, which is stable however far away all inputs are:
    phi = sqrt(m p) for l2, sqrt(m) p for sum and m p for mean, and q / sum(q) = p in all cases.
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
        """Map x (b, m), weight and mask (n, m), foci (n, d) and positions (m, d) to y (b, n)."""
        offsets = _offsets(tau, mu, sigma)
        distance = offsets[0] * offsets[0]
        for u in offsets[1:]:
            distance.addcmul_(u, u)
        share, scheme = None, NORMALIZERS[normalizer]
        if scheme is None:
            phi = distance.mul_(-0.5).exp_().clamp_min_(MIN_PHI)
        else:
            order, power = scheme
            share = distance.mul_(-order / 2).softmax(1).clamp_min_(MIN_PHI**order)
            phi = share * len(tau) ** power
            if order == 2:
                phi.sqrt_()
        masked = phi if mask is None else phi * mask
        product = masked * weight
        ctx.save_for_backward(x, sigma, share, masked, product, weight, mu, tau, mask, *offsets)
        ctx.normalizer = normalizer
        if product.dtype != x.dtype:
            product = product.to(x.dtype)
        return functional.linear(x, product, bias)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> Gradients:
        """Gradients of x, weight, bias, mu and sigma."""
        x, sigma, share, masked, product, weight, mu, tau, mask, *offsets = ctx.saved_tensors
        needs = ctx.needs_input_grad
        if torch.is_grad_enabled():
            return *gradients_with_graph(
                needs, grad_y, x, weight, mu, sigma, tau, mask, ctx.normalizer
            ), *[None] * 3
        grad_x = grad_bias = grad_mu = grad_sigma = None
        if needs[0]:
            grad_x = grad_y.mm(product if product.dtype == x.dtype else product.to(x.dtype))
        if needs[2]:
            grad_bias = grad_y.sum(0)
        grad_product = grad_y.t().mm(x)
        if needs[3] or needs[4]:
            g = product * grad_product
            if share is not None:
                g.addcmul_(share, g.sum(1, keepdim=True), value=-1)  # H, in place
            firsts = [g * u for u in offsets]
            grad_mu = _row_sums(firsts).div_(sigma)
            seconds = [first.mul_(u) for first, u in zip(firsts, offsets, strict=True)]
            grad_sigma = _row_sums(seconds).div_(sigma)
        grad_weight = grad_product.mul_(masked) if needs[1] else None
        return grad_x, grad_weight, grad_bias, grad_mu, grad_sigma, *[None] * 3


def gradients_with_graph(
    needs: tuple[bool, ...],
    grad_y: Tensor,
    x: Tensor,
    weight: Tensor,
    mu: Tensor,
    sigma: Tensor,
    tau: Tensor,
    mask: Tensor | None,
    normalizer: str,
) -> Gradients:
    """Differentiable gradients of x, weight, bias, mu and sigma, for ``create_graph=True``."""
    product, (grad_weight, grad_mu, grad_sigma) = product_with_gradients(
        (needs[1], *needs[3:5]), grad_y.t().mm(x), weight, mu, sigma, tau, mask, normalizer
    )
    grad_x = grad_y.mm(product) if needs[0] else None
    grad_bias = grad_y.sum(0) if needs[2] else None
    return grad_x, grad_weight, grad_bias, grad_mu, grad_sigma


def product_with_gradients(
    needs: tuple[bool, ...],
    grad_product: Tensor,
    weight: Tensor,
    mu: Tensor,
    sigma: Tensor,
    tau: Tensor,
    mask: Tensor | None,
    normalizer: str,
) -> tuple[Tensor, Gradients]:
    """Compute phi o W and the needed gradients of weight, mu and sigma, in plain torch."""
    # Views, so that autograd stops here even where one of the tensors was computed from another.
    weight, mu, sigma = leaves = [tensor.view_as(tensor) for tensor in (weight, mu, sigma)]
    phi = coefficients(tau, mu, sigma, "gaussian", normalizer, sample=False)
    product = ((phi if mask is None else phi * mask) * weight).to(grad_product.dtype)
    inputs = [tensor for tensor, needed in zip(leaves, needs, strict=True) if needed]
    grads = torch.autograd.grad(product, inputs, grad_product, create_graph=True) if inputs else ()
    values = iter(grads)
    return product, tuple(next(values) if needed else None for needed in needs)


def _offsets(tau: Tensor, mu: Tensor, sigma: Tensor) -> list[Tensor]:
    """(tau - mu) / sigma, one tensor of shape (n, m) per axis."""
    if tau.shape[1] == 1:  # nothing to unbind, so fewer calls
        return [torch.sub(tau.t(), mu).div_(sigma)]
    foci = zip(tau.unbind(1), mu.unsqueeze(2).unbind(1), sigma.unsqueeze(2).unbind(1), strict=True)
    return [torch.sub(line, center).div_(width) for line, center, width in foci]


def _row_sums(terms: list[Tensor]) -> Tensor:
    """Sums over the inputs, (n, d), of one (n, m) matrix per axis."""
    sums = [term.sum(1, keepdim=True) for term in terms]
    return sums[0] if len(sums) == 1 else torch.cat(sums, 1)
