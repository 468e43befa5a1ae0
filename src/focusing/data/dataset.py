"""What every data set is: a training and a test split, and where they come from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from focusing.data.preprocess import Preparation


class Split(NamedTuple):
    """Inputs (N, *) and targets (N,): class numbers, or values for regression."""

    inputs: Tensor
    targets: Tensor

    def take(self, index: Tensor) -> Split:
        """The samples at these places."""
        return Split(self.inputs[index], self.targets[index])

    def chunks(self, size: int) -> Iterator[Split]:
        """Views of so many samples each; the last may have fewer."""
        for pair in zip(
            torch.split(self.inputs, size), torch.split(self.targets, size), strict=True
        ):
            yield Split(*pair)

    def to(self, device: torch.device) -> Split:
        """The same samples on a device."""
        return Split(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class DataSet:
    """A data set in memory.

    Args:
        name: short name.
        source: where the data comes from, for the record.
        train: what may be trained on.
        test: what may not.
        classes: number of classes; 0 for regression.
        informative: first column that is not noise and the one after the last, where that is known.
        digest: the fingerprint, if it is known without reading all values again.
        prepare: maps a batch of inputs to what the network gets, for inputs that would be too
            large for memory as floats; None: they are ready.
        augment: changes a batch of training inputs, with a generator of random numbers.
        vocabulary: number of different tokens, for text.
        preparation: what raw samples went, or with ``prepare`` will go, through.
        labels: names of the classes, where they have any but their numbers.
        content: hash of all samples, however they are split and prepared; None if not known.
    """

    name: str
    source: str
    train: Split
    test: Split
    classes: int
    informative: tuple[int, int] | None = None
    digest: str | None = None
    prepare: Callable[[Tensor], Tensor] | None = None
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None
    vocabulary: int = 0
    preparation: Preparation | None = None
    labels: tuple[str, ...] = ()
    content: str | None = None

    @property
    def inputs(self) -> int:
        """Number of inputs of a sample."""
        return math.prod(self.train.inputs.shape[1:])

    @property
    def outputs(self) -> int:
        """Number of outputs of a network for this data."""
        return self.classes or 1

    @property
    def metric(self) -> str:
        """What is reported: ``"accuracy"``, or ``"mae"`` for regression."""
        return "accuracy" if self.classes else "mae"

    @cached_property
    def fingerprint(self) -> str:
        """Changes when any value of the data does."""
        if self.digest is not None:
            return self.digest
        digest = hashlib.sha256()
        for split in (self.train, self.test):
            for values in split:
                digest.update(f"{values.dtype}{tuple(values.shape)}".encode())
                digest.update(values.contiguous().numpy().data)
        return digest.hexdigest()[:16]
