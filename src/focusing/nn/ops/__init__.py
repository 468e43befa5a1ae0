"""Engines for one function, y = x (phi o W)^T + b.

``functional.py`` is the reference in plain autograd: read it first. ``fused.py`` needs fewer passes
of torch operations, on any device. ``cpu.py`` uses the numba kernels of ``kernels.py``, and
``gpu.py`` two Triton kernels. The ``backend`` of a layer selects one.
"""

from __future__ import annotations

import functools
import importlib.util
import warnings
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.autograd import forward_ad

BACKENDS = ("auto", "reference", "torch", "numba", "numba_banded", "triton")
BACKEND_ALIASES = {"fused": "numba", "banded": "numba_banded"}
"""Former names of backends, in older configs and records."""

CPU_BACKENDS = ("auto", "numba", "numba_banded")
"""Backends that use the numba kernels where possible."""

PLAIN_TYPES = (Tensor, nn.Parameter)
"""Tensor types that surely own memory; subclasses may be wrappers."""

_FAKE, _PROXY = torch._C._TorchDispatchModeKey.FAKE, torch._C._TorchDispatchModeKey.PROXY


def available_backends(device: torch.device | str) -> list[str]:
    """Names of the engines that run on a device of this machine, fastest first.

    A gaussian layer in float32 with ``backend="auto"`` takes the first of them.
    """
    from focusing.nn.ops import cpu  # here, because it imports this file

    kind = torch.device(device).type
    if kind == "cpu":
        fast = ["numba", "numba_banded"] if cpu.AVAILABLE else []
    else:
        fast = ["triton"] if triton_runs_on(kind) else []
    return [*fast, "torch", "reference"]


def triton_runs_on(kind: str) -> bool:
    """Whether the Triton kernels run on devices of this type; the first call tries them.

    On CPUs they only run in Triton's interpreter (``TRITON_INTERPRET=1``), for tests.
    """
    return _triton_runs_on(kind)


# torch.compile must call this function, not trace it. torch.compiler.assume_constant_result sets
# the same flag, but imports the compiler first, which takes seconds.
triton_runs_on._dynamo_marked_constant = True  # type: ignore[attr-defined]


@functools.cache
def _triton_runs_on(kind: str) -> bool:
    if kind not in ("cpu", "cuda", "xpu") or importlib.util.find_spec("triton") is None:
        return False
    try:
        from focusing.nn.ops import gpu

        if kind == "cpu":
            return gpu.INTERPRETED
        gpu.launch_once(kind)
    except Exception as error:  # no compiler, an old device or driver, a Triton that does not fit
        if kind != "cpu":
            message = f"Triton does not run on {kind}, so the torch engine does: {error}"
            warnings.warn(message, stacklevel=3)
        return False
    return True


def uses_triton(backend: str, x: Tensor, *tensors: Any) -> bool:
    """Whether Triton computes a layer's output; ``tensors``: weight, mu, sigma, tau and mask."""
    if not (backend == "triton" or (backend == "auto" and not x.is_cpu)):
        return False
    if not triton_runs_on(x.device.type):
        return False
    from focusing.nn.ops import gpu  # here, because importing Triton takes time

    return gpu.supports(x, *tensors)


def select_engine(backend: str, x: Tensor, *tensors: Any) -> Any:
    """The engine module for inputs that numba does not take: ``gpu`` or ``fused``."""
    if uses_triton(backend, x, *tensors):
        from focusing.nn.ops import gpu

        return gpu
    from focusing.nn.ops import fused

    return fused


def operands_match(
    x: Tensor, weight: Tensor, mu: Tensor, sigma: Tensor, tau: Tensor, mask: Tensor | None
) -> bool:
    """Whether these are plain tensors whose shapes fit together, as kernels require."""
    neurons, inputs = len(weight), len(tau)
    foci = (neurons, tau.shape[1])
    return (
        type(x) in PLAIN_TYPES
        and type(weight) in PLAIN_TYPES
        and type(mu) in PLAIN_TYPES
        and type(sigma) in PLAIN_TYPES
        and x.shape[-1] == inputs
        and weight.shape == (neurons, inputs)
        and mu.shape == foci
        and sigma.shape == foci
        and (mask is None or (mask.shape == weight.shape and mask.dtype == torch.bool))
    )


def is_tracing(input: Tensor) -> bool:
    """Whether a tracer, torch.func or forward-mode AD must see plain torch operations."""
    return (
        isinstance(input, fx.Proxy)
        or torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or (
            torch._C._len_torch_dispatch_stack() > 0
            and any(torch._C._get_dispatch_mode(mode) is not None for mode in (_FAKE, _PROXY))
        )
    )


def compiles_triton(backend: str, x: Tensor, *tensors: Any) -> bool:
    """Whether torch.compile traces the layer and may record the Triton operators.

    torch.export needs plain operations, and torch.func cannot differentiate kernels.
    """
    exports = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # new in 2.7
    return (
        torch.compiler.is_compiling()
        and not exports()
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
        and uses_triton(backend, x, *tensors)
    )


def wrong_width(input: Tensor, in_features: int) -> RuntimeError:
    """The error to raise for inputs that are not (*, m), of the type that torch raises."""
    return RuntimeError(
        f"The input has shape {tuple(input.shape)}: its last dimension must be "
        f"in_features={in_features}."
    )


def is_hooked(layer: nn.Module) -> bool:
    """Whether calling a layer runs hooks, as torch's pruning does, besides ``forward``."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks)


def record_call(layer: nn.Module, input: fx.Proxy) -> Any:
    """Record a layer inside a network as one call, as torch.fx does for torch's own layers.

    Returns:
        The proxy of the output; None if torch.fx must trace ``forward``, because the layer is the
        root of the trace or has hooks, which are being recorded already.
    """
    if is_hooked(layer):
        return None
    tracer: Any = input.tracer
    if getattr(tracer, "root", layer) is layer:
        return None
    try:
        path = tracer.path_of_module(layer)
    except NameError:  # a layer of another network
        return None
    return tracer.create_proxy("call_module", path, (input,), {})
