"""Whether somebody watches what is computed."""

from __future__ import annotations

import torch


def needs_plain_operations() -> bool:
    """Whether a compiler or torch.func watches, which must not meet our shortcuts."""
    return (
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._are_functorch_transforms_active()
    )
