"""Checkpoints: written after every epoch, sealed, and read only if the seal is whole.

A file may load and yet hold something else than it did: Lightning and torch would notice in the
middle of training, or never. So a checkpoint ends with the hash of its content, and says which
network and optimizer it is of.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.io import CheckpointIO

from focusing.errors import DamagedError, printable
from focusing.results.store import atomic_write, set_aside
from focusing.validation import check_regular

if TYPE_CHECKING:
    from focusing.training.module import FocusingModule

log = logging.getLogger(__name__)

SEAL_BYTES = 32
"""At the end of a file: the SHA-256 of all bytes before. torch reads the file with it, too."""


class EpochCheckpoint(pl.callbacks.Checkpoint):
    """Keeps ``last.ckpt``, and as ``best.ckpt`` the epoch whose score counts.

    Args:
        folder: where they go.
        is_best: tells from the series so far whether the epoch that just ended is the best.
    """

    def __init__(self, folder: Path, is_best: Callable[[dict[str, list[float]]], bool]) -> None:
        self.folder, self.is_best = folder, is_best

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the checkpoint; Lightning calls checkpoint callbacks after all others."""
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
    temporary = target.with_name(f".{target.name}.part")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:  # a file system without links
        shutil.copyfile(source, temporary)
    temporary.replace(target)


class PlainCheckpointIO(CheckpointIO):
    """Writes checkpoints atomically, and reads only tensors and plain containers."""

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
    """The content of a checkpoint's file, with its seal."""
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    seal = hashlib.sha256(buffer.getbuffer()).digest()
    buffer.seek(0, io.SEEK_END)
    buffer.write(seal)
    return buffer.getbuffer()


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU without running any code from it."""
    check_regular(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]
    except Exception as error:  # torch raises many kinds for a file that is not its own
        if isinstance(error, OSError) and error.filename:  # it cannot be opened
            raise
        reason = printable(f"{type(error).__name__}: {error}".splitlines()[0], 200)
        raise DamagedError(path, f"is not a checkpoint that can be read ({reason})") from None


def newest_checkpoint(folder: Path, module: FocusingModule) -> Path | None:
    """The checkpoint to resume from: the last, or else the best; None: the run begins again."""
    for path in (folder / "last.ckpt", folder / "best.ckpt"):
        if path.exists() and load_sealed(path, module, "the run goes back"):
            return path
    return None


def load_sealed(path: Path, module: FocusingModule, consequence: str) -> dict[str, Any] | None:
    """Read a checkpoint of this run; any other is kept aside, with a warning.

    Args:
        path: the file.
        module: what goes on from it.
        consequence: ends the warning.
    """
    try:
        content = load_checkpoint(path)
        sealed = path.read_bytes()
        if hashlib.sha256(sealed[:-SEAL_BYTES]).digest() != sealed[-SEAL_BYTES:]:
            raise DamagedError(path, "has changed since a run wrote it")
        if content.get("run") != fingerprint(module):
            raise DamagedError(path, "does not fit this run: it is of another network or optimizer")
        return content
    except DamagedError as error:
        log.warning("%s It is kept as %s; %s.", error, set_aside(path).name, consequence)
        return None


def fingerprint(module: FocusingModule) -> str:
    """A hash of what a checkpoint must fit: the weights and the groups of the optimizer."""
    weights = [(name, tuple(value.shape)) for name, value in module.net.state_dict().items()]
    groups = [(group["name"], len(group["params"])) for group in module.optimizer.param_groups]
    text = repr((weights, type(module.optimizer).__name__, groups))
    return hashlib.sha256(text.encode()).hexdigest()
