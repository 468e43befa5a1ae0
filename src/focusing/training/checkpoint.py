"""Checkpoints, written after every epoch and verified before a run resumes from them.

A checkpoint ends with a hash of its content, and holds a fingerprint of its network and optimizer.
A damaged or foreign file is noticed before training, not in the middle of it or never.
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

DIGEST_BYTES = 32
"""Bytes at the end of a file: the SHA-256 of all bytes before. torch ignores them."""


class EpochCheckpoint(pl.callbacks.Checkpoint):
    """Keeps the last epoch as ``last.ckpt`` and the best one as ``best.ckpt``.

    Args:
        folder: folder of the checkpoints.
        is_best: whether the epoch that just ended is the best, given the metrics so far.
    """

    def __init__(self, folder: Path, is_best: Callable[[dict[str, list[float]]], bool]) -> None:
        self.folder, self.is_best = folder, is_best

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the checkpoint; Lightning calls checkpoint callbacks after all others."""
        last, best = self.folder / "last.ckpt", self.folder / "best.ckpt"
        if self.is_best(pl_module.series):  # type: ignore[arg-type]
            # best.ckpt first: a run that is killed in between repeats the epoch and writes both.
            trainer.save_checkpoint(best)
            _link(best, last)
        else:
            trainer.save_checkpoint(last)
        (self.folder / "interrupted.ckpt").unlink(missing_ok=True)  # the epoch is over


def chosen_checkpoint(config: Mapping[str, Any]) -> str:
    """Name of the checkpoint of the epoch that the protocol chooses."""
    return "last.ckpt" if config["protocol"]["name"] == "last" else "best.ckpt"


def _link(source: Path, target: Path) -> None:
    """Hard-link a file, replacing the target atomically; copy it where links are impossible."""
    temporary = target.with_name(f".{target.name}.part")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, temporary)
    temporary.replace(target)


class PlainCheckpointIO(CheckpointIO):
    """Writes checkpoints atomically and reads them without running code from them."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None
    ) -> None:
        """Write a checkpoint."""
        # No fsync: it takes longer than an epoch of a small network, and a killed process loses
        # nothing without it.
        atomic_write(Path(path), encode(checkpoint), sync=False)

    def load_checkpoint(
        self, path: Any, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint, always with ``weights_only``."""
        return load_checkpoint(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        """Remove a checkpoint."""
        Path(path).unlink(missing_ok=True)


def encode(checkpoint: dict[str, Any]) -> memoryview:
    """Bytes of a checkpoint file: what ``torch.save`` writes, and its hash."""
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    digest = hashlib.sha256(buffer.getbuffer()).digest()
    buffer.seek(0, io.SEEK_END)
    buffer.write(digest)
    return buffer.getbuffer()


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU without running any code from it."""
    check_regular(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]
    except Exception as error:  # torch raises many types for a damaged file
        if isinstance(error, OSError) and error.filename:  # the file cannot be opened
            raise
        reason = printable(f"{type(error).__name__}: {error}".splitlines()[0], 200)
        raise DamagedError(path, f"is not a checkpoint that can be read ({reason})") from None


def newest_checkpoint(folder: Path, module: FocusingModule) -> Path | None:
    """The checkpoint to resume from: the last, else the best; None if neither is valid."""
    for path in (folder / "last.ckpt", folder / "best.ckpt"):
        if path.exists() and load_verified(path, module, "the run goes back"):
            return path
    return None


def load_verified(path: Path, module: FocusingModule, consequence: str) -> dict[str, Any] | None:
    """Read a checkpoint of this run; a damaged or foreign one is renamed, with a warning.

    Args:
        path: the file.
        module: the module that resumes from it.
        consequence: end of the warning.
    """
    try:
        content = load_checkpoint(path)
        signed = path.read_bytes()
        if hashlib.sha256(signed[:-DIGEST_BYTES]).digest() != signed[-DIGEST_BYTES:]:
            raise DamagedError(path, "has changed since a run wrote it")
        if content.get("run") != fingerprint(module):
            raise DamagedError(path, "does not fit this run: it is of another network or optimizer")
        return content
    except DamagedError as error:
        log.warning("%s It is kept as %s; %s.", error, set_aside(path).name, consequence)
        return None


def fingerprint(module: FocusingModule) -> str:
    """Hash of the shapes of all weights and of the optimizer's parameter groups."""
    weights = [(name, tuple(value.shape)) for name, value in module.net.state_dict().items()]
    groups = [(group["name"], len(group["params"])) for group in module.optimizer.param_groups]
    text = repr((weights, type(module.optimizer).__name__, groups))
    return hashlib.sha256(text.encode()).hexdigest()
