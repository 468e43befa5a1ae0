"""Memory that is used again: fresh from the system it would cost more than the arithmetic in it."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_kept = threading.local()
_DTYPES = {torch.float32: np.float32, torch.float64: np.float64, torch.bool: np.bool_}


def scratch(size: int, dtype: torch.dtype) -> Tensor:
    """Room on the CPU for at least this many values, until the next call in this thread."""
    name = str(dtype)
    space: Tensor | None = getattr(_kept, name, None)
    if space is None or space.numel() < size:
        with torch.inference_mode(False):  # what is kept must serve training too
            space = torch.empty(size, dtype=dtype, device="cpu")
        setattr(_kept, name, space)
    return space


def as_array(tensor: Tensor) -> npt.NDArray[Any]:
    """A tensor on the CPU as an array to read, good until the tensor moves.

    Unlike ``tensor.numpy()`` this lets the storage be resized later, as FSDP does with parameters.
    """
    tensor = tensor.contiguous()
    if not tensor.untyped_storage().nbytes():
        raise RuntimeError("The storage of a parameter is empty: FSDP has freed it.")
    memory: Any = (ctypes.c_byte * tensor.nbytes).from_address(tensor.data_ptr())
    memory.owner = tensor
    array: npt.NDArray[Any] = np.frombuffer(memory, _DTYPES[tensor.dtype])
    return array.reshape(tensor.shape)


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
