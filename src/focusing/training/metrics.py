"""Loss and metrics of classification and regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

MAX_MATRIX_CLASSES = 100
"""The record holds no confusion matrix of more classes than this."""


def loss_of(output: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy if the targets are class numbers, mean squared error if they are floats.

    A network for two classes may have a single output: the logit of the second class.
    """
    if targets.is_floating_point():
        return functional.mse_loss(output.squeeze(-1), targets)
    if output.shape[-1] == 1:
        logits = output.squeeze(-1)
        return functional.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))
    return functional.cross_entropy(output, targets)


def predicted(output: Tensor) -> Tensor:
    """Predicted classes (N,) from outputs (N, classes), or (N, 1) for two classes."""
    return (output[:, 0] > 0).long() if output.shape[1] == 1 else output.argmax(1)


@torch.no_grad()
def score(outputs: Sequence[Tensor], targets: Sequence[Tensor]) -> dict[str, float]:
    """Loss and metrics over all batches of an epoch.

    Accuracy is not computed by torchmetrics, which rounds it to float32: published records hold
    the exact quotient.
    """
    output, target = torch.cat(list(outputs)).float(), torch.cat(list(targets))
    loss = loss_of(output, target).item()
    if target.is_floating_point():
        error = output.squeeze(-1) - target
        return {"loss": loss, "mae": error.abs().mean().item(), "mse": loss}
    correct = (predicted(output) == target).sum().item()
    return {"loss": loss, "acc": correct / len(target)}


@torch.no_grad()
def detailed_metrics(outputs: Sequence[Tensor], targets: Sequence[Tensor]) -> dict[str, Any]:
    """Metrics of the test data for the record, computed by torchmetrics at the end of a run.

    Returns:
        For classification ``accuracy``, ``macro_f1``, ``calibration_error`` (expected, 15 bins)
        and, for at most 100 classes, ``confusion_matrix`` (rows: true classes). For regression
        ``mae``, ``mse`` and ``r2``. None stands for a value that is not finite or not defined.
    """
    output, target = torch.cat(list(outputs)).float().cpu(), torch.cat(list(targets)).cpu()
    if target.is_floating_point():
        return _regression_metrics(output.squeeze(-1), target)
    from torchmetrics.functional import classification as metrics

    if output.shape[1] == 1:  # two classes, one logit
        output = torch.cat([torch.zeros_like(output), output], dim=1)
    probabilities, classes = output.softmax(1), output.shape[1]
    values = {
        "accuracy": metrics.multiclass_accuracy(probabilities, target, classes, average="micro"),
        "macro_f1": metrics.multiclass_f1_score(probabilities, target, classes, average="macro"),
        "calibration_error": metrics.multiclass_calibration_error(probabilities, target, classes),
    }
    plain: dict[str, Any] = {name: _finite_or_none(value) for name, value in values.items()}
    if classes <= MAX_MATRIX_CLASSES:
        matrix = metrics.multiclass_confusion_matrix(probabilities, target, classes)
        plain["confusion_matrix"] = matrix.tolist()
    return plain


def _regression_metrics(output: Tensor, target: Tensor) -> dict[str, Any]:
    from torchmetrics.functional import regression as metrics

    varies = len(target) > 1 and bool((target != target[0]).any())
    return {
        "mae": _finite_or_none(metrics.mean_absolute_error(output, target)),
        "mse": _finite_or_none(metrics.mean_squared_error(output, target)),
        "r2": _finite_or_none(metrics.r2_score(output, target)) if varies else None,
    }


def _finite_or_none(value: Tensor) -> float | None:
    number = value.item()
    return number if math.isfinite(number) else None
