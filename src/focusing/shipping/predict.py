"""``focusing predict``: predictions of a network for files, which are validated."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import wave
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import Tensor

from focusing.data.audio import RATE, read_mfcc
from focusing.data.decoders import DamagedError, load_npy, load_npz, npz_names
from focusing.data.image_sets import INTERPOLATIONS, open_image
from focusing.errors import UserError, printable
from focusing.shipping.card import Card, describe_network
from focusing.shipping.export import Forward, read_exported
from focusing.validation import check_regular, format_bytes, max_read

Samples = NDArray[Any]
BATCH_SIZE = 1024
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
BYTE_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")
"""Modes of images with 8 bits per channel, or one."""
CAMERA_FORMATS = ("MPO",)
"""Formats with several frames, of which the first is the picture."""
MAX_CELL = 30
"""Maximum characters of a table cell in an error message."""


def run(args: argparse.Namespace) -> None:
    """Print the predictions for all files."""
    forward, card = load_model(args.model, trust=args.trust)
    answers = [
        answer for path in args.inputs for answer in predict_file(forward, card, path, args.top)
    ]
    if args.json:
        print(json.dumps(answers, indent=1))
    else:
        Console(soft_wrap=True).print(_table(answers, bool(card.classes)))


def load_model(path: Path, *, trust: bool = False) -> tuple[Forward, Card]:
    """Load a network and its card from a run folder or an exported file."""
    if path.is_dir():
        from focusing.shipping.trained import load_run  # imports all training code

        trained = load_run(path)
        return trained.net.to_inference(), describe_network(trained, trained.net)
    return read_exported(path, trust=trust)


@torch.no_grad()
def predict_file(forward: Forward, card: Card, path: Path, top: int = 1) -> list[dict[str, Any]]:
    """Predict every sample of a file.

    Returns:
        For every sample a dict with ``input`` and either ``classes``, the ``top`` likeliest with
        their probabilities, or ``value``.
    """
    samples = read_samples(path, card)
    names = [str(path)] if len(samples) == 1 else [f"{path}[{n}]" for n in range(len(samples))]
    starts = range(0, len(samples), BATCH_SIZE)
    outputs = torch.cat([forward(card.prepare(samples[i : i + BATCH_SIZE])) for i in starts])
    if not outputs.isfinite().all():
        raise UserError(f"{path} has values that are too large: the output is not a number.")
    if not card.classes:
        values = outputs.flatten().tolist()
        return [{"input": name, "value": value} for name, value in zip(names, values, strict=True)]
    answers = []
    for name, row in zip(names, probabilities(outputs), strict=True):
        best = row.topk(min(top, len(row)))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        answers.append({"input": name, "classes": {card.classes[k]: p for k, p in pairs}})
    return answers


def probabilities(outputs: Tensor) -> Tensor:
    """Probabilities (N, classes); a single output is the logit of the second of two classes."""
    if outputs.shape[1] == 1:
        second = outputs.sigmoid()
        return torch.cat([1 - second, second], dim=1)
    return outputs.softmax(1)


def _table(answers: Sequence[dict[str, Any]], classes: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("input", overflow="fold")
    if classes:
        table.add_column("class")
    table.add_column("probability" if classes else "value", justify="right")
    for answer in answers:
        name = escape(printable(answer["input"]))
        if not classes:
            table.add_row(name, f"{answer['value']:.4g}")
        for label, probability in answer.get("classes", {}).items():
            table.add_row(name, escape(printable(label)), f"{100 * probability:.2f} %")
            name = ""
    return table


def read_samples(path: Path, card: Card) -> Samples:
    """Read the raw samples (N, *shape) of a file.

    Args:
        path: an image, a recording (wav), a table (csv, one row per sample) or arrays (npz, npy).
        card: card of the network.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist.")
    check_regular(path)
    suffix = path.suffix.lower()
    if suffix in IMAGES:
        samples = _read_image(path, card)
    elif suffix == ".wav":
        samples = _read_recording(path, card)
    elif suffix == ".csv":
        samples = _reshape(path, _read_table(path), card)
    elif suffix in (".npz", ".npy"):
        samples = _reshape(path, _read_array(path), card)
    else:
        raise UserError(f"{path} is not an image, wav, csv, npz or npy file.")
    if not np.isfinite(samples).all():
        raise UserError(f"{path} has values that are not numbers.")
    _check_range(path, samples, card)
    return samples


def _check_range(path: Path, samples: Samples, card: Card) -> None:
    if _takes_images(card):  # also catches pixels from 0 to 1 where 255 is white
        high = samples.max()
        if high > 1.01 * card.top or (samples.dtype.kind == "f" and 0 < high <= 1 < card.top):
            raise UserError(
                f"{path} has values up to {high:g}: pixels of this network go from 0 to "
                f"{card.top:g}."
            )
    if card.vocabulary and not (
        (samples >= 0).all() and (samples < card.vocabulary).all() and (samples % 1 == 0).all()
    ):
        raise UserError(f"{path}: words are numbers from 0 to {card.vocabulary - 1}.")


def _takes_images(card: Card) -> bool:
    return len(card.shape) == 3 and card.shape[2] in (1, 3) and "frames" not in card.reading


def _read_image(path: Path, card: Card) -> Samples:
    if not _takes_images(card):
        raise UserError(f"{path} is an image: this network wants {_expected_inputs(card)}.")
    height, width, channels = card.shape
    try:
        with open_image(path) as file:
            frames = getattr(file, "n_frames", 1)
            if frames > 1 and file.format not in CAMERA_FORMATS:
                raise UserError(f"{path} has {frames} frames: use an image with one.")
            file.load()
            image = _to_bytes(path, file).convert("L" if channels == 1 else "RGB")
    except DamagedError as error:
        raise UserError(f"{path} cannot be read as an image: {error.reason}.") from None
    if image.size != (width, height):
        interpolation = card.reading.get("interpolation")
        if interpolation is None:
            raise UserError(
                f"{path} has {image.height}x{image.width} pixels: this network wants "
                f"{height}x{width}."
            )
        image = image.resize((width, height), INTERPOLATIONS[str(interpolation)])
    values: Samples = np.asarray(image).reshape(1, height, width, channels)
    return values if card.top == 255 else values * (card.top / 255)


def _to_bytes(path: Path, image: Image.Image) -> Image.Image:
    """Convert an image to 8 bits per channel, without transparency."""
    if image.mode.startswith("I;16"):
        values: NDArray[Any] = np.asarray(image) / 257  # 65535 becomes 255
        return Image.fromarray(values.round().astype(np.uint8))
    if image.mode not in BYTE_MODES:
        raise UserError(
            f"{path} has pixels of mode {image.mode}, whose range is unknown: save it as a grey or "
            "colour image of 8 or 16 bits."
        )
    if image.has_transparency_data:
        image = image.convert("RGBA")
        if image.getchannel("A").getextrema()[0] != 255:
            raise UserError(f"{path} has transparent pixels: put it on a background first.")
        return image.convert("RGB")
    return image


def _read_recording(path: Path, card: Card) -> Samples:
    if "frames" not in card.reading:
        raise UserError(f"{path} is a recording: this network wants {_expected_inputs(card)}.")
    with suppress(wave.Error, EOFError), wave.open(str(path)) as file:
        channels, bits, rate = file.getnchannels(), 8 * file.getsampwidth(), file.getframerate()
        if (channels, bits, rate) != (1, 16, RATE):
            raise UserError(
                f"{path} has {channels} channel{'s' if channels > 1 else ''} of {bits} bits at "
                f"{rate} Hz: this network wants one of 16 bits at {RATE} Hz."
            )
    options: dict[str, Any] = {**card.reading}
    return read_mfcc(path, **options)[None, ..., None]


def _read_table(path: Path) -> NDArray[np.float64]:
    """Read a CSV file with one row per sample; a first row without numbers is a header."""
    if path.stat().st_size > max_read():
        raise UserError(f"{path} is too large: split it into files of {format_bytes(max_read())}.")
    text = path.read_text("utf-8-sig", errors="replace")
    if "\0" in text:  # as of UTF-16
        raise UserError(f"{path} is not UTF-8 text: save it as that.")
    try:
        reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
        lines = [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from None
    if lines and not any(map(_is_number, lines[0][1])):
        lines = lines[1:]
    if not lines:
        raise UserError(f"{path} has no rows of numbers{_other_separator(text)}.")
    columns = len(lines[0][1])
    for line, row in lines:
        if len(row) != columns:
            raise UserError(
                f"{path} is not a table of numbers: line {line} has {len(row)} columns, line "
                f"{lines[0][0]} has {columns}."
            )
        for column, cell in enumerate(row, 1):
            if not _is_number(cell):
                shown = cell if len(cell) <= MAX_CELL else f"{cell[:MAX_CELL]}..."
                raise UserError(
                    f"{path} is not a table of numbers: line {line}, column {column} is {shown!r}"
                    f"{_other_separator(cell)}."
                )
    return np.array([[float(cell) for cell in row] for _, row in lines])


def _other_separator(text: str) -> str:
    return "; commas separate columns" if ";" in text or "\t" in text else ""


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_array(path: Path) -> Samples:
    """Read the array ``inputs``, or the only one."""
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


def _reshape(path: Path, values: Samples, card: Card) -> Samples:
    """Reshape one or many samples, flat or not, to (N, *shape)."""
    shape = tuple(card.shape)
    without_channel = shape[:-1] if shape[-1] == 1 else shape
    for sample in (shape, without_channel, (math.prod(shape),)):
        if values.shape == sample:
            return values.reshape(1, *shape)
        if values.ndim and values.shape[1:] == sample and len(values):
            return values.reshape(-1, *shape)
    actual = "x".join(map(str, values.shape)) or "a single number"
    raise UserError(f"{path} has shape {actual}: this network wants {_expected_inputs(card)}.")


def _expected_inputs(card: Card) -> str:
    shape = "x".join(map(str, card.shape))
    if card.vocabulary:
        return f"{shape} word numbers per sample"
    if "frames" in card.reading:
        return f"wav recordings, or samples of {shape}"
    if len(card.shape) == 3:
        colours = "grey" if card.shape[2] == 1 else "colour"
        return f"{colours} images of {card.shape[0]}x{card.shape[1]}, or samples of {shape}"
    return f"rows of {shape} numbers"
