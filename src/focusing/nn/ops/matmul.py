"""Large matrix products on CPUs, by whichever of torch's two libraries is faster.

torch multiplies with MKL, which leaves AVX-512 unused on processors that are not Intel's. oneDNN,
with which torch convolves, uses it and takes down to half of the time (benchmarks/step.py).
"""

from __future__ import annotations

import functools
import platform
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from focusing.nn.ops import PLAIN_TYPES, is_hooked, is_tracing

MIN_PRODUCTS = 2**21
"""Number of multiplications below which MKL is as fast: oneDNN takes longer to begin."""


@functools.cache
def onednn_is_faster() -> bool:
    """Whether this is an AMD processor with AVX-512, and torch has both libraries.

    A rule, not a measurement, so that a resumed run multiplies in the same way.
    """
    if not (
        torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
    ):
        return False
    try:
        described = Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        described = platform.processor()
    return "AuthenticAMD" in described


def prefers_onednn(a: Tensor, b: Tensor) -> bool:
    """Whether oneDNN should multiply these matrices, (k, m) and (m, n)."""
    return (
        a.numel() * b.shape[1] >= MIN_PRODUCTS
        and a.is_cpu
        and a.dtype == b.dtype == torch.float32
        and a.dim() == b.dim() == 2
        and a.shape[1] == b.shape[0]
        and bool(torch.backends.mkldnn.enabled)
        and onednn_is_faster()
    )


def mm(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``torch.mm`` without gradients."""
    if not prefers_onednn(a, b):
        return torch.mm(a, b, out=out)
    if not (b.is_contiguous() or b.t().is_contiguous()):
        b = b.contiguous()  # oneDNN would take a hundred times as long to read a part of a matrix
    # The linear layer of compiled networks: there is no public way to oneDNN without copies.
    y: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
    return y if out is None else out.copy_(y)


def addmm_(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``total.addmm_`` without gradients."""
    return total.add_(mm(a, b)) if prefers_onednn(a, b) else total.addmm_(a, b)


class Product(torch.autograd.Function):
    """x W^T, whose gradients are such products, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Map x (b, m) and weight (n, m) to (b, n)."""
        ctx.save_for_backward(x, weight)
        return mm(x, weight.t())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Gradients of x and weight."""
        x, weight = ctx.saved_tensors
        grad_x = product(grad, weight.t()) if ctx.needs_input_grad[0] else None
        grad_weight = product(grad.t(), x.t()) if ctx.needs_input_grad[1] else None
        return grad_x, grad_weight


def product(x: Tensor, weight: Tensor) -> Tensor:
    """The product x W^T, which can be differentiated any number of times."""
    y: Tensor = Product.apply(x, weight)  # type: ignore[no-untyped-call]
    return y


def call_layer(layer: nn.Module, input: Tensor) -> Tensor:
    """``layer(input)``, with a large product of an ``nn.Linear`` by oneDNN where it is faster.

    A subclass of ``nn.Linear`` with such products would not be one of torch's own layers, which
    tools that fold, prune or export networks look for.
    """
    if (
        type(layer) is not nn.Linear
        or type(input) not in PLAIN_TYPES
        or type(layer.weight) not in PLAIN_TYPES
        or is_tracing(input)
        or is_hooked(layer)
        or bool(layer._backward_hooks or layer._backward_pre_hooks)
        or torch.is_autocast_enabled("cpu")
        or not prefers_onednn(input, layer.weight.t())
    ):
        return layer(input)  # type: ignore[no-any-return]
    y = product(input, layer.weight)
    return y if layer.bias is None else y + layer.bias
