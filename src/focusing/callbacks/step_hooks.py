"""Listen to optimizer steps, and leave no trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
from torch.utils.hooks import RemovableHandle

from focusing.callbacks.layers import optimizers


class StepHooks(pl.Callback):
    """A callback that is called after each optimizer step, for as long as a fit takes."""

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []

    def after_each_step(self, trainer: pl.Trainer, hook: Callable[..., Any]) -> None:
        """Call ``hook`` from now on; replaces an earlier one."""
        self._remove()
        self._handles = [each.register_step_post_hook(hook) for each in optimizers(trainer)]

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
