"""CIFAR-10: pickled batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focusing.data.damage import DamagedError, reading
from focusing.data.pickles import load_pickle

TRAINING = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = "test_batch"


def read_cifar(folder: Path) -> dict[str, NDArray[Any]]:
    """Images (N, 32, 32, 3) and labels, the training ones first.

    Raises:
        DamagedError: if a batch is missing, cut off, or holds more than data.
    """
    batches = [_read_batch(folder / name) for name in (*TRAINING, TEST)]
    return {
        "inputs": np.concatenate([images for images, _ in batches]),
        "targets": np.concatenate([labels for _, labels in batches]),
        "train": np.array(sum(len(labels) for _, labels in batches[:-1])),
    }


def _read_batch(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    with reading(path), path.open("rb") as file:
        batch = load_pickle(file)
        images, labels = batch["data"], np.asarray(batch["labels"], dtype=np.int64)
        if images.dtype != np.uint8 or images.shape != (len(labels), 3072):
            raise DamagedError(path, f"its images are {images.dtype} {images.shape}")
        if labels.min() < 0 or labels.max() > 9:
            raise DamagedError(path, "its labels are not 0 to 9")
    # The colours of a pixel side by side, as the author's flatten has them.
    return np.ascontiguousarray(images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels
