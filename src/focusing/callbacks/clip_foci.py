"""Keep the foci on the inputs."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl

from focusing.callbacks.layers import focused_layers
from focusing.callbacks.step_hooks import StepHooks


class ClipFoci(StepHooks):
    """Calls ``constrain_()`` of every focused layer after each optimizer step (Algorithm 1).

    Holds under gradient accumulation (no clipping between micro-batches, only after the step),
    with manual optimization and with several optimizers.
    """

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Hook the optimizers; the layers are looked up once."""
        layers = list(focused_layers(pl_module).values())

        def clip(*_: Any) -> None:
            for layer in layers:
                layer.constrain_()

        if layers:
            self.after_each_step(trainer, clip)
