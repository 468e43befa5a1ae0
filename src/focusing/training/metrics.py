"""Losses and scores of classification and regression."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def loss_of(output: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy for class numbers, mean squared error for values."""
    if targets.is_floating_point():
        return functional.mse_loss(output.squeeze(-1), targets)
    return functional.cross_entropy(output, targets)


@torch.no_grad()
def score(outputs: list[Tensor], targets: list[Tensor]) -> dict[str, float]:
    """Loss and scores over all batches of an epoch."""
    output, target = torch.cat(outputs).float(), torch.cat(targets)
    loss = loss_of(output, target).item()
    if target.is_floating_point():
        error = output.squeeze(-1) - target
        return {"loss": loss, "mae": error.abs().mean().item(), "mse": loss}
    right = (output.argmax(1) == target).sum().item()
    return {"loss": loss, "acc": right / len(target)}
