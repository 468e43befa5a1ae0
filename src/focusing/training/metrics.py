"""Losses and scores of classification and regression."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def loss_of(output: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy for class numbers, mean squared error for values.

    Two classes may have one output between them, the logit of the second.
    """
    if targets.is_floating_point():
        return functional.mse_loss(output.squeeze(-1), targets)
    if output.shape[-1] == 1:
        logits = output.squeeze(-1)
        return functional.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))
    return functional.cross_entropy(output, targets)


def predicted(output: Tensor) -> Tensor:
    """Class numbers (N,) that outputs (N, classes), or (N, 1) for two classes, speak for."""
    return (output[:, 0] > 0).long() if output.shape[1] == 1 else output.argmax(1)


@torch.no_grad()
def score(outputs: list[Tensor], targets: list[Tensor]) -> dict[str, float]:
    """Loss and scores over all batches of an epoch."""
    output, target = torch.cat(outputs).float(), torch.cat(targets)
    loss = loss_of(output, target).item()
    if target.is_floating_point():
        error = output.squeeze(-1) - target
        return {"loss": loss, "mae": error.abs().mean().item(), "mse": loss}
    right = (predicted(output) == target).sum().item()
    return {"loss": loss, "acc": right / len(target)}
