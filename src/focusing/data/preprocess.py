"""From raw values to what a network gets: y = factor * x + offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focusing.errors import UserError

KINDS = ("author", "unit", "standard", "pixel_mean", "none")
FITTED = ("standard", "pixel_mean")
"""Those that depend on the training samples."""
CHUNK = 4096
"""Samples at a time when statistics are taken: float64 copies of all would not fit."""


@dataclass(frozen=True)
class Preparation:
    """Maps raw samples to float32 ones.

    Args:
        factor: multiplies; a scalar, or of a shape that fits a sample.
        offset: is added then.
    """

    factor: Tensor
    offset: Tensor

    def __call__(self, raw: Tensor) -> Tensor:
        """Prepare samples (N, *), on their device."""
        factor, offset = self.factor.to(raw.device), self.offset.to(raw.device)
        return raw.to(torch.float32, copy=True).mul_(factor).add_(offset)


def preparation(
    kind: str, train: NDArray[Any], *, top: float | None = 255.0, keep: Sequence[int] = (-1,)
) -> Preparation:
    """How to prepare samples.

    Args:
        kind: ``"author"``: x / 64 - 2 for x from 0 to 255, which is [-2, 2). ``"unit"``: [0, 1].
            ``"standard"``: zero mean and unit variance on the training samples. ``"pixel_mean"``:
            [0, 1] less each pixel's mean on the training samples. ``"none"``: as it is.
        train: raw training samples (N, *), for the statistics.
        top: the largest possible raw value, if the smallest is 0; None: there is no such range.
        keep: axes that ``"standard"`` has statistics for; for the last one of an image these are
            its colours.
    """
    if kind not in KINDS:
        raise UserError(f"data.preprocess={kind} is not one of {', '.join(KINDS)}.")
    if kind in ("author", "unit", "pixel_mean") and top is None:
        raise UserError(
            f"data.preprocess={kind} is for values from 0 to a known largest one, which these are "
            "not: use standard or none."
        )
    top = top or 1.0
    factor: Any = 1.0
    offset: Any = 0.0
    if kind == "standard":
        kept = {axis % train.ndim for axis in keep}
        mean, spread = _statistics(train, tuple(set(range(train.ndim)) - kept))
        factor = 1 / np.where(spread > 0, spread, 1)
        offset = -mean * factor
    elif kind == "author":
        factor, offset = 255 / top / 64, -2.0
    elif kind == "unit":
        factor = 1 / top
    elif kind == "pixel_mean":
        mean, _ = _statistics(train, axes=(0,))
        factor, offset = 1 / top, -mean / top
    return Preparation(*(torch.as_tensor(each, dtype=torch.float32) for each in (factor, offset)))


def _statistics(
    values: NDArray[Any], axes: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and spread over axes, the first of which is that of the samples."""
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(values.shape))[1:]
    count = values.size // int(np.prod(shape))
    chunks = [values[start : start + CHUNK] for start in range(0, len(values), CHUNK)]
    mean = sum(each.sum(axes, dtype=np.float64) for each in chunks) / count
    full = np.reshape(mean, (1, *shape))
    square = sum(np.square(each - full).sum(axes) for each in chunks) / count
    return np.reshape(mean, shape), np.reshape(np.sqrt(square), shape)
