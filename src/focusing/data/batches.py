"""Batches of data that is already on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from focusing.data.dataset import Split


def epoch_seed(seed: int, epoch: int, stream: int = 0) -> int:
    """The seed of an epoch's random numbers: always the same, so that a resumed run repeats them.

    Args:
        seed: of the run.
        epoch: from 0.
        stream: 0 for the order of the batches, 1 for what the network draws (dropout), 2 for how
            images are changed.
    """
    return int(np.random.SeedSequence([seed, epoch, stream]).generate_state(1, np.uint64)[0] >> 1)


def resident(split: Split, device: torch.device) -> Split:
    """A split on the device where it is used, unless it takes more than half of what is free there.

    ``Batches`` then moves batch by batch.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        if sum(values.nbytes for values in split) > free / 2:
            return split
    return split.to(device)


class Batches:
    """Iterates over a split of a data set; no workers, and no copies if it is on the device.

    Args:
        split: the samples.
        size: of a batch; the last may be smaller.
        seed: shuffles each epoch anew, as a function of the seed and :attr:`epoch` alone; None
            keeps the order.
        limit: stop after so many batches.
        bundle: hand out so many batches at once, one behind the other, for a consumer that takes
            them apart with ``Split.chunks``: what surrounds a step then happens once per bundle.
        device: where batches are handed out; None: where the split is.
        prepare: is applied to what is handed out; see ``DataSet.prepare``.
        augment: likewise, after it; see ``DataSet.augment``.
        augment_seed: of the changes, which are new in each epoch.
        drop_last: leave out samples that do not fill a last batch.
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
        self.prepare, self.augment, self.augment_seed = prepare, augment, augment_seed
        self.epoch = 0
        samples = len(split.targets)
        self._used = samples if limit is None else min(samples, limit * size)
        if drop_last:
            self._used -= self._used % size
        self._stride = min(bundle * size, max(samples, 1))  # torch counts to 2**63 only

    def __len__(self) -> int:
        return -(-self._used // self._stride)

    @property
    def steps(self) -> int:
        """Batches of an epoch, which come in bundles."""
        return -(-self._used // self.size)

    def __iter__(self) -> Iterator[Split]:
        if self.prepare is None and self.augment is None:
            for split in self._slices():
                yield split.to(self.device)
            return
        seed = epoch_seed(self.augment_seed, self.epoch, stream=2)
        generator = torch.Generator().manual_seed(seed)
        for split in self._slices():
            inputs, targets = split.to(self.device)
            if self.prepare is not None:
                inputs = self.prepare(inputs)
            if self.augment is not None:
                inputs = self.augment(inputs, generator)
            yield Split(inputs, targets)

    def _slices(self) -> Iterator[Split]:
        inputs, targets = self.split
        if self.seed is None:
            yield from Split(inputs[: self._used], targets[: self._used]).chunks(self._stride)
            return
        # Drawn on the CPU: every kind of device sees the same batches.
        generator = torch.Generator().manual_seed(epoch_seed(self.seed, self.epoch))
        order = torch.randperm(len(targets), generator=generator)[: self._used]
        for index in torch.split(order.to(targets.device), self._stride):
            yield Split(inputs.index_select(0, index), targets.index_select(0, index))
