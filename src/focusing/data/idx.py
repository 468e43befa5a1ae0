"""MNIST and Fashion-MNIST: the idx format."""

from __future__ import annotations

import gzip
import math
from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focusing.data.damage import DamagedError, reading
from focusing.errors import UserError

BYTES = 8
"""The idx code of unsigned bytes."""


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array in an idx file of unsigned bytes, gzipped or not.

    Raises:
        DamagedError: if the file is not exactly as long as its header says.
    """
    with reading(path):
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != BYTES or not content[3]:
        raise DamagedError(path, "it is no idx file of bytes")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise DamagedError(path, "its header is cut off")
    shape = tuple(np.frombuffer(content, ">u4", content[3], 4).tolist())
    if len(content) - start != math.prod(shape):
        raise DamagedError(path, f"{len(content) - start} bytes instead of {math.prod(shape)}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_digits(
    paths: tuple[Path, ...], published: Container[Path] = ()
) -> dict[str, NDArray[Any]]:
    """Images (N, H, W, 1) and labels of the four files, the training ones first.

    Args:
        paths: training images and labels, test images and labels.
        published: those that are known to be right.
    """
    images, labels = [], []
    for image_path, label_path in (paths[:2], paths[2:]):
        image, label = read_idx(image_path), read_idx(label_path)
        if image.ndim != 3 or label.ndim != 1:
            raise DamagedError(image_path if image.ndim != 3 else label_path, "wrong shape")
        if len(image) != len(label):
            message = f"{len(label)} labels for {len(image)} images"
            suspects = [path for path in (image_path, label_path) if path not in published]
            if len(suspects) == 1:
                raise DamagedError(suspects[0], message)
            raise UserError(  # neither is put aside: one of them is in order
                f"{image_path.name} and {label_path.name} in {image_path.parent} do not belong "
                f"together ({message}): put good copies there."
            )
        if len(label) and label.max() > 9:
            raise DamagedError(label_path, f"it has a class {label.max()}")
        images.append(image[..., None])
        labels.append(label.astype(np.int64))
    if images[0].shape[1:] != images[1].shape[1:]:
        raise DamagedError(paths[2], "its images are of another size")
    return {
        "inputs": np.concatenate(images),
        "targets": np.concatenate(labels),
        "train": np.array(len(labels[0])),
    }
