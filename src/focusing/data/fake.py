"""Random data in the shape of a real data set: every config runs anywhere, and learns nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focusing.data.assemble import Raw
from focusing.validation import check_memory

TRAIN, TEST = 384, 128


def fake(
    shape: tuple[int, ...],
    classes: int,
    *,
    top: float | None = 255.0,
    vocabulary: int = 0,
    official: bool = True,
    test_share: float | None = None,
) -> Raw:
    """A few hundred random samples.

    Args:
        shape: of a sample.
        classes: number of classes; 0 for regression.
        top: inputs lie between 0 and this; None: they are normally distributed.
        vocabulary: number of different tokens, which the inputs then are.
        official: whether there is an official split.
        test_share: of a random split, if the user does not say.
    """
    random = np.random.default_rng(0)
    size = (TRAIN + TEST, *shape)
    check_memory(math.prod(size), f"data: {size[0]} samples of {'x'.join(map(str, shape))}")
    if vocabulary:
        inputs: NDArray[Any] = random.integers(0, vocabulary, size, dtype=np.int32)
    elif top is None:
        inputs = random.normal(size=size).astype(np.float32)
    elif top == 255:
        inputs = random.integers(0, 256, size, dtype=np.uint8)
    else:
        inputs = (top * random.random(size)).astype(np.float32)
    # Every class is in both parts.
    labels = [random.permutation(np.arange(count) % max(classes, 1)) for count in (TRAIN, TEST)]
    targets = np.concatenate(labels) if classes else random.random(len(inputs))
    return Raw(
        inputs,
        targets,
        TRAIN if official else None,
        classes,
        source="fake",
        content=f"fake {shape} {classes} {top} {vocabulary}",
        top=top,
        vocabulary=vocabulary,
        test_share=test_share,
    )
