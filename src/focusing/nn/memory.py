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


class Reserve:
    """Memory that is lent, and comes back when the tensor that was lent is forgotten.

    Saved for a gradient it is lent until after the backward pass; meanwhile others get new memory.
    """

    def __init__(self) -> None:
        self._free: list[Tensor] = []

    def lend(self, size: int, dtype: torch.dtype) -> Tensor:
        """Room for this many values on the CPU, as long as the tensor lives."""
        try:
            kept = self._free.pop()  # not asked before: another thread might get it
        except IndexError:
            kept = None
        if kept is None or len(kept) < size or kept.dtype != dtype:
            with torch.inference_mode(False):
                kept = torch.empty(size, dtype=dtype, device="cpu")
        lent = kept[:size]
        lent.loan = _Loan(kept, self._free)  # type: ignore[attr-defined]
        return lent


class _Loan:
    def __init__(self, kept: Tensor, free: list[Tensor]) -> None:
        self._kept, self._free = kept, free

    def __del__(self) -> None:
        if not self._free:
            self._free.append(self._kept)
