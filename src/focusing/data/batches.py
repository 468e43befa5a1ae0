"""Batches of in-memory data, and their preparation and augmentation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge, Le, Lt
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from focusing.data.splits import Split
from focusing.errors import UserError
from focusing.instantiate import check_arguments

PREPROCESSING = ("author", "unit", "standard", "pixel_mean", "none")
FITTED = ("standard", "pixel_mean")
"""Kinds of preprocessing that use statistics of the training samples."""
STATISTICS_CHUNK = 4096
"""Statistics are computed in chunks of samples, as a float64 copy of all may not fit in memory."""


def epoch_seed(seed: int, epoch: int, stream: int = 0) -> int:
    """Seed of an epoch's random numbers; a resumed run computes the same one.

    Args:
        seed: seed of the run.
        epoch: number of the epoch, from 0.
        stream: 0 for the order of the batches, 1 for the network (dropout), 2 for augmentation.
    """
    return int(np.random.SeedSequence([seed, epoch, stream]).generate_state(1, np.uint64)[0] >> 1)


def move_if_fits(split: Split, device: torch.device) -> Split:
    """Move a split to a device, unless it takes more than half of the free memory there.

    ``Batches`` moves the batches of a split that stays on the CPU.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        if sum(values.nbytes for values in split) > free / 2:
            return split
    return split.to(device)


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Move values to a device; asynchronously, from pinned memory, if it is a GPU."""
    if device.type == "cuda" and values.is_cpu:
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


class Batches:
    """Iterates over a split in memory: no workers, and no copies if it is on the device already.

    Args:
        split: the samples.
        size: batch size; the last batch may be smaller.
        seed: seed of the shuffling, which depends only on it and on :attr:`epoch`; None keeps the
            order.
        limit: maximum number of batches.
        bundle: number of batches to yield at once. The consumer takes them apart with
            ``Split.chunks``, so that Lightning's overhead occurs once per bundle.
        device: device of the batches; None: that of the split.
        prepare: maps the inputs of a batch; see ``DataSet.prepare``.
        augment: augments the prepared inputs; see ``DataSet.augment``.
        augment_seed: seed of the augmentation, combined with :attr:`epoch`.
        drop_last: drop the last batch if it is incomplete.
    """

    def __init__(
        self,
        split: Split,
        size: int,
        seed: int | None = None,
        limit: int | None = None,
        bundle: int = 1,
        *,
        device: torch.device | None = None,
        prepare: Callable[[Tensor], Tensor] | None = None,
        augment: Callable[[Tensor, torch.Generator], Tensor] | None = None,
        augment_seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.split, self.size, self.seed = split, size, seed
        self.device = split.targets.device if device is None else device
        self.prepare = prepare.to(self.device) if isinstance(prepare, Preparation) else prepare
        self.augment, self.augment_seed = augment, augment_seed
        self.epoch = 0
        samples = len(split.targets)
        self._used = samples if limit is None else min(samples, limit * size)
        if drop_last:
            self._used -= self._used % size
        self._stride = min(bundle * size, max(samples, 1))  # bounded, as torch.split takes an int64

    def __len__(self) -> int:
        return -(-self._used // self._stride)

    def __iter__(self) -> Iterator[Split]:
        seed = epoch_seed(self.augment_seed, self.epoch, stream=2)
        generator = torch.Generator().manual_seed(seed)
        for chunk in self._chunks():
            inputs, targets = (to_device(values, self.device) for values in chunk)
            if self.prepare is not None:
                inputs = self.prepare(inputs)
            if self.augment is not None:
                inputs = self.augment(inputs, generator)
            yield Split(inputs, targets)

    def take(self, index: Tensor) -> Split:
        """The prepared samples at an index, without augmentation."""
        inputs, targets = self.split.take(index.to(self.split.targets.device)).to(self.device)
        return Split(inputs if self.prepare is None else self.prepare(inputs), targets)

    def evenly_spaced(self, count: int) -> Split:
        """At most ``count`` prepared samples, evenly spaced."""
        samples = len(self.split.targets)
        return self.take(torch.linspace(0, samples - 1, min(samples, count)).long())

    def _chunks(self) -> Iterator[Split]:
        inputs, targets = self.split
        if self.seed is None:
            yield from Split(inputs[: self._used], targets[: self._used]).chunks(self._stride)
            return
        # Drawn on the CPU, so that all devices see the same batches.
        generator = torch.Generator().manual_seed(epoch_seed(self.seed, self.epoch))
        order = torch.randperm(len(targets), generator=generator)[: self._used]
        for index in torch.split(order.to(targets.device), self._stride):
            yield Split(inputs.index_select(0, index), targets.index_select(0, index))


@dataclass(frozen=True)
class Preparation:
    """Maps raw samples to float32: ``factor * x + offset``.

    Args:
        factor: a scalar, or of a shape that broadcasts to a sample.
        offset: a scalar, or of a shape that broadcasts to a sample.
    """

    factor: Tensor
    offset: Tensor

    def __call__(self, raw: Tensor) -> Tensor:
        """Prepare samples (N, *) on their device."""
        own = self.to(raw.device)
        return raw.to(torch.float32, copy=True).mul_(own.factor).add_(own.offset)

    def to(self, device: torch.device) -> Preparation:
        """The same mapping with its tensors on a device."""
        if self.factor.device == self.offset.device == device:
            return self
        return Preparation(self.factor.to(device), self.offset.to(device))

    @classmethod
    def fit(
        cls,
        kind: str,
        train: NDArray[Any],
        *,
        max_value: float | None = 255.0,
        stat_axes: Sequence[int] = (-1,),
    ) -> Preparation:
        """Fit a kind of preprocessing to training samples.

        Args:
            kind: ``"author"``: x / 64 - 2 for x from 0 to 255, which is [-2, 2). ``"unit"``:
                [0, 1]. ``"standard"``: zero mean and unit variance on the training samples.
                ``"pixel_mean"``: [0, 1] minus the mean of each pixel over the training samples.
                ``"none"``: unchanged.
            train: raw training samples (N, *), for the statistics.
            max_value: the largest possible raw value, if the smallest is 0; None: unknown.
            stat_axes: axes along which ``"standard"`` computes separate statistics, such as the
                last axis of an image, its colours.
        """
        if kind not in PREPROCESSING:
            raise UserError(f"data.preprocess={kind} is not one of {', '.join(PREPROCESSING)}.")
        if kind in ("author", "unit", "pixel_mean") and max_value is None:
            raise UserError(
                f"data.preprocess={kind} is for values from 0 to a known largest one, which these "
                "are not: use standard or none."
            )
        max_value = max_value or 1.0
        factor: Any = 1.0
        offset: Any = 0.0
        if kind == "standard":
            kept = {axis % train.ndim for axis in stat_axes}
            mean, spread = _statistics(train, tuple(set(range(train.ndim)) - kept))
            factor = 1 / np.where(spread > 0, spread, 1)
            offset = -mean * factor
        elif kind == "author":
            factor, offset = 255 / max_value / 64, -2.0
        elif kind == "unit":
            factor = 1 / max_value
        elif kind == "pixel_mean":
            mean, _ = _statistics(train, axes=(0,))
            factor, offset = 1 / max_value, -mean / max_value
        float32 = torch.float32
        return cls(torch.as_tensor(factor, dtype=float32), torch.as_tensor(offset, dtype=float32))


@dataclass(frozen=True)
class Augment:
    """Flips, shifts, shears and zooms each image of a batch at random.

    Follows Keras' ImageDataGenerator, which the paper used: pixels that move in from outside repeat
    the border (``fill_mode="nearest"``), and shifts are fractions of pixels, too.

    Args:
        flip: mirror half of the images, left to right.
        shift: maximum shift, as a fraction of the height and of the width.
        shear: maximum angle in degrees.
        zoom: height and width are scaled by 1 - zoom to 1 + zoom.

    Shape:
        - Input: (N, H, W, C) floats.
        - Output: the same.
    """

    flip: bool = False
    shift: Annotated[float, Ge(0), Le(1)] = 0.0
    shear: Annotated[float, Ge(0), Lt(90)] = 0.0
    zoom: Annotated[float, Ge(0), Lt(1)] = 0.0

    def __post_init__(self) -> None:
        check_arguments(Augment, vars(self), "data.augment.")

    def __bool__(self) -> bool:
        return bool(self.flip or self.shift or self.shear or self.zoom)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment a batch.

        Args:
            images: (N, H, W, C).
            generator: a generator on the CPU, so that the result does not depend on the device.
        """
        count = len(images)

        def uniform(half_width: float) -> Tensor:
            return half_width * (2 * torch.rand(count, generator=generator) - 1)

        down, right = uniform(self.shift), uniform(self.shift)
        angle = uniform(math.radians(self.shear))
        tall, wide = 1 + uniform(self.zoom), 1 + uniform(self.zoom)
        mirrored = torch.rand(count, generator=generator) < 0.5
        if not self:
            return images
        if not (self.shift or self.shear or self.zoom):
            flipped = to_device(mirrored, images.device).view(-1, 1, 1, 1)
            return torch.where(flipped, images.flip(2), images)
        # theta maps pixels of the result to pixels of the original, in units of half the image.
        height, width = images.shape[1:3]
        sign = torch.where(mirrored, -1.0, 1.0) if self.flip else torch.ones(count)
        theta = torch.zeros(count, 2, 3)
        theta[:, 0, 0] = sign * wide * torch.cos(angle)
        theta[:, 0, 2] = sign * 2 * right
        theta[:, 1, 0] = -torch.sin(angle) * wide * width / height
        theta[:, 1, 1] = tall
        theta[:, 1, 2] = 2 * down
        planes = images.permute(0, 3, 1, 2)
        grid = functional.affine_grid(
            to_device(theta, images.device).to(images.dtype),
            list(planes.shape),
            align_corners=False,
        )
        moved = functional.grid_sample(planes, grid, padding_mode="border", align_corners=False)
        return moved.permute(0, 2, 3, 1).contiguous()


def _statistics(
    values: NDArray[Any], axes: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation over some axes, the first of which is the axis of samples."""
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(values.shape))[1:]
    count = values.size // int(np.prod(shape))
    starts = range(0, len(values), STATISTICS_CHUNK)
    chunks = [values[start : start + STATISTICS_CHUNK] for start in starts]
    mean = sum(chunk.sum(axes, dtype=np.float64) for chunk in chunks) / count
    full = np.reshape(mean, (1, *shape))
    square = sum(np.square(chunk - full).sum(axes) for chunk in chunks) / count
    return np.reshape(mean, shape), np.reshape(np.sqrt(square), shape)
