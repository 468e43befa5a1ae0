"""How fast a run trains and how much memory it takes."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytorch_lightning as pl
import torch

from focusing.training.fitting_state import check_like


class Throughput(pl.Callback):
    """Steps and samples per second, and peak memory, over all sessions of a run.

    The clock runs while training batches run: validation, per-epoch evaluation and checkpoints do
    not count. A step costs two additions. Nothing is logged, because times in ``metrics.csv``
    would make two equal runs differ: read the properties when the run is over.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.samples = 0
        self._seconds = 0.0
        self._peak = 0
        self._since: float | None = None
        self._device = torch.device("cpu")

    @property
    def seconds(self) -> float:
        """Seconds spent in training batches."""
        running = 0.0 if self._since is None else time.perf_counter() - self._since
        return self._seconds + running

    @property
    def steps_per_second(self) -> float:
        """Training batches per second; 0 before the first."""
        return self.steps / self.seconds if self.steps else 0.0

    @property
    def samples_per_second(self) -> float:
        """Training samples per second; 0 before the first."""
        return self.samples / self.seconds if self.samples else 0.0

    @property
    def peak_memory_bytes(self) -> int:
        """Most memory held at once: by tensors on a GPU, else by the whole process so far."""
        return max(self._peak, _peak_memory(self._device))

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Learn where the run happens."""
        self._device = pl_module.device
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._start()

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Count a step and its samples."""
        if self._since is None:  # resumed in the middle of an epoch, which has no epoch start
            self._start()
        self.steps += 1
        inputs = batch[0] if isinstance(batch, (tuple, list)) else batch
        if isinstance(inputs, torch.Tensor):
            self.samples += inputs.shape[0]

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Validation inside an epoch is not training."""
        self._stop()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Go on after validation in the middle of an epoch."""
        if (
            not trainer.sanity_checking
            and not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch
        ):
            self._start()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop the clock before the checkpoint of the epoch is written."""
        self._stop()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Stop the clock."""
        self._stop()

    def state_dict(self) -> dict[str, Any]:
        """Counts so far, so that a resumed run adds to them."""
        return {
            "steps": self.steps,
            "samples": self.samples,
            "seconds": self.seconds,
            "peak_memory_bytes": self.peak_memory_bytes,
        }

    def check_state(self, state: Any, module: pl.LightningModule) -> None:
        """Refuse other counts; see :mod:`focusing.training.fitting_state`."""
        like = {"steps": 0, "samples": 0, "seconds": 0.0, "peak_memory_bytes": 0}
        check_like({**state, "peak_memory_bytes": state.get("peak_memory_bytes") or 0}, like)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on counting where the checkpoint was written."""
        self.steps = state_dict["steps"]
        self.samples = state_dict["samples"]
        self._seconds = state_dict["seconds"]
        self._peak = state_dict["peak_memory_bytes"]

    def _start(self) -> None:
        self._since = time.perf_counter()

    def _stop(self) -> None:
        if self._since is None:
            return
        if self._device.type == "cuda":  # kernels run behind Python's back
            torch.cuda.synchronize(self._device)
        self._seconds, self._since = self.seconds, None


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
