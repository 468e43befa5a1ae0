"""Files that people have, as raw samples for a network."""

from __future__ import annotations

import math
import wave
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focusing.data.audio import RATE, read_picture
from focusing.data.damage import DamagedError
from focusing.data.images import INTERPOLATIONS
from focusing.data.pickles import load_npy, load_npz, npz_names
from focusing.errors import UserError
from focusing.shipping.card import Card
from focusing.shipping.pictures import read_image
from focusing.shipping.rows import read_rows
from focusing.validation import check_regular

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
Samples = NDArray[Any]


def read_samples(path: Path, card: Card) -> Samples:
    """The samples (N, *shape) of a file.

    Args:
        path: an image, a recording (wav), a table (csv: a row per sample) or arrays (npz, npy).
        card: of the network that they are for.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist.")
    check_regular(path)
    suffix = path.suffix.lower()
    if suffix in IMAGES:
        samples = _image(path, card)
    elif suffix == ".wav":
        samples = _recording(path, card)
    elif suffix == ".csv":
        samples = _fitted(path, read_rows(path), card)
    elif suffix in (".npz", ".npy"):
        samples = _fitted(path, _array(path), card)
    else:
        raise UserError(f"{path} is not an image, wav, csv, npz or npy file.")
    if not np.isfinite(samples).all():
        raise UserError(f"{path} has values that are not numbers.")
    _check_range(path, samples, card)
    if card.vocabulary and not (
        (samples >= 0).all() and (samples < card.vocabulary).all() and (samples % 1 == 0).all()
    ):
        raise UserError(f"{path}: words are numbers from 0 to {card.vocabulary - 1}.")
    return samples


def _sees_images(card: Card) -> bool:
    return len(card.shape) == 3 and card.shape[2] in (1, 3) and "frames" not in card.reading


def _check_range(path: Path, samples: Samples, card: Card) -> None:
    """Pixels from 0 to 1 where 255 is white, or the other way round, would all look alike."""
    if not _sees_images(card):
        return
    most = samples.max()
    if most > 1.01 * card.top or (samples.dtype.kind == "f" and 0 < most <= 1 < card.top):
        raise UserError(
            f"{path} has values up to {most:g}: pixels of this network go from 0 to {card.top:g}."
        )


def _image(path: Path, card: Card) -> Samples:
    if not _sees_images(card):
        raise UserError(f"{path} is an image: this network wants {wanted(card)}.")
    height, width, channels = card.shape
    image = read_image(path, channels)
    if image.size != (width, height):
        resizing = card.reading.get("interpolation")
        if resizing is None:
            raise UserError(
                f"{path} has {image.height}x{image.width} pixels: this network wants "
                f"{height}x{width}."
            )
        image = image.resize((width, height), INTERPOLATIONS[resizing])
    values: Samples = np.asarray(image).reshape(1, height, width, channels)
    return values if card.top == 255 else values * (card.top / 255)


def _recording(path: Path, card: Card) -> Samples:
    if "frames" not in card.reading:
        raise UserError(f"{path} is a recording: this network wants {wanted(card)}.")
    with suppress(wave.Error, EOFError), wave.open(str(path)) as file:
        form = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
        if form != (1, 16, RATE):
            raise UserError(
                f"{path} has {form[0]} channel{'s' if form[0] > 1 else ''} of {form[1]} bits at "
                f"{form[2]} Hz: this network wants one of 16 bits at {RATE} Hz."
            )
    return read_picture(path, **card.reading)[None, ..., None]


def _array(path: Path) -> Samples:
    """The array ``inputs``, or the only one."""
    try:
        if not zipfile.is_zipfile(path):
            array = load_npy(path)
        else:
            names = npz_names(path)
            if "inputs" not in names and len(names) > 1:
                raise UserError(f"{path} has arrays {', '.join(names)}: one must be called inputs.")
            name = "inputs" if "inputs" in names else "".join(names)
            array = load_npz(path, [name])[name]
        if array.dtype == object:
            raise DamagedError(path, "it holds lists, not numbers")
        return array
    except DamagedError as error:
        raise UserError(f"{path} cannot be read as arrays of numbers: {error.reason}.") from None


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
