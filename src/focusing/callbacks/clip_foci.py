"""Clip mu and sigma to their ranges after each optimizer step."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl

from focusing.nn import FocusConstraint


class ClipFoci(pl.Callback):
    """Calls ``constrain_()`` of all focused layers after each optimizer step (Algorithm 1).

    It uses step hooks of the torch optimizers. They fire once per step, also under gradient
    accumulation and manual optimization; Lightning has no such hook.
    """

    def __init__(self) -> None:
        self._constraints: list[FocusConstraint] = []

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Register the step hooks."""
        self._remove()
        optimizers = trainer.optimizers
        self._constraints = [FocusConstraint(pl_module, optimizer) for optimizer in optimizers]

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Remove the step hooks."""
        self._remove()

    def on_exception(self, trainer: pl.Trainer, *details: Any) -> None:
        """Remove the step hooks."""
        self._remove()

    def _remove(self) -> None:
        while self._constraints:
            self._constraints.pop().remove()
