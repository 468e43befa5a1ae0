"""A progress bar in a terminal, or lines in the log of a cluster job."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

LOG_INTERVAL = "FOCUSING_LOG_EPOCHS"
"""Environment variable: seconds between two lines, if the output is a log."""


class Progress(pl.Callback):
    """A rich progress bar over epochs with loss, accuracy and mean sigma.

    The training loop draws it, at most every ``interval`` seconds: a refreshing thread would take a
    tenth of the time of a small network. Use ``Trainer(enable_progress_bar=False)`` with it, which
    turns off Lightning's own bar.

    Args:
        enabled: ``"auto"`` shows it only in a terminal, and neither in CI nor in a Hydra multirun;
            cluster jobs print lines instead.
        interval: seconds between two refreshes.
        console: where to draw; the terminal by default.
    """

    def __init__(
        self,
        enabled: Literal["auto", True, False] = "auto",
        interval: float = 0.2,
        console: Console | None = None,
    ) -> None:
        self.enabled, self.interval = enabled, interval
        self._console = console
        self._bar: Bar | None = None
        self._next = self._log_seconds = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Show the bar if it is enabled."""
        if self.enabled == "auto" and (seconds := os.environ.get(LOG_INTERVAL)):
            self._log_seconds = float(seconds)
            self._next = time.monotonic() + self._log_seconds
            return
        console, enabled = self._console or Console(), self.enabled
        if enabled == "auto":
            enabled = console.is_terminal and not os.environ.get("CI") and not _in_multirun()
        if not enabled or not trainer.is_global_zero:
            return
        self._bar = Bar(
            TextColumn("[bold]epoch"),
            MofNCompleteColumn(),
            BarColumn(bar_width=None),
            TimeRemainingColumn(),
            TextColumn("{task.fields[metrics]}"),
            console=console,
            auto_refresh=False,
            expand=True,
        )
        done, total = trainer.current_epoch, trainer.max_epochs
        self._bar.add_task("fit", total=total, completed=done, metrics="")
        self._bar.start()
        self._bar.refresh()

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Move the bar within long epochs, or print a line."""
        if self._log_seconds and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._log_seconds
            self._log(trainer, trainer.current_epoch + 1)
        if self._bar is not None and time.monotonic() >= self._next:
            share = (batch_idx + 1) / max(1, trainer.num_training_batches)
            self._draw(trainer, trainer.current_epoch + min(1.0, share))

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Draw the final state and leave it on the screen."""
        if self._bar is not None:
            self._draw(trainer, trainer.current_epoch)
        if self._log_seconds:
            self._log(trainer, trainer.current_epoch)
        self._stop()

    def on_exception(self, trainer: pl.Trainer, *details: Any) -> None:
        """Stop drawing."""
        self._stop()

    def _draw(self, trainer: pl.Trainer, completed: float) -> None:
        assert self._bar is not None  # noqa: S101 - for the type checker
        self._next = time.monotonic() + self.interval
        text = describe(trainer.callback_metrics)
        self._bar.update(self._bar.task_ids[0], completed=completed, metrics=text)
        self._bar.refresh()

    def _log(self, trainer: pl.Trainer, epoch: int) -> None:
        run = "/".join(Path(trainer.default_root_dir).parts[-3:])
        metrics = describe(trainer.callback_metrics)
        print(f"{run}  epoch {epoch}/{trainer.max_epochs}  {metrics}", flush=True)

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def describe(metrics: Mapping[str, Any]) -> str:
    """Loss, score and mean sigma of the last epoch, in a few words.

    The score is that of the validation data if there is any, else of the test data.
    """
    words = []
    if "train/loss" in metrics:
        words.append(f"loss {float(metrics['train/loss']):.4f}")
    for name in ("acc", "mae", "mse"):
        split = next((s for s in ("val", "test", "train") if f"{s}/{name}" in metrics), None)
        if split:
            value = float(metrics[f"{split}/{name}"])
            shown = f"{100 * value:.2f} %" if name == "acc" else f"{value:.4f}"
            words.append(f"{split} {name} {shown}")
            break
    if "focus/sigma_mean" in metrics:
        words.append(f"sigma {float(metrics['focus/sigma_mean']):.3f}")
    return "  ".join(words)


def _in_multirun() -> bool:
    # Do not import Hydra only to find out that it is not in use.
    module = sys.modules.get("hydra.core.hydra_config")
    if module is None or not module.HydraConfig.initialized():
        return False
    mode = module.HydraConfig.get().mode
    return mode is not None and mode.name == "MULTIRUN"
