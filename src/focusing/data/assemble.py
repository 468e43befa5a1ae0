"""From raw arrays to a data set: split, limit, prepare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from focusing.data.augment import Augment
from focusing.data.dataset import DataSet, Split
from focusing.data.options import Options
from focusing.data.partition import Index, partition
from focusing.data.preprocess import FITTED, Preparation, preparation
from focusing.data.split import held_out
from focusing.errors import UserError
from focusing.validation import check_memory

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
        top: largest possible input, if the smallest is 0; None: there is no such range.
        keep: axes that standardising has statistics for.
        vocabulary: number of different tokens, which nothing prepares; 0: inputs are values.
        test_share: of a random split, if the user does not say; None: as the official one.
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
    test_share: float | None = None


def assemble(
    name: str, raw: Raw, options: Options, *, pad: int = 0, labels: Sequence[str] = ()
) -> DataSet:
    """Make a data set.

    Args:
        name: of it.
        raw: all its samples.
        options: what the user wants.
        pad: so many columns of zeros on either side, for tables.
        labels: names of the classes.
    """
    if pad < 0:
        raise UserError(f"data.pad={pad} must be at least 0.")
    check_memory(8 * pad * len(raw.targets), f"data.pad={pad}")
    places = partition(raw.targets, raw.classes, raw.official, options, raw.test_share)
    if not all(map(len, places)):
        raise UserError(f"data={name}: the training or the test data is empty.")
    augment = _augment(name, raw, options)
    fitted = _fitted(raw, options, places[0])
    parts = [_part(raw, index) for index in places]
    prepare: Preparation | None = None
    prepared_by: Preparation | None = None
    if not options.peek:
        prepare = options.preparation or _preparation(name, raw, options, parts[0], fitted)
        prepared_by = prepare
        if prepare is not None and 4 * raw.inputs.size < LARGE:
            parts = [part._replace(inputs=prepare(part.inputs)) for part in parts]
            prepare = None
        parts = [part._replace(inputs=_padded(part.inputs, pad)) for part in parts]
    train, test = parts
    return DataSet(
        name,
        raw.source,
        train,
        test,
        raw.classes,
        informative=(pad, pad + raw.inputs.shape[-1]) if pad else None,
        digest=_fingerprint(raw, options, augment, (*places, fitted), pad),
        prepare=prepare,
        augment=augment,
        vocabulary=raw.vocabulary,
        preparation=prepared_by,
        labels=tuple(labels),
        content=raw.content[:16],
    )


def _fitted(raw: Raw, options: Options, train: Index) -> Index | None:
    """Places in the training data that statistics come from; None: all of it, or no statistics."""
    if not options.holdout or options.preprocess not in FITTED:
        return None
    held = held_out(raw.targets[train], options.holdout, options.run_seed, raw.classes)
    return np.flatnonzero(~held)


def _preparation(
    name: str, raw: Raw, options: Options, train: Split, fitted: Index | None
) -> Preparation | None:
    if raw.vocabulary:
        if options.preprocess != "none":
            raise UserError(
                f"data.preprocess={options.preprocess}: data={name} has nothing to scale."
            )
        return None
    values = train.inputs.numpy()
    values = values if fitted is None else values[fitted]
    return preparation(options.preprocess, values, top=raw.top, keep=raw.keep)


def _padded(inputs: Tensor, pad: int) -> Tensor:
    return functional.pad(inputs, (pad, pad)) if pad else inputs


def _part(raw: Raw, index: Index) -> Split:
    whole = len(index) == index[-1] - index[0] + 1  # a slice copies nothing
    where: Any = slice(index[0], index[-1] + 1) if whole else index
    targets = raw.targets[where]
    dtype = np.int64 if raw.classes else np.float32
    return Split(
        torch.from_numpy(np.ascontiguousarray(raw.inputs[where])),
        torch.from_numpy(np.ascontiguousarray(targets, dtype=dtype)),
    )


def _augment(name: str, raw: Raw, options: Options) -> Augment | None:
    augment = Augment(**options.augment)  # type: ignore[arg-type]
    if augment and raw.inputs.ndim != 4:
        raise UserError(f"data.augment: data={name} has no images to change.")
    return augment or None


def _fingerprint(
    raw: Raw,
    options: Options,
    augment: Augment | None,
    places: Sequence[Index | None],
    pad: int,
) -> str:
    about = [raw.content, options.preprocess, pad, *([asdict(augment)] if augment else [])]
    digest = hashlib.sha256(json.dumps(about).encode())
    for index in places:
        if index is not None:
            digest.update(index.astype("<i8").tobytes() + b"|")
    return digest.hexdigest()[:16]
