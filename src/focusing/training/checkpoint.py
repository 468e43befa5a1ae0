"""A checkpoint after every epoch, whole or not at all."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.io import CheckpointIO

from focusing.errors import DamagedError, printable
from focusing.results.store import atomic_write
from focusing.validation import check_regular


class EpochCheckpoint(pl.callbacks.Checkpoint):
    """Keeps ``last.ckpt``, and as ``best.ckpt`` the epoch whose score counts.

    Args:
        folder: where they go.
        is_best: tells from the series so far whether the epoch that just ended is the best.
    """

    def __init__(self, folder: Path, is_best: Callable[[dict[str, list[float]]], bool]) -> None:
        self.folder, self.is_best = folder, is_best

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the checkpoint; callbacks of this kind come last, so it holds the whole epoch."""
        last, best = self.folder / "last.ckpt", self.folder / "best.ckpt"
        if self.is_best(pl_module.series):  # type: ignore[arg-type]
            # The best first: killed in between, a run repeats the epoch and writes both.
            trainer.save_checkpoint(best)
            _link(best, last)
        else:
            trainer.save_checkpoint(last)
        (self.folder / "interrupted.ckpt").unlink(missing_ok=True)  # the epoch is over


def chosen_checkpoint(config: Mapping[str, Any]) -> str:
    """Name of the file that holds the epoch which the config's protocol chose."""
    return "last.ckpt" if config["protocol"]["name"] == "last" else "best.ckpt"


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, which keeps this content when the first gets a new one."""
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    try:
        os.link(source, part)
    except OSError:  # a file system without links
        shutil.copyfile(source, part)
    part.replace(target)


class PlainCheckpointIO(CheckpointIO):
    """Writes checkpoints whole or not at all, and reads only tensors and plain containers."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None
    ) -> None:
        """Write a checkpoint."""
        # Not synced to the disk: a killed process loses nothing, and syncing would take longer
        # than an epoch of a small network.
        atomic_write(Path(path), encode(checkpoint), sync=False)

    def load_checkpoint(
        self, path: Any, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint; ``weights_only`` is always true."""
        return load_checkpoint(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        """Remove a checkpoint."""
        Path(path).unlink(missing_ok=True)


def encode(checkpoint: dict[str, Any]) -> memoryview:
    """The content of a checkpoint's file."""
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    return buffer.getbuffer()


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU without running any code from it."""
    check_regular(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]
    except Exception as error:  # torch raises many kinds for a file that is none of its own
        if isinstance(error, OSError) and error.filename:  # it cannot be opened
            raise
        reason = printable(f"{type(error).__name__}: {error}".splitlines()[0], 200)
        raise DamagedError(path, f"is not a checkpoint that can be read ({reason})") from None
