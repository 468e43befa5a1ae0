"""Which samples train and which test."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focusing.data.options import Options
from focusing.errors import UserError

Index = NDArray[np.int64]
Targets = NDArray[Any]


def partition(
    targets: Targets,
    classes: int,
    official: int | None,
    options: Options,
    test_share: float | None = None,
) -> tuple[Index, Index]:
    """Places of the training and of the test samples, each in ascending order.

    Args:
        targets: of all samples.
        classes: number of classes, which are then divided evenly; 0 for regression.
        official: the first so many are the official training data; None: there is no official
            split.
        options: what the user wants.
        test_share: of a random split, if the user does not say; None: as the official one.
    """
    kind, folds = read_split(options.split)
    _refuse_idle(kind, options)
    if options.split_seed is not None and options.split_seed < 0:
        raise UserError(f"data.split_seed={options.split_seed} must be at least 0, or null.")
    if kind == "official":
        if official is None:
            raise UserError(
                "data.split=official: these files have none, use data.split=random "
                "data.test_share=0.2, or data.split=kfold10."
            )
        places = np.arange(len(targets))
        train, test = places[:official], places[official:]
    elif kind == "random":
        share = test_share if options.test_share is None else options.test_share
        train, test = _random(targets, classes, official, share, options.seed)
    else:
        if not 0 <= options.fold < folds:
            raise UserError(f"data.fold={options.fold} must lie between 0 and {folds - 1}.")
        if not 2 <= folds <= len(targets):
            raise UserError(f"data.split=kfold({folds}) of {len(targets)} samples is impossible.")
        number = _fold_numbers(targets, classes, folds, options.seed)
        train, test = np.flatnonzero(number != options.fold), np.flatnonzero(number == options.fold)
    train = limit("train", train, targets, classes, options.limit_train)
    return train, limit("test", test, targets, classes, options.limit_test)


def read_split(split: str) -> tuple[str, int]:
    """The kind of a split and its number of folds, from ``data.split``."""
    if split in ("official", "random"):
        return split, 0
    # Hydra and the shell take parentheses for something else: kfold5 needs no quotes.
    fits = re.fullmatch(r"kfold(?:(\d+)|\((\d+)\))?", split)
    if not fits:
        raise UserError(f"data.split={split} is not one of official, random, kfold5, 'kfold(5)'.")
    return "kfold", int(fits[1] or fits[2] or 10)


def _refuse_idle(kind: str, options: Options) -> None:
    """An option that changes nothing is a mistake."""
    if kind != "kfold" and options.fold:
        raise UserError(f"data.fold={options.fold} is of no use to data.split={kind}, use 0.")
    if kind != "random" and options.test_share is not None:
        raise UserError(
            f"data.test_share={options.test_share} is of no use to data.split={kind}, use null."
        )
    if kind == "official" and options.split_seed:
        raise UserError(
            f"data.split_seed={options.split_seed} is of no use to data.split=official, use 0."
        )


def choose(targets: Targets, classes: int, count: int, seed: int) -> Index:
    """So many places, the same share of every class, in ascending order."""
    # Largest remainders: class sizes are right to one sample, and the sum is exact.
    number = _ranks(targets, classes, seed)
    return np.sort(np.argsort(number, kind="stable")[:count])


def _random(
    targets: Targets, classes: int, official: int | None, share: float | None, seed: int
) -> tuple[Index, Index]:
    if share is not None and not 0 < share < 1:
        raise UserError(f"data.test_share={share} must lie between 0 and 1.")
    if share is None and official is None:
        raise UserError("data.split=random needs data.test_share for this data set.")
    total = len(targets)
    # Rounded up, as scikit-learn does; 1e-9 is for shares that are not quite what they were typed.
    count = total - official if share is None and official is not None else 0
    count = count or math.ceil(total * (share or 0) - 1e-9)
    test = choose(targets, classes, count, seed)
    chosen = np.zeros(total, dtype=bool)
    chosen[test] = True
    return np.flatnonzero(~chosen), test


def _fold_numbers(targets: Targets, classes: int, folds: int, seed: int) -> Index:
    """Deal the samples out like cards, class after class: folds differ by one at most."""
    shuffled = np.random.default_rng(seed).permutation(len(targets))
    if classes:
        shuffled = shuffled[np.argsort(targets[shuffled], kind="stable")]
    number = np.empty(len(targets), dtype=np.int64)
    number[shuffled] = np.arange(len(targets)) % folds
    return number


def _ranks(targets: Targets, classes: int, seed: int) -> NDArray[np.float64]:
    """A number in (0, 1) for each sample, evenly spread within each class, else random."""
    generator = np.random.default_rng(seed)
    rank = np.empty(len(targets))
    for label in range(max(classes, 1)):
        places = np.flatnonzero(targets == label) if classes else np.arange(len(targets))
        rank[generator.permutation(places)] = (np.arange(len(places)) + 0.5) / max(len(places), 1)
    return rank


def limit(name: str, places: Index, targets: Targets, classes: int, most: int | None) -> Index:
    """So many of some places at most, the same share of every class.

    Args:
        name: ``"train"`` or ``"test"``.
        places: in the targets.
        targets: of all samples.
        classes: number of classes; 0 for regression.
        most: None: all.
    """
    if most is None or most >= len(places):
        return places
    if most < 1:
        raise UserError(f"data.limit_{name}={most} must be at least 1.")
    return places[choose(targets[places], classes, most, seed=0)]
