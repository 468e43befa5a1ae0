"""Training speed and peak memory of a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch

from focusing.clock import running_seconds


class Throughput(pl.Callback):
    """Measures optimizer steps per second and peak memory over all sessions of a run.

    Only the time of training batches counts, not validation, metrics and checkpoints. The record
    gets ``steps_per_second`` and ``peak_memory_bytes``. Nothing is logged, because times in
    ``metrics.csv`` would make two equal runs differ.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._seconds = 0.0
        self._peak = 0
        self._start: float | None = None
        self._device = torch.device("cpu")

    @property
    def seconds(self) -> float:
        """Seconds spent in training batches."""
        running = 0.0 if self._start is None else running_seconds() - self._start
        return self._seconds + running

    @property
    def peak_memory_bytes(self) -> int:
        """Peak memory: of tensors on a GPU, otherwise of the whole process."""
        if self._device.type == "cuda":
            return max(self._peak, torch.cuda.max_memory_allocated(self._device))
        if sys.platform == "win32":
            return self._peak
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return max(self._peak, peak if sys.platform == "darwin" else peak * 1024)

    def measurements(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """``steps_per_second`` and ``peak_memory_bytes`` of the record."""
        return {
            "steps_per_second": self.steps / self.seconds if self.seconds else None,
            "peak_memory_bytes": self.peak_memory_bytes,
        }

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Reset the peak memory of the GPU."""
        self._device = pl_module.device
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._start = running_seconds()

    def on_train_batch_end(self, trainer: pl.Trainer, *details: Any) -> None:
        """Count the steps."""
        self.steps = trainer.global_step
        if self._start is None:  # a run that resumes within an epoch has no epoch start
            self._start = running_seconds()

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop the clock: validation is not training."""
        self._stop()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop the clock before the checkpoint of the epoch is written."""
        self._stop()

    def on_exception(self, trainer: pl.Trainer, *details: Any) -> None:
        """Stop the clock."""
        self._stop()

    def state_dict(self) -> dict[str, Any]:
        """Measurements so far, which a resumed run adds to."""
        peak = self.peak_memory_bytes
        return {"steps": self.steps, "seconds": self.seconds, "peak_memory_bytes": peak}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the measurements of the checkpoint."""
        self.steps = state_dict["steps"]
        self._seconds = state_dict["seconds"]
        self._peak = state_dict["peak_memory_bytes"]

    def _stop(self) -> None:
        if self._start is None:
            return
        clock(self._device)
        self._seconds, self._start = self.seconds, None


def clock(device: torch.device) -> float:
    """Current time in seconds, after the device has finished all queued kernels."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return running_seconds()
