"""The paper's synthetic classification data: informative columns beside columns of noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from focusing.data.assemble import assemble
from focusing.data.dataset import DataSet, Split
from focusing.data.fake import fake as fake_samples
from focusing.data.options import Options
from focusing.data.partition import limit
from focusing.data.preprocess import Preparation
from focusing.data.split import held_out
from focusing.errors import UserError
from focusing.validation import check_memory

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

GENERATORS = ("blobs", "classification")
POSITIONS = ("left", "right", "sides", "none")
KINDS = ("normal", "uniform")
MAX_SEPARATION = 1e6
"""In units of the clusters' own spread, which float32 could not tell apart beyond."""


def synthetic(
    *,
    generator: str = "blobs",
    n_samples: int = 2000,
    test_share: float = 0.3,
    classes: int = 2,
    clusters: int = 2,
    informative: int = 20,
    separation: float = 1.0,
    noise: int = 20,
    noise_position: str = "left",
    noise_kind: str = "normal",
    seed: int = 42,
    limit_train: int | None = None,
    limit_test: int | None = None,
    fake: bool = False,
    run_seed: int = 0,
    holdout: float = 0.0,
) -> DataSet:
    """Make a data set; each column gets zero mean and unit variance on the training part.

    Args:
        generator: ``"blobs"`` draws gaussian clusters (the paper's text), ``"classification"``
            calls scikit-learn's ``make_classification`` (the author's code).
        n_samples: of both parts together.
        test_share: share of the samples that is for testing.
        classes: number of classes.
        clusters: per class.
        informative: number of informative columns.
        separation: for blobs the spread of the cluster centres in units of the clusters' own, for
            classification half the side of its hypercube.
        noise: number of noise columns.
        noise_position: ``"left"``, ``"right"``, ``"sides"`` (half on each) or ``"none"``.
        noise_kind: ``"normal"``, N(0, 1), or ``"uniform"``, U[0, 1).
        seed: of everything here.
        limit_train: so many training samples at most, evenly from all classes.
        limit_test: likewise.
        fake: a few hundred random samples of the same shape.
        run_seed: of the run, which chooses what it holds out.
        holdout: share of the training data that the run will hold out: statistics leave it out.
    """
    _check_least(n_samples=(n_samples, 2), classes=(classes, 2), clusters=(clusters, 1))
    _check_least(informative=(informative, 1), noise=(noise, 0), seed=(seed, 0))
    if not 0 <= separation <= MAX_SEPARATION:
        raise UserError(f"data.separation={separation} must lie between 0 and {MAX_SEPARATION:g}.")
    _check("generator", generator, GENERATORS)
    _check("noise_position", noise_position, POSITIONS)
    _check("noise_kind", noise_kind, KINDS)
    left = {"left": noise, "right": 0, "sides": noise // 2, "none": 0}[noise_position]
    right = 0 if noise_position == "none" else noise - left
    region = (left, left + informative)
    if fake:
        raw = fake_samples((left + informative + right,), classes, top=None)
        options = Options(
            preprocess="standard",
            limit_train=limit_train,
            limit_test=limit_test,
            run_seed=run_seed,
            holdout=holdout,
        )
        return replace(assemble("synthetic", raw, options), informative=region)
    values = n_samples * (left + informative + right) + classes * clusters * informative
    check_memory(
        8 * values,
        f"data.n_samples={n_samples} of {left + informative + right} columns in {classes} classes "
        f"of {clusters} clusters",
    )
    random = np.random.default_rng(seed)
    if generator == "blobs":
        signal, labels = _blobs(random, n_samples, classes, clusters, informative, separation)
    else:
        signal, labels = _classification(
            n_samples, classes, clusters, informative, separation, seed
        )
    shape = (n_samples, left + right)
    columns = random.normal(size=shape) if noise_kind == "normal" else random.random(shape)
    table = np.hstack([columns[:, :left], signal, columns[:, left:]])

    tests = round(test_share * n_samples)
    if not 0 < tests < n_samples:
        raise UserError(
            f"data.test_share={test_share} leaves one part of {n_samples} samples empty."
        )
    order = random.permutation(n_samples)
    train = limit("train", order[tests:], labels, classes, limit_train)
    test = limit("test", order[:tests], labels, classes, limit_test)
    fitted = table[train]
    if holdout:
        fitted = fitted[~held_out(labels[train], holdout, run_seed, classes)]
    mean, spread = fitted.mean(0), fitted.std(0)
    spread = np.where(spread > 0, spread, 1)
    table = (table - mean) / spread

    def part(index: Labels) -> Split:
        inputs = torch.from_numpy(table[index]).float()
        return Split(inputs, torch.from_numpy(labels[index]))

    source = "generated: gaussian blobs" if generator == "blobs" else "generated: scikit-learn"
    scale = (torch.from_numpy(each).float() for each in (1 / spread, -mean / spread))
    return DataSet(
        *("synthetic", source, part(train), part(test), classes, region),
        preparation=Preparation(*scale),
    )


def _blobs(
    random: np.random.Generator,
    samples: int,
    classes: int,
    clusters: int,
    columns: int,
    separation: float,
) -> tuple[Array, Labels]:
    """Clusters of unit variance whose centres are drawn from N(0, separation^2)."""
    centres = separation * random.normal(size=(classes * clusters, columns))
    blob = np.arange(samples) % len(centres)
    return centres[blob] + random.normal(size=(samples, columns)), blob % classes


def _classification(
    samples: int, classes: int, clusters: int, columns: int, separation: float, seed: int
) -> tuple[Array, Labels]:
    from sklearn.datasets import make_classification  # type: ignore[import-untyped]

    try:
        signal, labels = make_classification(
            samples,
            columns,
            n_informative=columns,
            n_redundant=0,
            n_classes=classes,
            n_clusters_per_class=clusters,
            class_sep=separation,
            random_state=seed,
        )
    except ValueError as error:
        raise UserError(f"data: {error}") from None
    return signal, labels.astype(np.int64)


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UserError(f"data.{name}={value} is not one of {', '.join(allowed)}.")


def _check_least(**options: tuple[int, int]) -> None:
    for name, (value, least) in options.items():
        if value < least:
            raise UserError(f"data.{name}={value} must be at least {least}.")
