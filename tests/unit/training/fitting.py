"""Short training runs for tests, and callbacks that stop them."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from focusing.config import Optim
from focusing.data import DataSet, hold_out, synthetic
from focusing.models import MLP, Network, focused_mlp
from focusing.training.module import FocusingModule
from focusing.training.optimizer import fuse_optimizer
from focusing.training.trainer import build_trainer, fit

OPTIONS = {
    "max_epochs": 3,
    "accelerator": "cpu",
    "devices": 1,
    "precision": "32-true",
    "deterministic": True,
}


def data(**options: Any) -> DataSet:
    return synthetic(**{"n_samples": 100, **options})


def net(seed: int = 0, **options: Any) -> MLP:
    torch.manual_seed(seed)
    sizes = {"inputs": 40, "outputs": 2, "hidden": [4]}
    return focused_mlp(**{**sizes, "mu": "spread", "sigma": 0.1, **options})


def optim(**options: Any) -> Optim:
    defaults = {"name": "SGD", "lr": 0.05, "lr_mu": 0.01, "lr_sigma": 0.01, "batch_size": 16}
    return Optim(**{**defaults, **options})


def trained(
    folder: Path,
    *,
    network: Network | None = None,
    settings: Optim | None = None,
    dataset: DataSet | None = None,
    callbacks: Iterable[pl.Callback] = (),
    loggers: Sequence[Any] = (),
    epochs: int = 3,
    best_of: str | None = None,
    holdout: bool = False,
    precision: str = "32-true",
) -> FocusingModule:
    """Train, or resume training in the same folder."""
    network, settings, dataset = network or net(), settings or optim(), dataset or data()
    if precision == "16-mixed":
        settings = fuse_optimizer(settings)
    splits = {"train": dataset.train, "test": dataset.test}
    if holdout:
        train, val = hold_out(dataset.train, 0.2, 0, dataset.classes)
        splits = {"train": train, "val": val, "test": dataset.test}
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    options = {**OPTIONS, "max_epochs": epochs, "precision": precision}
    trainer = build_trainer(options, folder, callbacks=callbacks, best_of=best_of)
    trainer.loggers = list(loggers)
    module = FocusingModule(network, settings)
    fit(trainer, module, splits, resume_from=checkpoints)
    return module


def same_weights(one: FocusingModule, two: FocusingModule) -> bool:
    other = two.state_dict()
    return all(torch.equal(value, other[key]) for key, value in one.state_dict().items())


class Signal(pl.Callback):
    """Sends a signal to this process at the n-th forward pass or end of an epoch, from 0."""

    def __init__(self, signum: int, batch: int) -> None:
        self.signum, self.left = signum, batch

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        pl_module.net.register_forward_pre_hook(self._count)

    def on_train_epoch_end(self, *_: Any) -> None:
        self._count()

    def _count(self, *_: Any) -> None:
        if self.left == 0:
            os.kill(os.getpid(), self.signum)
        self.left -= 1


class Raise(pl.Callback):
    """Raises an error at the beginning of an epoch."""

    def __init__(self, error: BaseException, epoch: int = 0) -> None:
        self.error, self.epoch = error, epoch

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.current_epoch == self.epoch:
            raise self.error


class CountSteps(pl.Callback):
    """Counts optimizer steps, over several runs."""

    def __init__(self) -> None:
        self.steps = 0

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.optimizers[0].register_step_post_hook(self._count)

    def _count(self, *_: Any) -> None:
        self.steps += 1


def measured(callback: Any, name: str) -> dict[str, Any]:
    """The entry that a callback adds to ``record["measured"]``."""
    result: dict[str, Any] = callback.measurements({})["measured"][name]
    return result
