"""One function, y = x (phi o W)^T + b, and several engines that compute it.

``functional.py`` is the reference, in plain autograd: the code to read. ``fused.py`` does the same
in fewer passes of torch operations, on any device. ``cpu.py`` does it with the compiled loops of
``kernels.py``, which need numba, and ``gpu.py`` with two Triton kernels. The layer picks one by its
``backend``.
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
FORMER_NAMES = {"fused": "numba", "banded": "numba_banded"}
"""Backends by the names that older configs and records have."""

CPU_BACKENDS = ("auto", "numba", "numba_banded")
"""Backends that take numba's loops where these can serve."""

PLAIN_TYPES = (Tensor, nn.Parameter)
"""Types of tensors that have memory which a loop can write to."""

_FAKE, _PROXY = torch._C._TorchDispatchModeKey.FAKE, torch._C._TorchDispatchModeKey.PROXY


def available_backends(device: torch.device | str) -> list[str]:
    """Names of the engines that run on a device of this machine, fastest first.

    A gaussian layer in float32 with ``backend="auto"`` takes the first of them.
    """
    from focusing.nn.ops import cpu  # which imports this file

    kind = torch.device(device).type
    if kind == "cpu":
        fast = ["numba", "numba_banded"] if cpu.AVAILABLE else []
    else:
        fast = ["triton"] if triton_runs_on(kind) else []
    return [*fast, "torch", "reference"]


def triton_runs_on(kind: str) -> bool:
    """Whether Triton's kernels run on devices of this type; found out by running them once.

    On CPUs they do in Triton's interpreter (``TRITON_INTERPRET=1``), which is for tests.
    """
    return _triton_runs_on(kind)


# A compiler asks and does not trace. This is what torch.compiler.assume_constant_result does, after
# seconds of importing the compiler.
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
    except Exception as error:  # no compiler, an old device or driver, a Triton of another torch
        if kind != "cpu":
            message = f"Triton does not run on {kind}, so the torch engine does: {error}"
            warnings.warn(message, stacklevel=3)
        return False
    return True


def takes_kernels(backend: str, x: Tensor, *tensors: Any) -> bool:
    """Whether a backend gives inputs to Triton, with weight, mu, sigma, tau and mask of a layer."""
    if not (backend == "triton" or (backend == "auto" and not x.is_cpu)):
        return False
    if not triton_runs_on(x.device.type):
        return False
    from focusing.nn.ops import gpu  # which imports Triton: not before it is needed

    return gpu.supports(x, *tensors)


def engine(backend: str, x: Tensor, *tensors: Any) -> Any:
    """The module of the engine that serves where numba does not."""
    if takes_kernels(backend, x, *tensors):
        from focusing.nn.ops import gpu

        return gpu
    from focusing.nn.ops import fused

    return fused


def fit_together(
    x: Tensor, weight: Tensor, mu: Tensor, sigma: Tensor, tau: Tensor, mask: Tensor | None
) -> bool:
    """Whether tensors have memory of their own and the sizes that loops over it expect."""
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
    """Whether a compiler, torch.func or forward derivatives must see plain torch operations."""
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


def compiles_kernels(backend: str, x: Tensor, *tensors: Any) -> bool:
    """Whether what traces a layer is torch.compile, and may see the calls of Triton's kernels.

    torch.export must see plain operations, and torch.func cannot differentiate kernels.
    """
    exports = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # new in 2.7
    return (
        torch.compiler.is_compiling()
        and not exports()
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
        and takes_kernels(backend, x, *tensors)
    )


def is_hooked(layer: nn.Module) -> bool:
    """Whether more than ``forward`` happens when a layer is called; torch's pruning does so."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks)


def record_call(layer: nn.Module, input: fx.Proxy) -> Any:
    """Let torch.fx record one call of a layer inside a network, as it does for torch's own layers.

    Returns:
        The proxy of the output; None: torch.fx must trace ``forward``, because the layer is all
        that it traces, or has hooks, which it is recording already.
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
