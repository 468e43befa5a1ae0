"""A real Lightning run that takes a moment: four focusing neurons on a separable problem."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from focusing import FocusedLinear

LIGHTNING = [
    # Lightning calls torch in ways that torch has deprecated, and advises on purpose-made tests.
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
    pytest.mark.filterwarnings("ignore:.*have no `val_dataloader`"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:You are trying to `self.log"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists"),
    pytest.mark.filterwarnings("ignore:The `srun` command is available"),
]


class Module(pl.LightningModule):
    """Logs per epoch, from its own epoch end, as the experiment's module does."""

    def __init__(self, lr: float = 0.1, manual: bool = False, **focus: Any) -> None:
        super().__init__()
        self.lr = lr
        self.automatic_optimization = not manual
        torch.manual_seed(0)
        hidden = FocusedLinear(20, 4, **focus)
        self.net = nn.Sequential(OrderedDict(hidden=hidden, relu=nn.ReLU(), out=nn.Linear(4, 2)))
        self.losses: list[Tensor] = []

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.net.parameters(), lr=self.lr, momentum=0.9)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        loss = functional.cross_entropy(self.net(x), y)
        self.losses.append(loss.detach())
        if not self.automatic_optimization:
            optimizer = self.trainer.optimizers[0]  # raw, so global_step stays 0
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        x, y = batch
        self.log("val/acc", (self.net(x).argmax(1) == y).float().mean())

    def on_train_epoch_end(self) -> None:
        sigma = self.net.hidden.sigma.detach().mean()  # type: ignore[operator, union-attr]
        self.log_dict({"train/loss": torch.stack(self.losses).mean(), "focus/sigma_mean": sigma})
        self.losses.clear()


def batches(samples: int = 32, size: int = 8) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 20, generator=generator)
    return DataLoader(TensorDataset(x, (x[:, 10:14].sum(1) > 0).long()), size)


def trainer(folder: Path, callbacks: Sequence[pl.Callback] = (), **options: Any) -> pl.Trainer:
    defaults: dict[str, Any] = {
        "max_epochs": 3,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
        "log_every_n_steps": 1,
    }
    return pl.Trainer(default_root_dir=folder, callbacks=list(callbacks), **{**defaults, **options})
