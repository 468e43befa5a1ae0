"""``data=clt``: digits somewhere among pieces of other digits."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focusing.data.assemble import Raw, assemble
from focusing.data.cache import Decoded, decoded
from focusing.data.damage import DamagedError, reading
from focusing.data.dataset import DataSet
from focusing.data.fake import fake
from focusing.data.options import Options
from focusing.data.pickles import load_npz
from focusing.data.pictures import read_mnist
from focusing.data.sources import Found
from focusing.errors import UserError
from focusing.validation import check_memory

Images = NDArray[np.uint8]
VARIANTS = {"generated": "", "original": "clt60", "small": "clt40"}
CHUNK = 2048
"""Images at a time: their index arrays fit into the processor's cache."""


def clt(
    *,
    variant: str = "generated",
    on_missing: str = "error",
    train: int | None = None,
    test: int | None = None,
    size: int = 60,
    patches: int = 6,
    patch_size: int = 8,
    seed: int = 0,
    **options: Any,
) -> DataSet:
    """Cluttered MNIST, (60, 60, 1).

    Args:
        variant: ``"generated"`` from MNIST; ``"original"``: the file the paper used, which has to
            be found first; ``"small"``: a 40x40 set of 11 000 + 1000 images.
        on_missing: what to do without MNIST, see :func:`focusing.data.mnist`.
        train: number of training images to generate; None: one of each digit.
        test: number of test images; likewise.
        size: height and width of an image.
        patches: number of distractors.
        patch_size: their height and width.
        seed: of the generator.
        **options: see :class:`focusing.data.options.Options`.
    """
    wanted = Options(**options)
    if variant not in VARIANTS:
        raise UserError(f"data.variant={variant} is not one of {', '.join(VARIANTS)}.")
    recipe = {"size": size, "patches": patches, "patch_size": patch_size, "seed": seed}
    if variant != "generated":
        _refuse_idle(variant, {**recipe, "train": train, "test": test})
    if wanted.fake:
        side = 40 if variant == "small" else size
        return assemble("clt", fake((side, side, 1), 10), wanted)
    if variant != "generated":
        found = wanted.files(VARIANTS[variant])
        entry = decoded(f"clt-{variant}", {"files": found.hashes}, lambda: _read(found))
        return assemble("clt", _raw(entry, f"{variant}, {found.source}", top=1.0), wanted)
    for option, count in (("train", train), ("test", test)):
        if count is not None and count < 1:
            raise UserError(f"data.{option}={count} must be at least 1.")
    if size < 28 or not 1 <= patch_size <= 28 or patches < 0 or seed < 0:
        raise UserError(
            f"data: size={size} must be at least 28, patch_size={patch_size} between 1 and 28, "
            f"patches={patches} and seed={seed} at least 0."
        )
    digits = read_mnist(wanted, on_missing)
    cut = digits.official or 0
    counts = (train or cut, test or len(digits.targets) - cut)
    check_memory(
        sum(counts) * (size**2 + 40 * patches),
        f"data: {sum(counts)} images of {size}x{size} with {patches} patches",
    )

    def generate() -> dict[str, NDArray[Any]]:
        # Each part is made of its own digits alone, distractors too.
        sides = (slice(0, cut), slice(cut, None))
        made = [
            clutter(digits.inputs[side, ..., 0], count, size, patches, patch_size, [seed, number])
            for number, (side, count) in enumerate(zip(sides, counts, strict=True))
        ]
        labels = [digits.targets[side][which] for side, (_, which) in zip(sides, made, strict=True)]
        return {
            "inputs": np.concatenate([images for images, _ in made])[..., None],
            "targets": np.concatenate(labels),
            "train": np.array(counts[0]),
        }

    entry = decoded("clt", {"digits": digits.content, "counts": counts, **recipe}, generate)
    source = "generated" if digits.source == "official" else f"generated, {digits.source}"
    return assemble("clt", _raw(entry, source), wanted)


def _refuse_idle(variant: str, given: Mapping[str, int | None]) -> None:
    """A file is as it is: an option of the generator that changes nothing is a mistake."""
    for name, parameter in signature(clt).parameters.items():
        if name in given and given[name] != parameter.default:
            raise UserError(
                f"data.{name}={given[name]} is for data.variant=generated, not for {variant}."
            )


def clutter(
    digits: Images, count: int, size: int, patches: int, patch_size: int, seed: list[int]
) -> tuple[Images, NDArray[np.int64]]:
    """Cluttered images after google-deepmind/mnist-cluttered.

    Each has a digit at a random place and distractors at random places: random windows of random
    digits. Where they overlap they are added, up to white.

    Args:
        digits: (N, 28, 28); each is used equally often.
        count: number of images.
        size: their height and width.
        patches: number of distractors.
        patch_size: their height and width.
        seed: of all this.

    Returns:
        Images (count, size, size), and which digit each shows.
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
    for start in range(0, count, CHUNK):
        part = slice(start, start + CHUNK)
        canvas = np.zeros((len(which[part]), size, size), dtype=np.uint16)
        _add(canvas, digits[which[part]], places[part])
        for patch in range(patches):
            rows, columns = _square(windows[part, patch], patch_size)
            _add(
                canvas,
                digits[others[part, patch][:, None, None], rows, columns],
                spots[part, patch],
            )
        images[part] = np.minimum(canvas, 255)
    return images, which


def _square(corners: NDArray[np.int64], side: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows (n, side, 1) and columns (n, 1, side) of squares, by their upper left corners."""
    along = np.arange(side)
    return corners[:, :1, None] + along[:, None], corners[:, 1:, None] + along


def _add(canvas: NDArray[np.uint16], pieces: Images, corners: NDArray[np.int64]) -> None:
    rows, columns = _square(corners, pieces.shape[1])
    canvas[np.arange(len(canvas))[:, None, None], rows, columns] += pieces


def _read(found: Found) -> dict[str, NDArray[Any]]:
    """Training and validation images together train, as in the paper."""
    path = found.paths[0]
    with reading(path):
        return _images(path)


def _images(path: Path) -> dict[str, NDArray[Any]]:
    arrays = {name.lower(): values for name, values in load_npz(path).items()}
    missing = {f"{axis}_{part}" for axis in "xy" for part in ("train", "valid", "test")} - set(
        arrays
    )
    if missing:
        raise DamagedError(path, f"it has no {min(missing)}")
    inputs = np.concatenate([arrays[f"x_{part}"] for part in ("train", "valid", "test")])
    labels = np.concatenate([arrays[f"y_{part}"] for part in ("train", "valid", "test")])
    side = round(np.sqrt(inputs[0].size))
    if side * side != inputs[0].size or len(inputs) != len(labels):
        raise DamagedError(path, f"its images and labels are {inputs.shape} and {labels.shape}")
    one_hot = labels.ndim == 2 and labels.shape[1] > 1
    targets = (labels.argmax(1) if one_hot else labels.reshape(-1)).astype(np.int64)
    if len(targets) != len(inputs) or targets.min() < 0 or targets.max() > 9:
        raise DamagedError(path, "its labels are not 0 to 9")
    return {
        "inputs": inputs.reshape(-1, side, side, 1).astype(np.float32),
        "targets": targets,
        "train": np.array(len(inputs) - len(arrays["x_test"])),
    }


def _raw(entry: Decoded, source: str, top: float = 255.0) -> Raw:
    arrays = entry.arrays
    official = int(arrays["train"])
    return Raw(arrays["inputs"], arrays["targets"], official, 10, source, entry.content, top)
