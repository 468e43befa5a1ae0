"""Steps, time and memory add up over sessions; validation does not count."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch

from focusing.callbacks import Throughput
from tests.unit.callbacks.tiny import LIGHTNING, Module, batches, trainer

pytestmark = LIGHTNING


def test_rates_of_all_steps(tmp_path: Path) -> None:
    callback = Throughput()
    assert callback.measurements({})["steps_per_second"] is None
    trainer(tmp_path, [callback]).fit(Module(), batches(30, 8))
    record = callback.measurements({})
    assert callback.steps == 12
    assert record["steps_per_second"] == pytest.approx(12 / callback.seconds)
    assert record["peak_memory_bytes"] > 50 * 2**20  # torch alone takes more


class SlowValidation(Module):
    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        time.sleep(0.05)


def test_validation_does_not_count(tmp_path: Path) -> None:
    callback, start = Throughput(), time.perf_counter()
    trainer(tmp_path, [callback], max_epochs=2).fit(SlowValidation(), batches(), batches())
    assert 0 < callback.seconds <= time.perf_counter() - start - 2 * 4 * 0.05


def test_a_run_resumed_inside_an_epoch_adds_up(tmp_path: Path) -> None:
    class Stop(Module):
        def on_train_batch_end(self, *args: Any) -> None:
            if self.trainer.global_step == 6:
                self.trainer.save_checkpoint(tmp_path / "middle.ckpt")
                raise KeyError("stop")

    first, second = Throughput(), Throughput()
    with pytest.raises(KeyError):
        trainer(tmp_path, [first]).fit(Stop(), batches())
    with pytest.warns(UserWarning, match="resuming from a checkpoint that ended before"):
        trainer(tmp_path, [second], max_epochs=2).fit(
            Module(), batches(), ckpt_path=tmp_path / "middle.ckpt", weights_only=True
        )
    assert second.steps > first.steps == 6
    state = torch.load(tmp_path / "middle.ckpt", weights_only=True)["callbacks"]["Throughput"]
    assert second.seconds > state["seconds"] > 0
