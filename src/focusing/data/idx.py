"""MNIST and Fashion-MNIST: the idx format."""

from __future__ import annotations

import gzip
import math
from collections.abc import Container
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from focusing.data.damage import DamagedError, check_declared, reading
from focusing.errors import UserError

BYTES = 8
"""The idx code of unsigned bytes."""


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array in an idx file of unsigned bytes, gzipped or not.

    Raises:
        DamagedError: if the file is not exactly as long as its header says.
    """
    with reading(path), _open(path) as file:
        head = file.read(4)
        if len(head) < 4 or head[:2] != b"\0\0" or head[2] != BYTES or not head[3]:
            raise DamagedError(path, "it is no idx file of bytes")
        sizes = file.read(4 * head[3])
        if len(sizes) < 4 * head[3]:
            raise DamagedError(path, "its header is cut off")
        shape = tuple(np.frombuffer(sizes, ">u4").tolist())
        expected = math.prod(shape)
        check_declared(path, expected)
        content = file.read(expected + 1)  # one more would be too long; not all that may follow
        if len(content) != expected:
            more = "more" if len(content) > expected else len(content)
            raise DamagedError(path, f"{more} bytes instead of {expected}")
        return np.frombuffer(content, np.uint8).reshape(shape)


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


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
