"""Hold out a part of the training data."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from focusing.data.dataset import Split
from focusing.data.partition import choose
from focusing.errors import UserError


def hold_out(train: Split, share: float, seed: int, classes: int) -> tuple[Split, Split]:
    """Split training data in two; the test data is never seen here.

    Args:
        train: the training data.
        share: of it that is held out, between 0 and 1.
        seed: of the choice.
        classes: number of classes, each of which is split by the share; 0: regression, split by
            samples.

    Returns:
        What is left to train on, and what is held out; both in their former order.
    """
    held = held_out(train.targets.cpu().numpy(), share, seed, classes)
    mask = torch.from_numpy(held).to(train.targets.device)
    return train.take(~mask), train.take(mask)


def held_out(targets: NDArray[Any], share: float, seed: int, classes: int) -> NDArray[np.bool_]:
    """Which training samples :func:`hold_out` holds out."""
    if not 0 < share < 1:
        raise UserError(f"protocol.holdout={share} must lie between 0 and 1.")
    held = np.zeros(len(targets), dtype=bool)
    held[choose(targets, classes, round(share * len(targets)), seed)] = True
    if not 0 < held.sum() < len(held):
        raise UserError(
            f"protocol.holdout={share} leaves nothing of {len(held)} training samples on one side."
        )
    return held
