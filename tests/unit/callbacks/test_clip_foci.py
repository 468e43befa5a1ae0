"""Foci are clipped after each optimizer step."""

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl

from focusing.callbacks import ClipFoci
from focusing.training.module import FocusingModule
from tests.unit.training.fitting import Raise, net, optim, trained

FAR = optim(lr_mu=1e3, lr_sigma=1e3)  # learning rates that move any focus out of its range


class Watch(pl.Callback):
    """Records after each optimizer step whether the foci are in range."""

    def __init__(self) -> None:
        self.inside: list[bool] = []

    def on_fit_start(self, trainer: pl.Trainer, pl_module: FocusingModule) -> None:
        def note(*_: Any) -> None:
            mu, sigma = pl_module.net.hidden1.foci
            inside = (mu >= 0) & (mu <= 1) & (sigma >= 0.01) & (sigma <= 1)
            self.inside.append(bool(inside.all()))

        trainer.optimizers[0].register_step_post_hook(note)


def test_foci_are_inside_after_every_step(tmp_path: Path) -> None:
    watch, without = Watch(), Watch()
    trained(tmp_path / "a", settings=FAR, callbacks=[ClipFoci(), watch], epochs=2)
    assert watch.inside == [True] * 10
    trained(tmp_path / "b", settings=FAR, callbacks=[without], epochs=2)
    assert not all(without.inside)


def test_one_clip_per_step_under_accumulation(tmp_path: Path) -> None:
    network, calls = net(), []
    network.hidden1.constrain_ = lambda: calls.append(1)  # type: ignore[method-assign, union-attr]
    settings = optim(accumulate=2)
    module = trained(tmp_path, network=network, settings=settings, callbacks=[ClipFoci()], epochs=1)
    assert len(calls) == module.global_step == 3  # five batches


def test_hooks_are_removed(tmp_path: Path) -> None:
    clip = ClipFoci()
    module = trained(tmp_path / "a", callbacks=[clip], epochs=1)
    assert not module.optimizer._optimizer_step_post_hooks
    with pytest.raises(RuntimeError, match="broken"):
        trained(tmp_path / "b", callbacks=[clip, Raise(RuntimeError("broken"))])
    assert not clip._constraints
