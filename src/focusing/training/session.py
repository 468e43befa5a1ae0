"""One training session: Lightning, set up for small networks and data on the device."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from lightning_fabric.utilities.warnings import PossibleUserWarning
from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.profilers import PassThroughProfiler
from torch import Tensor

from focusing.config import Optim, drops_rest
from focusing.data import Batches, Split
from focusing.data.batches import resident
from focusing.errors import UserError
from focusing.results.record import Series, best_epoch
from focusing.training.assembly import has_batch_norm
from focusing.training.checkpoint import EpochCheckpoint, PlainCheckpointIO
from focusing.training.interruption import interruptible
from focusing.training.module import FocusingModule

EVALUATION_BATCH, EVALUATION_VALUES = 1024, 2**22
"""Samples at a time when nothing is trained, and inputs in all of them, at most."""
BUNDLE_WORK, BUNDLE_MOST = 2**27, 200
"""Parameters times samples that make a bundle of batches, and batches in it at most."""


def build_trainer(
    options: Mapping[str, Any],
    run_dir: Path,
    *,
    callbacks: Iterable[pl.Callback] = (),
    loggers: Sequence[Logger] = (),
    best_of: str | None = None,
    metric: str = "accuracy",
) -> pl.Trainer:
    """A Lightning trainer that says nothing and checkpoints every epoch.

    Args:
        options: the group ``trainer`` of a config.
        run_dir: the run folder.
        callbacks: what else happens.
        loggers: where metrics go.
        best_of: name of the series whose best epoch is kept as ``best.ckpt``; None keeps the last
            epoch only.
        metric: ``"accuracy"`` or ``"mae"``: what that series is.
    """

    def is_best(series: Series) -> bool:
        if best_of is None:
            return False
        values = series[best_of]
        return best_epoch(values, metric) == len(values) - 1

    quieten()
    try:
        return pl.Trainer(
            max_epochs=options["max_epochs"],
            accelerator=options["accelerator"],
            devices=options["devices"],
            precision=options["precision"],
            deterministic=options["deterministic"],
            default_root_dir=run_dir,
            callbacks=[*callbacks, EpochCheckpoint(run_dir / "checkpoints", is_best)],
            logger=list(loggers),
            plugins=[PlainCheckpointIO()],
            profiler=_NoProfiler(),
            num_sanity_val_steps=0,
            log_every_n_steps=1,
            use_distributed_sampler=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
    except (MisconfigurationException, ImportError, TypeError, ValueError) as error:
        raise UserError(f"trainer: {' '.join(str(error).split())}") from None


class _NoProfiler(PassThroughProfiler):
    """Does nothing faster: Lightning enters a profiler forty times per step."""

    _nothing = nullcontext()

    def profile(self, action_name: str) -> Any:
        return self._nothing


def quieten() -> None:
    """Keep Lightning's advertisements and advice off the terminal."""
    for name in ("pytorch_lightning", "lightning_fabric", "pytorch_lightning.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=PossibleUserWarning)
    warnings.filterwarnings("ignore", message="`isinstance.treespec, LeafSpec.` is deprecated")
    # Deterministic mode would also fill all new memory with NaN, to find reads that we do not do.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def evaluation_batch(split: Split) -> int:
    """How many samples at a time: fewer of large pictures, which convolutions make still larger."""
    return max(1, min(EVALUATION_BATCH, EVALUATION_VALUES // split.inputs[0].numel()))


def fit(
    trainer: pl.Trainer,
    module: FocusingModule,
    train: Split,
    evaluated: Mapping[str, Split],
    optim: Optim,
    *,
    limit: int | None = None,
    checkpoint: Path | None = None,
    prepare: Callable[[Tensor], Tensor] | None = None,
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None,
) -> None:
    """Train until the last epoch or a signal.

    Args:
        trainer: from :func:`build_trainer`.
        module: what to train.
        train: the data that trains.
        evaluated: the splits that are scored after each epoch, by name.
        optim: batch size and order.
        limit: batches per epoch, at most.
        checkpoint: continue from here.
        prepare: is applied to every batch.
        augment: is applied to every training batch.

    Raises:
        Interrupted: on SIGTERM and Ctrl-C, with the exit code.
    """
    device = trainer.strategy.root_device
    seed = module.seed if optim.shuffle else None
    work = optim.batch_size * sum(each.numel() for each in module.parameters())
    bundle = max(1, min(BUNDLE_MOST, BUNDLE_WORK // work))
    drop_last = drops_rest(
        optim.drop_last,
        len(train.targets),
        optim.batch_size,
        batch_norm=has_batch_norm(module.net),
    )
    batches = Batches(
        resident(train, device),
        optim.batch_size,
        seed,
        limit,
        bundle,
        device=device,
        prepare=prepare,
        augment=augment,
        augment_seed=module.seed,
        drop_last=drop_last,
    )
    size = max(evaluation_batch(train), optim.batch_size)
    loaders = [
        Batches(resident(split, device), size, device=device, prepare=prepare)
        for split in evaluated.values()
    ]
    module.batches = {"train": batches, **dict(zip(evaluated, loaders, strict=True))}
    # Lightning would stop at SIGTERM by itself, saving nothing and exiting with 0.
    trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]
    with interruptible():
        trainer.fit(module, batches, loaders, ckpt_path=checkpoint, weights_only=True)
