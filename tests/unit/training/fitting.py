"""Short fits for tests."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from focusing.config import Optim
from focusing.data import DataSet, synthetic
from focusing.models import MLP, focused_mlp
from focusing.training.module import FocusingModule
from focusing.training.session import build_trainer, fit

OPTIONS = {
    "max_epochs": 3,
    "accelerator": "cpu",
    "devices": 1,
    "precision": "32-true",
    "deterministic": True,
}


def data(**options: Any) -> DataSet:
    return synthetic(**{"samples": 100, **options})


def net(seed: int = 0, **options: Any) -> MLP:
    torch.manual_seed(seed)
    return focused_mlp(40, 2, **{"hidden": [4], "mu": "spread", "sigma": 0.1, **options})


def optim(**options: Any) -> Optim:
    given = {"name": "SGD", "lr": 0.05, "lr_mu": 0.01, "lr_sigma": 0.01, "batch_size": 16}
    return Optim(**{**given, **options})


def trained(
    folder: Path,
    *,
    network: MLP | None = None,
    settings: Optim | None = None,
    dataset: DataSet | None = None,
    callbacks: Iterable[pl.Callback] = (),
    loggers: Sequence[Any] = (),
    epochs: int = 3,
    checkpoint: Path | None = None,
    best_of: str | None = None,
) -> FocusingModule:
    network, settings, dataset = network or net(), settings or optim(), dataset or data()
    module = FocusingModule(network, settings)
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    trainer = build_trainer(
        {**OPTIONS, "max_epochs": epochs},
        folder,
        callbacks=callbacks,
        loggers=loggers,
        best_of=best_of,
    )
    parts = {"test": dataset.test}
    fit(trainer, module, dataset.train, parts, settings, checkpoint=checkpoint)
    return module


def same_weights(one: FocusingModule, two: FocusingModule) -> bool:
    other = two.state_dict()
    return all(torch.equal(value, other[key]) for key, value in one.state_dict().items())
