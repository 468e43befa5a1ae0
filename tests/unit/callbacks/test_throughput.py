"""Steps, time and memory add up over sessions; validation does not count."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl

from focusing.callbacks import Throughput
from focusing.training.checkpoint import load_checkpoint
from focusing.training.resume import Interrupted
from tests.unit.training.fitting import Signal, trained


def test_steps_per_second_and_memory(tmp_path: Path) -> None:
    callback = Throughput()
    assert callback.measurements({})["steps_per_second"] is None
    trained(tmp_path, callbacks=[callback])
    record = callback.measurements({})
    assert callback.steps == 15
    assert record["steps_per_second"] == pytest.approx(15 / callback.seconds)
    assert record["peak_memory_bytes"] > 50 * 2**20  # torch alone takes more


class SlowValidation(pl.Callback):
    def on_validation_batch_start(self, *_: Any) -> None:
        time.sleep(0.2)


def test_validation_does_not_count(tmp_path: Path) -> None:
    callback, start = Throughput(), time.perf_counter()
    trained(tmp_path, callbacks=[callback, SlowValidation()], epochs=2)
    assert 0 < callback.seconds <= time.perf_counter() - start - 2 * 0.2


def test_a_resumed_run_adds_to_the_measurements(tmp_path: Path) -> None:
    first, second = Throughput(), Throughput()
    with pytest.raises(Interrupted):
        trained(tmp_path, callbacks=[first, Signal(signal.SIGTERM, 8)])
    saved = load_checkpoint(tmp_path / "checkpoints" / "interrupted.ckpt")
    trained(tmp_path, callbacks=[second])
    assert second.steps == 15
    assert second.seconds > saved["callbacks"]["Throughput"]["seconds"] > 0
