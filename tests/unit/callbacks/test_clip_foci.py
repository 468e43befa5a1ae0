"""Foci are clipped after every optimizer step, and only then."""

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from focusing.callbacks import ClipFoci
from tests.unit.callbacks.tiny import LIGHTNING, Broken, Module, batches, trainer

pytestmark = LIGHTNING

FAR = 1e3  # a learning rate that throws any focus out of its range


class Watch(pl.Callback):
    """Whether the foci were in range at the end of every batch."""

    def __init__(self) -> None:
        self.inside: list[bool] = []

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        mu, sigma = pl_module.net.hidden.foci
        inside = (mu >= 0) & (mu <= 1) & (sigma >= 0.01) & (sigma <= 1)
        self.inside.append(bool(inside.all()))


@pytest.mark.parametrize("manual", [False, True])
def test_foci_are_inside_after_every_step(tmp_path: Path, manual: bool) -> None:
    watch = Watch()
    trainer(tmp_path, [ClipFoci(), watch], max_epochs=2).fit(Module(FAR, manual), batches())
    assert watch.inside == [True] * 8
    without = Watch()
    trainer(tmp_path, [without], max_epochs=2).fit(Module(FAR, manual), batches())
    assert not all(without.inside)


def test_one_clip_per_step_under_accumulation(tmp_path: Path) -> None:
    module, calls = Module(), []
    module.net.hidden.constrain_ = lambda: calls.append(module.trainer.global_step)  # type: ignore[method-assign]
    trainer(tmp_path, [ClipFoci()], max_epochs=1, accumulate_grad_batches=2).fit(module, batches())
    assert len(calls) == 2  # four micro-batches


def test_the_hooks_are_gone_afterwards(tmp_path: Path) -> None:
    def hooks(fitted: pl.Trainer) -> int:
        return sum(len(optimizer._optimizer_step_post_hooks) for optimizer in fitted.optimizers)

    fitted = trainer(tmp_path, [ClipFoci()])
    fitted.fit(Module(), batches())
    assert hooks(fitted) == 0

    fitted = trainer(tmp_path, [ClipFoci()])
    with pytest.raises(RuntimeError, match="broken"):
        fitted.fit(Broken(), batches())
    assert hooks(fitted) == 0


def test_any_module_with_focused_layers_will_do(tmp_path: Path) -> None:
    class Plain(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Module().net.hidden

        def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
            return self.inner(batch[0]).square().sum()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=FAR)

    module = Plain()
    trainer(tmp_path, [ClipFoci()], max_epochs=1, limit_train_batches=1).fit(module, batches())
    assert module.inner.sigma.min() >= 0.01
    assert module.inner.mu.min() >= 0
    assert module.inner.mu.max() <= 1
