"""Splits of a data set into training, validation and test samples."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focusing.errors import UserError

Index = NDArray[np.int64]
Targets = NDArray[Any]


class Split(NamedTuple):
    """Inputs (N, *) and targets (N,): class numbers, or values for regression."""

    inputs: Tensor
    targets: Tensor

    def take(self, index: Tensor) -> Split:
        """Samples at an index or where a mask is true."""
        return Split(self.inputs[index], self.targets[index])

    def chunks(self, size: int) -> Iterator[Split]:
        """Views of ``size`` samples; the last one may be smaller."""
        return map(Split, *(torch.split(values, size) for values in self))

    def to(self, device: torch.device) -> Split:
        """The same samples on a device."""
        return Split(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """Options that divide samples into training and test data.

    Args:
        split: ``"official"``, ``"random"``, or ``"kfold5"`` (also ``"kfold(5)"``) for five folds;
            ``"kfold"`` means ten.
        fold: number of the fold that is the test data, from 0.
        test_share: share of test samples in a random split; None: the paper's share, or else as in
            the official split.
        split_seed: seed of a random split and of folds; None: the seed of the run.
        limit_train: maximum number of training samples, drawn evenly from all classes.
        limit_test: maximum number of test samples, drawn evenly from all classes.
        run_seed: seed of the run.
    """

    split: str = "official"
    fold: int = 0
    test_share: float | None = None
    split_seed: int | None = 0
    limit_train: int | None = None
    limit_test: int | None = None
    run_seed: int = 0

    @property
    def seed(self) -> int:
        """Seed of the split."""
        return self.run_seed if self.split_seed is None else self.split_seed


def hold_out(train: Split, share: float, seed: int, classes: int) -> tuple[Split, Split]:
    """Divide the training data into a training and a validation split.

    Args:
        train: the training data.
        share: share of the validation split, between 0 and 1.
        seed: seed of the split.
        classes: number of classes, to stratify by; 0 for regression.

    Returns:
        The remaining training data and the validation data, both in their original order.
    """
    held = holdout_mask(train.targets.cpu().numpy(), share, seed, classes)
    mask = torch.from_numpy(held).to(train.targets.device)
    return train.take(~mask), train.take(mask)


def holdout_mask(targets: Targets, share: float, seed: int, classes: int) -> NDArray[np.bool_]:
    """Mask of the training samples that :func:`hold_out` puts into the validation split."""
    if not 0 < share < 1:
        raise UserError(f"protocol.holdout={share} must lie between 0 and 1.")
    held = _mask(targets, classes, round(share * len(targets)), seed)
    if not 0 < held.sum() < len(held):
        raise UserError(
            f"protocol.holdout={share} leaves nothing of {len(held)} training samples on one side."
        )
    return held


def partition(
    targets: Targets,
    classes: int,
    official: int | None,
    options: SplitOptions,
    test_share: float | None = None,
) -> tuple[Index, Index]:
    """Indices of the training and of the test samples, in ascending order.

    Args:
        targets: targets of all samples.
        classes: number of classes, to stratify by; 0 for regression.
        official: number of official training samples, which come first; None: there is no
            official split.
        options: the user's options.
        test_share: default test share of a random split; None: as in the official split.
    """
    kind, folds = read_split(options.split)
    _refuse_unused(kind, options)
    if options.split_seed is not None and options.split_seed < 0:
        raise UserError(f"data.split_seed={options.split_seed} must be at least 0, or null.")
    if kind == "official":
        if official is None:
            raise UserError(
                "data.split=official: this data set has none, use data.split=random "
                "data.test_share=0.2, or data.split=kfold10."
            )
        tests = np.arange(len(targets)) >= official
    elif kind == "random":
        share = test_share if options.test_share is None else options.test_share
        if share is not None and not 0 < share < 1:
            raise UserError(f"data.test_share={share} must lie between 0 and 1.")
        if share is not None:
            # Rounded up as in scikit-learn; 1e-9 absorbs the rounding error of the product.
            count = math.ceil(len(targets) * share - 1e-9)
        elif official is not None:
            count = len(targets) - official
        else:
            raise UserError("data.split=random needs data.test_share for this data set.")
        tests = _mask(targets, classes, count, options.seed)
    else:
        if not 0 <= options.fold < folds:
            raise UserError(f"data.fold={options.fold} must lie between 0 and {folds - 1}.")
        if not 2 <= folds <= len(targets):
            raise UserError(f"data.split=kfold({folds}) of {len(targets)} samples is impossible.")
        tests = _fold_numbers(targets, classes, folds, options.seed) == options.fold
    train = limit_samples("train", np.flatnonzero(~tests), targets, classes, options.limit_train)
    return train, limit_samples("test", np.flatnonzero(tests), targets, classes, options.limit_test)


def read_split(split: str) -> tuple[str, int]:
    """Parse ``data.split`` into the kind of the split and its number of folds."""
    if split in ("official", "random"):
        return split, 0
    # kfold(5) needs quotes in the shell and for Hydra, kfold5 does not.
    match = re.fullmatch(r"kfold(?:(\d+)|\((\d+)\))?", split)
    if not match:
        raise UserError(f"data.split={split} is not one of official, random, kfold5, 'kfold(5)'.")
    return "kfold", int(match[1] or match[2] or 10)


def stratified_sample(targets: Targets, classes: int, count: int, seed: int) -> Index:
    """Draw ``count`` samples with equal shares of all classes; returns sorted indices."""
    generator = np.random.default_rng(seed)
    ranks = np.empty(len(targets))  # in (0, 1), random and evenly spaced within each class
    for label in range(max(classes, 1)):
        members = np.flatnonzero(targets == label) if classes else np.arange(len(targets))
        ranks[generator.permutation(members)] = (np.arange(len(members)) + 0.5) / len(members)
    # The largest remainder method: class sizes are off by one at most, and the sum is exact.
    return np.sort(np.argsort(ranks, kind="stable")[:count])


def limit_samples(
    split: str, index: Index, targets: Targets, classes: int, maximum: int | None
) -> Index:
    """Apply ``data.limit_<split>``: keep at most ``maximum`` samples, evenly from all classes.

    ``index`` refers to the targets of all samples; None as the maximum keeps all of it.
    """
    if maximum is None or maximum >= len(index):
        return index
    if maximum < 1:
        raise UserError(f"data.limit_{split}={maximum} must be at least 1.")
    return index[stratified_sample(targets[index], classes, maximum, seed=0)]


def _refuse_unused(kind: str, options: SplitOptions) -> None:
    """Refuse options that have no effect on this kind of split."""
    for name, kinds, unset, default in (
        ("fold", ("kfold",), (0,), "0"),
        ("test_share", ("random",), (None,), "null"),
        ("split_seed", ("random", "kfold"), (0, None), "0"),
    ):
        value = getattr(options, name)
        if kind not in kinds and value not in unset:
            raise UserError(
                f"data.{name}={value} has no effect with data.split={kind}, use {default}."
            )


def _mask(targets: Targets, classes: int, count: int, seed: int) -> NDArray[np.bool_]:
    """Mask of ``count`` samples with equal shares of all classes."""
    mask = np.zeros(len(targets), dtype=bool)
    mask[stratified_sample(targets, classes, count, seed)] = True
    return mask


def _fold_numbers(targets: Targets, classes: int, folds: int, seed: int) -> Index:
    """Fold number of each sample, dealt out class by class: fold sizes differ by one at most."""
    shuffled = np.random.default_rng(seed).permutation(len(targets))
    if classes:
        shuffled = shuffled[np.argsort(targets[shuffled], kind="stable")]
    number = np.empty(len(targets), dtype=np.int64)
    number[shuffled] = np.arange(len(targets)) % folds
    return number
