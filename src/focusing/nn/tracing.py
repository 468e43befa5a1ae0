"""Whether somebody watches what is computed."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

PLAIN = (Tensor, nn.Parameter)
"""Kinds of tensors that have memory which a loop can write to."""

_FAKE, _PROXY = torch._C._TorchDispatchModeKey.FAKE, torch._C._TorchDispatchModeKey.PROXY


def needs_plain_operations() -> bool:
    """Whether a compiler, torch.func or forward derivatives must not meet our shortcuts."""
    return (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or (
            torch._C._len_torch_dispatch_stack() > 0
            and any(torch._C._get_dispatch_mode(mode) is not None for mode in (_FAKE, _PROXY))
        )
    )
