"""Keep the foci on the inputs."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
from torch.utils.hooks import RemovableHandle

from focusing.callbacks.layers import focused_layers, optimizers


class ClipFoci(pl.Callback):
    """Calls ``constrain_()`` of every focused layer after each optimizer step (Algorithm 1).

    Holds under gradient accumulation (no clipping between micro-batches, only after the step),
    with manual optimization and with several optimizers.
    """

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Hook the optimizers; the layers are looked up once."""
        layers = list(focused_layers(pl_module).values())

        def clip(*_: Any) -> None:
            for layer in layers:
                layer.constrain_()

        self._remove()
        if layers:
            self._handles = [
                optimizer.register_step_post_hook(clip) for optimizer in optimizers(trainer)
            ]

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Leave the optimizers as they were."""
        self._remove()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Leave the optimizers as they were."""
        self._remove()

    def _remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()
