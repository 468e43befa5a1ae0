"""Keep the foci on the inputs."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl

from focusing.nn import FocusConstraint


class ClipFoci(pl.Callback):
    """Calls ``constrain_()`` of every focused layer after each optimizer step (Algorithm 1).

    It uses step hooks of the torch optimizers, which fire once per step: not per micro-batch under
    gradient accumulation, and also when a module steps by hand. Lightning has no such hook.
    """

    def __init__(self) -> None:
        self._constraints: list[FocusConstraint] = []

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Hook the optimizers."""
        self._remove()
        self._constraints = [FocusConstraint(pl_module, one) for one in trainer.optimizers]

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Leave the optimizers as they were."""
        self._remove()

    def on_exception(self, trainer: pl.Trainer, *details: Any) -> None:
        """Leave the optimizers as they were."""
        self._remove()

    def _remove(self) -> None:
        while self._constraints:
            self._constraints.pop().remove()
