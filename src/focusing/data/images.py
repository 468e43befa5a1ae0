"""``data=lfw`` and ``data=catsdogs``: folders of photographs."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from focusing.data.assemble import Raw, assemble
from focusing.data.cache import Decoded, decoded
from focusing.data.damage import DamagedError, reading
from focusing.data.dataset import DataSet
from focusing.data.fake import fake
from focusing.data.options import Options
from focusing.data.sources import Found, tree_hash
from focusing.errors import UserError
from focusing.validation import check_memory

Picture = NDArray[Any]
FACE = (78, 70, 172, 195)
"""Left, top, right and bottom of what scikit-learn cuts out of a photograph of 250x250."""
FACE_SIZE = (37, 50)
"""Width and height: scikit-learn's resize=0.4."""
INTERPOLATIONS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
FACES_TEST, PETS_TEST = 0.25, 0.24
"""Test shares of the author's: 756 of 3023, 6000 of 25 000."""
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Of images; Pillow would hand others to programs that it finds."""
warnings.simplefilter("error", Image.DecompressionBombWarning)  # between its limit and twice that
EMPTY = ("Cat/666.jpg", "Dog/11702.jpg")
"""Two files of Microsoft's archive that have no content."""


@contextmanager
def open_image(path: Path) -> Iterator[Image.Image]:
    """An image file, if it is of a common format and not far larger than images are."""
    with reading(path):
        try:
            with Image.open(path, formats=FORMATS) as image:
                yield image
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            most = f"{Image.MAX_IMAGE_PIXELS:,}".replace(",", " ")
            raise DamagedError(path, f"it has more than {most} pixels") from None


def lfw(*, min_faces: int = 20, stretch: bool = False, **options: Any) -> DataSet:
    """Labeled Faces in the Wild: people with many photographs, grey, (50, 37, 1).

    Args:
        min_faces: photographs of a person needed; 20 gives 3023 of 62 people.
        stretch: give each photograph all of 0 to 255, as scikit-learn did until 2020.
        **options: see :class:`focusing.data.options.Options`. There is no official split.
    """
    wanted = Options(**options)
    if min_faces < 1:
        raise UserError(f"data.min_faces={min_faces} must be at least 1.")
    if wanted.fake:
        return assemble("lfw", fake((50, 37, 1), 62, official=False, test_share=FACES_TEST), wanted)
    found = wanted.files("lfw")
    people = _people(found.paths[0], min_faces)
    if len(people) < 2:
        raise UserError(f"data.min_faces={min_faces} leaves {len(people)} people.")
    names = [name for each in people for name in each]
    labels = np.repeat(np.arange(len(people)), [len(each) for each in people])
    origin = {"stretch": stretch, "size": FACE_SIZE}
    entry = _decoded("lfw", found, names, labels, origin, lambda path: _face(path, stretch))
    inputs, targets = entry.arrays["inputs"], entry.arrays["targets"]
    classes = len(people)
    raw = Raw(inputs, targets, None, classes, found.source, entry.content, test_share=FACES_TEST)
    who = [each[0].partition("/")[0] for each in people]
    return assemble("lfw", raw, wanted, labels=who)


def catsdogs(*, size: int = 125, interpolation: str = "nearest", **options: Any) -> DataSet:
    """Cats & Dogs: 25 000 photographs, (125, 125, 3); cats are class 0.

    Args:
        size: height and width of an image.
        interpolation: ``"nearest"`` as Keras' generators, ``"bilinear"`` or ``"bicubic"``.
        **options: see :class:`focusing.data.options.Options`. There is no official split.
    """
    wanted = Options(**options)
    if interpolation not in INTERPOLATIONS or size < 1:
        allowed = ", ".join(INTERPOLATIONS)
        raise UserError(
            f"data: interpolation={interpolation} must be one of {allowed}, size={size} at least 1."
        )
    if wanted.fake:
        raw = fake((size, size, 3), 2, official=False, test_share=PETS_TEST)
        return assemble("catsdogs", raw, wanted)
    found = wanted.files("catsdogs")
    names = [each for each in _pictures(found.paths[0]) if each not in EMPTY]
    kinds = [re.match(r"(cat|dog)[./]", name, re.IGNORECASE) for name in names]
    names = [name for name, kind in zip(names, kinds, strict=True) if kind]
    labels = np.array([kind[1].lower() == "dog" for kind in kinds if kind], dtype=np.int64)
    for number, kind in enumerate(("cats", "dogs")):
        if number not in labels:
            raise UserError(f"data=catsdogs: {found.paths[0]} holds no pictures of {kind}.")
    check_memory(3 * len(names) * size**2, f"data.size={size}")
    origin = {"size": size, "interpolation": interpolation}

    def read(path: Path) -> Picture:
        with open_image(path) as image:
            colours = image.convert("RGB").resize((size, size), INTERPOLATIONS[interpolation])
            return np.asarray(colours)

    entry = _decoded("catsdogs", found, names, labels, origin, read)
    inputs, targets = entry.arrays["inputs"], entry.arrays["targets"]
    raw = Raw(inputs, targets, None, 2, found.source, entry.content, test_share=PETS_TEST)
    return assemble("catsdogs", raw, wanted, labels=("cat", "dog"))


def _decoded(
    name: str,
    found: Found,
    names: Sequence[str],
    labels: NDArray[np.int64],
    origin: dict[str, Any],
    read: Callable[[Path], Picture],
) -> Decoded:
    folder = found.paths[0]

    def build() -> dict[str, NDArray[Any]]:
        first = read(folder / names[0])
        inputs = np.empty((len(names), *first.shape), dtype=first.dtype)

        def fill(place: int) -> None:
            inputs[place] = read(folder / names[place])

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoders let go of the lock
            list(pool.map(fill, range(len(names))))
        return {"inputs": inputs, "targets": labels}

    return decoded(name, {"files": tree_hash(folder, names), **origin}, build)


def _pictures(folder: Path) -> list[str]:
    """All pictures below a folder; refuses one from which a damaged picture was put aside."""
    aside = next(folder.rglob("*.corrupt"), None)
    if aside is not None:
        raise UserError(f"{aside} was damaged: put a good copy in its place, and remove it.")
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg"))


def _people(folder: Path, least: int) -> list[list[str]]:
    """The photographs of each person who has enough of them, people in the order of their names."""
    people: dict[str, list[str]] = {}
    for name in _pictures(folder):
        people.setdefault(name.partition("/")[0], []).append(name)
    return [names for _, names in sorted(people.items()) if len(names) >= least]


def _face(path: Path, stretch: bool) -> Picture:
    with open_image(path) as photograph:
        face = photograph.convert("RGB").crop(FACE)
        if not stretch:
            pixels = np.asarray(face.resize(FACE_SIZE), dtype=np.float32)
        else:  # scipy.misc.imresize, which scikit-learn called
            values = np.asarray(face, dtype=np.float32)
            low, high = values.min(), values.max()
            values = (values - low) * (255 / max(high - low, 1)) + 0.5
            full = Image.fromarray(values.astype(np.uint8))
            pixels = np.asarray(full.resize(FACE_SIZE, Image.Resampling.BILINEAR), np.float32)
        grey: Picture = pixels.mean(axis=2, keepdims=True)
        return grey
