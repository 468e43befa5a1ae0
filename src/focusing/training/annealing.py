"""Sigma from wide to narrow: first look around, then focus."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from focusing.nn import FocusedLinear


@torch.no_grad()
def anneal_sigma(layers: Iterable[FocusedLinear], start: float, epochs: int, epoch: int) -> None:
    """Widen sigma before the first epoch, and take the widening back over the next ones.

    Before epoch 0 every sigma is multiplied by ``start``, before each of epochs 1 to ``epochs``
    by ``start ** (-1 / epochs)``: all of it together is a factor of 1. In between sigma learns as
    usual, or not at all. Sigma never leaves its range, so that a start beyond it ends narrower.
    """
    if epochs < 1 or epoch > epochs:
        return
    factor = start if epoch == 0 else start ** (-1 / epochs)
    for layer in layers:
        layer.sigma.mul_(factor)
        layer.constrain_()
