"""Memory that is used again: fresh from the system it would cost more than the arithmetic in it."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

_kept = threading.local()


@torch.inference_mode(False)  # what is kept must serve training too
def scratch(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Room for this many values until the next call in this thread, which gets the same.

    Devices other than the CPU have an allocator that keeps memory anyway.
    """
    if device.type != "cpu":
        return torch.empty(size, dtype=dtype, device=device)
    space: Tensor | None = getattr(_kept, str(dtype), None)
    if space is None or len(space) < size:
        space = torch.empty(size, dtype=dtype, device="cpu")
        setattr(_kept, str(dtype), space)
    return space[:size]
