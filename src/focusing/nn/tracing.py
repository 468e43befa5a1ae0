"""Whether somebody watches what is computed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.autograd import forward_ad

PLAIN = (Tensor, nn.Parameter)
"""Kinds of tensors that have memory which a loop can write to."""

_FAKE, _PROXY = torch._C._TorchDispatchModeKey.FAKE, torch._C._TorchDispatchModeKey.PROXY


def needs_plain_operations(input: Tensor) -> bool:
    """Whether a compiler, torch.func or forward derivatives must not meet our shortcuts."""
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


def record_call(layer: nn.Module, input: fx.Proxy) -> Any:
    """Let torch.fx record one call of a layer inside a network, as it does for torch's own layers.

    Returns:
        The stand-in for the output; None: torch.fx must look into ``forward``, because the layer is
        all that it traces, or has hooks, which it is recording already.
    """
    if layer._forward_hooks or layer._forward_pre_hooks:
        return None
    tracer: Any = input.tracer
    if getattr(tracer, "root", layer) is layer:
        return None
    try:
        path = tracer.path_of_module(layer)
    except NameError:  # part of another network
        return None
    return tracer.create_proxy("call_module", path, (input,), {})
