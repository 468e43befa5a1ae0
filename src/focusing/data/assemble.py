"""From raw arrays to a data set: split, limit, prepare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from focusing.data.augment import Augment
from focusing.data.dataset import DataSet, Part
from focusing.data.options import Options
from focusing.data.partition import Index, partition
from focusing.data.preprocess import preparation
from focusing.errors import UserError

LARGE = 2 * 1024**3
"""Bytes from which a data set stays as it is and is prepared batch by batch."""


@dataclass(frozen=True)
class Raw:
    """A data set as its files have it.

    Args:
        inputs: (N, ...); the official training samples first.
        targets: (N,): class numbers, or values for regression.
        official: number of official training samples; None: there is no official split.
        classes: number of classes; 0 for regression.
        source: where it comes from, for the record.
        content: hash of the arrays.
        top: largest possible input; None: inputs are tokens, which nothing prepares.
        keep: axes that standardising has statistics for.
        vocabulary: number of different tokens.
    """

    inputs: NDArray[Any]
    targets: NDArray[Any]
    official: int | None
    classes: int
    source: str
    content: str
    top: float | None = 255.0
    keep: Sequence[int] = (-1,)
    vocabulary: int = 0


def assemble(name: str, raw: Raw, options: Options, *, pad: int = 0) -> DataSet:
    """Make a data set.

    Args:
        name: of it.
        raw: all its samples.
        options: what the user wants.
        pad: so many columns of zeros on either side, for tables.
    """
    places = partition(raw.targets, raw.classes, raw.official, options)
    if not all(map(len, places)):
        raise UserError(f"data={name}: the training or the test data is empty.")
    parts = [_part(raw, index) for index in places]
    prepare = None
    if raw.top is not None:
        values = parts[0].inputs.numpy()
        prepare = preparation(options.preprocess, values, top=raw.top, keep=raw.keep)
        if 4 * raw.inputs.size < LARGE:
            parts = [Part(prepare(part.inputs), part.targets) for part in parts]
            prepare = None
    elif options.preprocess != "none":
        raise UserError(f"data.preprocess={options.preprocess}: data={name} has nothing to scale.")
    if pad:
        padded = [torch.nn.functional.pad(part.inputs, (pad, pad)) for part in parts]
        parts = [Part(inputs, part.targets) for inputs, part in zip(padded, parts, strict=True)]
    train, test = parts
    return DataSet(
        name,
        raw.source,
        train,
        test,
        raw.classes,
        informative=(pad, pad + raw.inputs.shape[-1]) if pad else None,
        digest=_fingerprint(raw, options, places, pad),
        prepare=prepare,
        augment=_augment(name, raw, options),
        vocabulary=raw.vocabulary,
    )


def _part(raw: Raw, index: Index) -> Part:
    whole = len(index) == index[-1] - index[0] + 1  # a slice copies nothing
    where: Any = slice(index[0], index[-1] + 1) if whole else index
    targets = raw.targets[where]
    dtype = np.int64 if raw.classes else np.float32
    return Part(
        torch.from_numpy(np.ascontiguousarray(raw.inputs[where])),
        torch.from_numpy(np.ascontiguousarray(targets, dtype=dtype)),
    )


def _augment(name: str, raw: Raw, options: Options) -> Augment | None:
    augment = Augment(**options.augment)  # type: ignore[arg-type]
    if augment and raw.inputs.ndim != 4:
        raise UserError(f"data.augment: data={name} has no images to change.")
    return augment or None


def _fingerprint(raw: Raw, options: Options, places: Sequence[Index], pad: int) -> str:
    digest = hashlib.sha256(json.dumps([raw.content, options.preprocess, pad]).encode())
    for index in places:
        digest.update(index.astype("<i8").tobytes() + b"|")
    return digest.hexdigest()[:16]
