"""Neurons that do not learn are counted; those that do, or need not, are not."""

import logging
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from focusing.callbacks import ClipFoci, StuckNeurons
from tests.unit.callbacks.tiny import LIGHTNING, Batches, Module, trainer

pytestmark = LIGHTNING


def dead(module: Module, neuron: int) -> Module:
    """Cut a neuron from the output, and its ReLU from the input: its gradient is exactly 0."""
    with torch.no_grad():
        module.net.hidden.bias[neuron] = -1e4
    return module


def fit(folder: Path, module: Module, callback: StuckNeurons, **options: Any) -> pl.Trainer:
    fitted = trainer(folder, [callback, ClipFoci()], **options)
    fitted.fit(module, Batches())
    return fitted


@pytest.mark.parametrize("manual", [False, True])
def test_a_dead_neuron_is_stuck(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, manual: bool
) -> None:
    callback = StuckNeurons(window=3)
    module = dead(Module(1e-3, manual, sigma=0.2), 1)
    with caplog.at_level(logging.WARNING):
        fitted = fit(tmp_path, module, callback, max_epochs=4)
    assert callback.stuck == {"hidden": 1}
    assert callback.silence["hidden"].tolist() == [0, 4, 0, 0]
    assert fitted.callback_metrics["focus/stuck"] == 1
    assert caplog.text.count("1 of 4 in hidden neither moved nor received gradient") == 1


def test_not_before_the_window_is_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    callback = StuckNeurons(window=5)
    fitted = fit(tmp_path, dead(Module(1e-3, sigma=0.2), 1), callback, max_epochs=4)
    assert callback.stuck == {"hidden": 0}
    assert fitted.callback_metrics["focus/stuck"] == 0
    assert "Stuck" not in caplog.text


def test_foci_held_by_their_range_are_stuck_though_they_receive_gradient(tmp_path: Path) -> None:
    callback = StuckNeurons(window=2)
    module = Module(1e-2, sigma=0.2, mu_range=(0.5, 0.5), mu=0.5, sigma_range=(0.2, 0.2))
    fit(tmp_path, module, callback)
    assert callback.stuck == {"hidden": 4}


def test_a_neuron_that_receives_gradient_is_not_stuck_though_it_does_not_move(
    tmp_path: Path,
) -> None:
    callback = StuckNeurons(window=1)
    fit(tmp_path, Module(0.0, sigma=0.2), callback)
    assert callback.stuck == {"hidden": 0}


def test_fixed_foci_are_not_stuck(tmp_path: Path) -> None:
    callback = StuckNeurons(window=1)
    fitted = fit(tmp_path, Module(train_mu=False, train_sigma=False), callback)
    assert callback.stuck == {}
    assert "focus/stuck" not in fitted.callback_metrics


def test_with_sigma_fixed_only_mu_counts(tmp_path: Path) -> None:
    callback = StuckNeurons(window=2)
    fit(tmp_path, dead(Module(1e-3, sigma=0.2, train_sigma=False), 2), callback)
    assert callback.silence["hidden"].tolist() == [0, 0, 3, 0]


def test_several_layers_are_told_apart(tmp_path: Path) -> None:
    module = dead(Module(1e-3, sigma=0.2), 0)
    hidden = module.net.hidden
    module.net.focused_layers = lambda: {"a": hidden, "b": hidden}  # type: ignore[method-assign]
    fitted = fit(tmp_path, module, StuckNeurons(window=1))
    metrics = {key: value.item() for key, value in fitted.callback_metrics.items()}
    assert metrics["focus/stuck"] == 2
    assert metrics["focus/stuck_a"] == metrics["focus/stuck_b"] == 1


def test_counting_goes_on_after_a_resume(tmp_path: Path) -> None:
    def run(epochs: int, callback: StuckNeurons, **options: Any) -> None:
        saves = ModelCheckpoint(tmp_path, filename="last", enable_version_counter=False)
        trainer(tmp_path, [callback, saves], enable_checkpointing=True, max_epochs=epochs).fit(
            dead(Module(1e-3, sigma=0.2), 3), Batches(), **options
        )

    run(3, StuckNeurons())
    callback = StuckNeurons()
    run(5, callback, ckpt_path=tmp_path / "last.ckpt", weights_only=True)
    assert callback.silence["hidden"].tolist() == [0, 0, 0, 5]


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(ValueError, match="window=0"):
        StuckNeurons(window=0)
