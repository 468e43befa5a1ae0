"""Memory that is used again: fresh from the system it would cost more than the arithmetic in it."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

_kept = threading.local()


def scratch(size: int, dtype: torch.dtype) -> Tensor:
    """Room on the CPU for at least this many values, until the next call in this thread."""
    name = str(dtype)
    space: Tensor | None = getattr(_kept, name, None)
    if space is None or space.numel() < size:
        with torch.inference_mode(False):  # what is kept must serve training too
            space = torch.empty(size, dtype=dtype, device="cpu")
        setattr(_kept, name, space)
    return space


class Reserve:
    """Memory on the CPU that is lent, and comes back when the last tensor that uses it is gone.

    Saved for a gradient it is lent until after the backward pass; meanwhile others get new memory.
    """

    def __init__(self) -> None:
        self._free: list[Any] = []

    def lend(self, size: int, dtype: np.dtype[Any]) -> Tensor:
        """Room for this many values."""
        try:
            kept = self._free.pop()  # not asked before: another thread might get it
        except IndexError:
            kept = None
        if kept is None or len(kept) < size or kept.dtype != dtype:
            kept = np.empty(size, dtype)
        lent = kept[:size]  # tensors own this view, however many they are
        weakref.finalize(lent, self._take_back, kept).atexit = False
        return torch.from_numpy(lent)

    def _take_back(self, kept: Any) -> None:
        if not self._free:
            self._free.append(kept)
