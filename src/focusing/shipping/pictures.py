"""Image files as raw samples; what would be misread is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from focusing.data.decoders import DamagedError
from focusing.data.image_sets import open_image
from focusing.errors import UserError

PLAIN = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")
"""Modes with values from 0 to 255, or with two."""
PHOTOGRAPHS = ("MPO",)
"""Formats of cameras, whose first frame is the picture."""


def read_image(path: Path, channels: int) -> Image.Image:
    """A grey (one channel) or colour image of one byte per value."""
    try:
        with open_image(path) as file:
            frames = getattr(file, "n_frames", 1)
            if frames > 1 and file.format not in PHOTOGRAPHS:
                raise UserError(f"{path} has {frames} frames: use an image with one.")
            file.load()
            plain = _plain(path, file)
            return plain.convert("L" if channels == 1 else "RGB")
    except DamagedError as error:
        raise UserError(f"{path} cannot be read as an image: {error.reason}.") from None


def _plain(path: Path, image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):
        values: NDArray[Any] = np.asarray(image) / 257  # 65535 becomes 255
        return Image.fromarray(values.round().astype(np.uint8))
    if image.mode not in PLAIN:
        raise UserError(
            f"{path} has pixels of the kind {image.mode}, whose range is not known: save it as a "
            "grey or colour image of 8 or 16 bits."
        )
    if image.has_transparency_data:
        opaque = image.convert("RGBA")
        least = opaque.getchannel("A").getextrema()[0]
        if least != 255:
            raise UserError(f"{path} is transparent in places: put it on a background first.")
        return opaque.convert("RGB")
    return image
