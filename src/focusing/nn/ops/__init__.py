"""One function, y = x (phi o W)^T + b, and several engines that compute it.

``functional.py`` is the reference, in plain autograd: the code to read. ``fused.py`` does the same
in fewer passes of torch operations, on any device. ``cpu.py`` does it with the compiled loops of
``kernels.py``, which need numba. The layer picks one by its ``backend``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.autograd import forward_ad

BACKENDS = ("auto", "reference", "torch", "numba", "numba_banded")
FORMER_NAMES = {"fused": "numba", "banded": "numba_banded"}
"""Backends by the names that older configs and records have."""

PLAIN_TYPES = (Tensor, nn.Parameter)
"""Types of tensors that have memory which a loop can write to."""

_FAKE, _PROXY = torch._C._TorchDispatchModeKey.FAKE, torch._C._TorchDispatchModeKey.PROXY


def available_backends(device: torch.device | str) -> list[str]:
    """Names of the engines that run on a device of this machine, fastest first.

    A gaussian layer in float32 with ``backend="auto"`` takes the first of them.
    """
    from focusing.nn.ops import cpu  # which imports this file

    numba = torch.device(device).type == "cpu" and cpu.AVAILABLE
    return [*(["numba", "numba_banded"] if numba else []), "torch", "reference"]


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
