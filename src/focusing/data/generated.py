"""Generated data sets: ``data=synthetic``, and MNIST digits in a larger frame, clt and shifted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge, Le
from numpy.typing import NDArray

from focusing.data.batches import Preparation
from focusing.data.cache import cached
from focusing.data.dataset import (
    FAKE_TEST,
    FAKE_TRAIN,
    DataSet,
    ImageOptions,
    Raw,
    assemble,
    fake_samples,
    read_raw,
    takes_options,
)
from focusing.data.decoders import DamagedError, load_npz, reading
from focusing.data.image_sets import read_mnist
from focusing.data.splits import Split, holdout_mask, limit_samples
from focusing.errors import UserError
from focusing.instantiate import check_arguments
from focusing.validation import check_memory

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Images = NDArray[np.uint8]
MAX_SEPARATION = 1e6
"""In units of the clusters' own spread; beyond it float32 cannot tell points apart."""
VARIANTS = {"generated": "", "original": "clt60", "small": "clt40"}
"""Variants of ``data=clt``, with the catalogue name of their files."""
CLUTTER_CHUNK = 2048
"""Images generated at a time, so that their index arrays fit into the CPU cache."""


def synthetic(
    *,
    generator: Literal["blobs", "classification"] = "blobs",
    n_samples: Annotated[int, Ge(2)] = 2000,
    test_share: float = 0.3,
    classes: Annotated[int, Ge(2)] = 2,
    clusters: Annotated[int, Ge(1)] = 2,
    informative: Annotated[int, Ge(1)] = 20,
    separation: Annotated[float, Ge(0), Le(MAX_SEPARATION)] = 1.0,
    noise: Annotated[int, Ge(0)] = 20,
    noise_position: Literal["left", "right", "sides", "none"] = "left",
    noise_kind: Literal["normal", "uniform"] = "normal",
    seed: Annotated[int, Ge(0)] = 42,
    limit_train: int | None = None,
    limit_test: int | None = None,
    fake: bool = False,
    run_seed: int = 0,
    holdout: float = 0.0,
) -> DataSet:
    """The paper's synthetic classification data: informative columns beside columns of noise.

    Each column has zero mean and unit variance on the training data.

    Args:
        generator: ``"blobs"`` draws gaussian clusters (the paper's text), ``"classification"``
            calls scikit-learn's ``make_classification`` (the author's code).
        n_samples: number of samples, for training and testing together.
        test_share: share of test samples.
        classes: number of classes.
        clusters: clusters per class.
        informative: number of informative columns.
        separation: for blobs the spread of the cluster centres in units of the clusters' own
            spread, for classification half the side of its hypercube.
        noise: number of noise columns.
        noise_position: ``"left"``, ``"right"``, ``"sides"`` (half on either) or ``"none"``.
        noise_kind: ``"normal"``, N(0, 1), or ``"uniform"``, U[0, 1).
        seed: seed of the data.
        limit_train: maximum number of training samples, drawn evenly from all classes.
        limit_test: maximum number of test samples, drawn evenly from all classes.
        fake: generate only a few hundred samples.
        run_seed: seed of the run, which draws the held-out samples.
        holdout: share of the training data that the run will hold out; statistics are computed
            without it.
    """
    check_arguments(synthetic, locals(), "data.")
    left = {"left": noise, "right": 0, "sides": noise // 2, "none": 0}[noise_position]
    right = 0 if noise_position == "none" else noise - left
    region, columns = (left, left + informative), left + informative + right
    if fake:
        n_samples, generator = FAKE_TRAIN + FAKE_TEST, "blobs"
    check_memory(
        8 * (n_samples * columns + classes * clusters * informative),
        f"data.n_samples={n_samples} of {columns} columns in {classes} classes "
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
    noises = random.normal(size=shape) if noise_kind == "normal" else random.random(shape)
    table = np.hstack([noises[:, :left], signal, noises[:, left:]])

    tests = round(test_share * n_samples)
    if not 0 < tests < n_samples:
        raise UserError(
            f"data.test_share={test_share} of {n_samples} samples leaves no training or no test "
            "data."
        )
    order = random.permutation(n_samples)
    train = limit_samples("train", order[tests:], labels, classes, limit_train)
    test = limit_samples("test", order[:tests], labels, classes, limit_test)
    fitted = table[train]
    if holdout:
        fitted = fitted[~holdout_mask(labels[train], holdout, run_seed, classes)]
    mean, spread = fitted.mean(0), fitted.std(0)
    spread = np.where(spread > 0, spread, 1)
    table = (table - mean) / spread

    def take(index: Labels) -> Split:
        return Split(torch.from_numpy(table[index]).float(), torch.from_numpy(labels[index]))

    source = "generated: gaussian blobs" if generator == "blobs" else "generated: scikit-learn"
    source = "fake" if fake else source
    factor, offset = torch.from_numpy(1 / spread), torch.from_numpy(-mean / spread)
    return DataSet(
        *("synthetic", source, take(train), take(test), classes, region),
        preparation=Preparation(factor.float(), offset.float()),
    )


@takes_options
def clt(
    options: ImageOptions,
    *,
    variant: Literal["generated", "original", "small"] = "generated",
    on_missing: str = "error",
    train: Annotated[int, Ge(1)] | None = None,
    test: Annotated[int, Ge(1)] | None = None,
    size: Annotated[int, Ge(28)] = 60,
    patches: Annotated[int, Ge(0)] = 6,
    patch_size: Annotated[int, Ge(1), Le(28)] = 8,
    seed: Annotated[int, Ge(0)] = 0,
) -> DataSet:
    """Cluttered MNIST, (60, 60, 1).

    Args:
        options: see :class:`focusing.data.dataset.ImageOptions`.
        variant: ``"generated"`` from MNIST; ``"original"``: the file of the paper, if you have it;
            ``"small"``: a 40x40 set of 11 000 + 1000 images.
        on_missing: what to do without MNIST, see :func:`focusing.data.mnist`.
        train: number of training images to generate; None: one per training digit.
        test: number of test images to generate; None: one per test digit.
        size: height and width of an image.
        patches: number of distractors.
        patch_size: height and width of a distractor.
        seed: seed of the generator.
    """
    recipe = {"size": size, "patches": patches, "patch_size": patch_size, "seed": seed}
    if variant == "generated":
        return _frame_set("clt", options, on_missing, (train, test), recipe)
    _refuse_unused(variant, {**recipe, "train": train, "test": test})
    side = 40 if variant == "small" else size
    about: Any = {"shape": (side, side, 1), "classes": 10, "max_value": 1.0}
    raw = read_raw(VARIANTS[variant], options, _read_clutter, **about)
    source = raw.source if options.fake else f"{variant}, {raw.source}"
    return assemble("clt", replace(raw, source=source), options)


@takes_options
def shifted(
    options: ImageOptions,
    *,
    on_missing: str = "error",
    size: Annotated[int, Ge(28)] = 60,
    seed: Annotated[int, Ge(0)] = 0,
) -> DataSet:
    """Shifted MNIST, (60, 60, 1): each digit at a random position in an empty frame.

    Args:
        options: see :class:`focusing.data.dataset.ImageOptions`.
        on_missing: what to do without MNIST, see :func:`focusing.data.mnist`.
        size: height and width of an image.
        seed: seed of the positions.
    """
    recipe = {"size": size, "patches": 0, "patch_size": 1, "seed": seed}
    return _frame_set("shifted", options, on_missing, (None, None), recipe)


def _frame_set(
    name: str,
    options: ImageOptions,
    on_missing: str,
    wanted: tuple[int | None, int | None],
    recipe: dict[str, int],
) -> DataSet:
    """Put digits into a larger frame, with or without distractors."""
    size, patches = recipe["size"], recipe["patches"]
    if options.fake:
        return assemble(name, fake_samples((size, size, 1), 10), options)
    digits = read_mnist(options, on_missing)
    cut = digits.official or 0
    counts = (wanted[0] or cut, wanted[1] or len(digits.targets) - cut)
    check_memory(
        sum(counts) * (size**2 + 40 * patches),
        f"data: {sum(counts)} images of {size}x{size} with {patches} patches",
    )
    origin = {"digits": digits.content, "counts": counts, **recipe}
    entry = cached("clt", origin, lambda: _generate_clutter(digits, cut, counts, **recipe))
    source = "generated" if digits.source == "official" else f"generated, {digits.source}"
    return assemble(name, Raw.of(entry, source, 10), options)


def clutter(
    digits: Images, count: int, size: int, patches: int, patch_size: int, seed: list[int]
) -> tuple[Images, NDArray[np.int64]]:
    """Generate cluttered images as google-deepmind/mnist-cluttered does.

    An image has a digit and distractors, which are random crops of random digits, all at random
    positions. Overlapping pixels are added and clipped at 255.

    Each of the digits (N, 28, 28) is used equally often. The options are those of :func:`clt`.

    Returns:
        Images (count, size, size), and the index of the digit in each.
    """
    random = np.random.default_rng(seed)
    whole, rest = divmod(count, len(digits))
    rounds = [random.permutation(len(digits)) for _ in range(whole)]
    which = np.concatenate([*rounds, random.permutation(len(digits))[:rest]])
    side = digits.shape[1]
    places = random.integers(0, size - side + 1, (count, 2))
    others = random.integers(0, len(digits), (count, patches))
    windows = random.integers(0, side - patch_size + 1, (count, patches, 2))
    spots = random.integers(0, size - patch_size + 1, (count, patches, 2))
    images = np.empty((count, size, size), dtype=np.uint8)
    for start in range(0, count, CLUTTER_CHUNK):
        chunk = slice(start, start + CLUTTER_CHUNK)
        canvas = np.zeros((len(which[chunk]), size, size), dtype=np.uint16)
        _add(canvas, digits[which[chunk]], places[chunk])
        for patch in range(patches):
            rows, columns = _square(windows[chunk, patch], patch_size)
            pieces = digits[others[chunk, patch][:, None, None], rows, columns]
            _add(canvas, pieces, spots[chunk, patch])
        images[chunk] = np.minimum(canvas, 255)
    return images, which


def _refuse_unused(variant: str, options: Mapping[str, int | None]) -> None:
    """Refuse options of the generator for a variant that is read from a file."""
    for name, parameter in signature(clt).parameters.items():
        if name in options and options[name] != parameter.default:
            raise UserError(
                f"data.{name}={options[name]} is for data.variant=generated, not for {variant}."
            )


def _generate_clutter(
    digits: Raw, cut: int, counts: tuple[int, int], *, seed: int, **recipe: int
) -> dict[str, NDArray[Any]]:
    """Generate both splits, each with digits and distractors of its own."""
    images, labels = [], []
    for number, (split, count) in enumerate(
        zip((slice(0, cut), slice(cut, None)), counts, strict=True)
    ):
        inputs = digits.inputs[split, ..., 0]
        cluttered, which = clutter(inputs, count, **recipe, seed=[seed, number])
        images.append(cluttered)
        labels.append(digits.targets[split][which])
    return {
        "inputs": np.concatenate(images)[..., None],
        "targets": np.concatenate(labels),
        "train": np.array(counts[0]),
    }


def _square(corners: NDArray[np.int64], side: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows (n, side, 1) and columns (n, 1, side) of squares with given upper left corners."""
    along = np.arange(side)
    return corners[:, :1, None] + along[:, None], corners[:, 1:, None] + along


def _add(canvas: NDArray[np.uint16], pieces: Images, corners: NDArray[np.int64]) -> None:
    rows, columns = _square(corners, pieces.shape[1])
    canvas[np.arange(len(canvas))[:, None, None], rows, columns] += pieces


def _read_clutter(path: Path) -> dict[str, NDArray[Any]]:
    """Read cluttered images; the validation images join the training data, as in the paper."""
    arrays = {name.lower(): values for name, values in load_npz(path).items()}
    splits = ("train", "valid", "test")
    missing = {f"{axis}_{split}" for axis in "xy" for split in splits} - set(arrays)
    if missing:
        raise DamagedError(path, f"it has no {min(missing)}")
    with reading(path):
        inputs = np.concatenate([arrays[f"x_{split}"] for split in splits])
        labels = np.concatenate([arrays[f"y_{split}"] for split in splits])
        side = round(np.sqrt(inputs[0].size))
        if side * side != inputs[0].size or len(inputs) != len(labels):
            raise DamagedError(path, f"its images and labels are {inputs.shape} and {labels.shape}")
        one_hot = labels.ndim == 2 and labels.shape[1] > 1
        targets = (labels.argmax(1) if one_hot else labels.reshape(-1)).astype(np.int64)
        if len(targets) != len(inputs) or targets.min() < 0 or targets.max() > 9:
            raise DamagedError(path, "its labels are not 0 to 9")
        inputs = inputs.reshape(-1, side, side, 1).astype(np.float32)
    train = np.array(len(inputs) - len(arrays["x_test"]))
    return {"inputs": inputs, "targets": targets, "train": train}


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
    """scikit-learn's ``make_classification`` with informative columns only."""
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
