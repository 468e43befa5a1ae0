"""Files that people have, as raw samples for a network."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from focusing.data.audio import read_picture
from focusing.data.images import INTERPOLATIONS
from focusing.errors import UserError
from focusing.shipping.card import Card

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
Samples = NDArray[Any]


def read_samples(path: Path, card: Card) -> Samples:
    """The samples (N, *shape) of a file.

    Args:
        path: an image, a recording (wav), a table (csv: a row per sample) or arrays (npz, npy).
        card: of the network that they are for.
    """
    if not path.is_file():
        raise UserError(f"{path} does not exist.")
    suffix = path.suffix.lower()
    if suffix in IMAGES:
        samples = _image(path, card)
    elif suffix == ".wav":
        samples = _recording(path, card)
    elif suffix == ".csv":
        samples = _fitted(path, _table(path), card)
    elif suffix in (".npz", ".npy"):
        samples = _fitted(path, _array(path), card)
    else:
        raise UserError(f"{path} is not an image, wav, csv, npz or npy file.")
    if not np.isfinite(samples).all():
        raise UserError(f"{path} has values that are not numbers.")
    if card.vocabulary and not (
        (samples >= 0).all() and (samples < card.vocabulary).all() and (samples % 1 == 0).all()
    ):
        raise UserError(f"{path}: words are numbers from 0 to {card.vocabulary - 1}.")
    return samples


def _image(path: Path, card: Card) -> Samples:
    if len(card.shape) != 3 or card.shape[2] not in (1, 3) or "frames" in card.reading:
        raise UserError(f"{path} is an image: this network wants {wanted(card)}.")
    height, width, channels = card.shape
    try:
        with Image.open(path) as file:
            image = file.convert("L" if channels == 1 else "RGB")
    except (UnidentifiedImageError, OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as an image: {error}") from None
    if image.size != (width, height):
        resizing = card.reading.get("interpolation")
        if resizing is None:
            raise UserError(
                f"{path} has {image.height}x{image.width} pixels: this network wants "
                f"{height}x{width}."
            )
        image = image.resize((width, height), INTERPOLATIONS[resizing])
    return np.asarray(image).reshape(1, height, width, channels)


def _recording(path: Path, card: Card) -> Samples:
    if "frames" not in card.reading:
        raise UserError(f"{path} is a recording: this network wants {wanted(card)}.")
    return read_picture(path, **card.reading)[None, ..., None]


def _table(path: Path) -> Samples:
    """A row per sample; a first line of names is skipped."""
    text = path.read_text(errors="replace")
    first = text.partition("\n")[0].split(",")
    try:
        [float(cell) for cell in first]
        names = 0
    except ValueError:
        names = 1
    rows = [line for line in text.splitlines()[names:] if line.strip()]
    if not rows:
        raise UserError(f"{path} has no rows of numbers.")
    try:
        return np.array([[float(cell) for cell in row.split(",")] for row in rows])
    except ValueError as error:
        raise UserError(f"{path} is not a table of numbers: {error}.") from None


def _array(path: Path) -> Samples:
    """The array ``inputs``, or the only one."""
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return _numbers(found)
            name = "inputs" if "inputs" in found.files else found.files[0]
            if name != "inputs" and len(found.files) > 1:
                raise UserError(
                    f"{path} has arrays {', '.join(found.files)}: one must be called inputs."
                )
            return _numbers(found[name])
    except (ValueError, OSError, EOFError, IndexError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read as arrays of numbers: {error}") from None


def _numbers(array: Samples) -> Samples:
    if array.dtype.kind not in "biuf":
        raise ValueError(f"it holds {array.dtype}")
    return array


def _fitted(path: Path, values: Samples, card: Card) -> Samples:
    """One sample or many, flat or not, as (N, *shape)."""
    shape, inputs = tuple(card.shape), math.prod(card.shape)
    fits = (shape, shape[:-1] if shape[-1] == 1 else shape, (inputs,))
    for each in fits:
        if values.shape == each:
            return values.reshape(1, *shape)
        if values.ndim and values.shape[1:] == each and len(values):
            return values.reshape(-1, *shape)
    given = "x".join(map(str, values.shape)) or "a single number"
    raise UserError(f"{path} has shape {given}: this network wants {wanted(card)}.")


def wanted(card: Card) -> str:
    """What a network takes, in words."""
    shape = "x".join(map(str, card.shape))
    if card.vocabulary:
        return f"{shape} word numbers per sample"
    if "frames" in card.reading:
        return f"wav recordings, or samples of {shape}"
    if len(card.shape) == 3:
        colours = "grey" if card.shape[2] == 1 else "colour"
        return f"{colours} images of {card.shape[0]}x{card.shape[1]}, or samples of {shape}"
    return f"rows of {math.prod(card.shape)} numbers"
