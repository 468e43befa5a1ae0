"""Weights on dead inputs before and after training."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from focusing.callbacks import DeadInputs
from focusing.callbacks.dead_inputs import constant_inputs
from focusing.data import Batches, DataSet, Split
from focusing.errors import UserError
from focusing.models import MLP, Network
from focusing.training.resume import Interrupted
from tests.unit.training.fitting import Signal, data, measured, net, optim, trained

STILL = {"settings": optim(lr=1e-30), "epochs": 1}


def with_border() -> DataSet:
    """40 inputs, of which only the 20 in the middle vary."""

    def frame(split: Split) -> Split:
        inputs = split.inputs.clone()
        inputs[:, :10], inputs[:, 30:] = 1.0, 1.0
        return Split(inputs.view(-1, 8, 5), split.targets)

    whole = data()
    return DataSet("border", "generated", frame(whole.train), frame(whole.test), whole.classes)


def dense() -> tuple[MLP, torch.Tensor]:
    """A network whose first layer has weights of 0.5, and these weights."""
    network = MLP(40, 2, [4], batch_norm=False)
    weight: Any = network.hidden1.weight  # type: ignore[union-attr]
    torch.nn.init.constant_(weight, 0.5)
    return network, weight.detach()


def fit(folder: Path, network: MLP, *more: Any, **options: Any) -> dict[str, Any]:
    callback = DeadInputs(neurons=2, bins=4)
    trained(folder, network=network, dataset=with_border(), callbacks=[callback, *more], **options)
    return measured(callback, "dead_inputs")


def test_a_network_that_learns_nothing(tmp_path: Path) -> None:
    network, weight = dense()
    weight[0, :3] = 0.005  # on dead inputs
    result = fit(tmp_path, network, **STILL)
    assert (result["layer"], result["inputs"], result["dead"]) == ("hidden1", 40, 20)
    live = {"mean_abs": 0.5, "small": 0.0, "small_count": 0}
    dead = {"mean_abs": pytest.approx(38.515 / 80), "small": 3 / 80, "small_count": 3}
    assert result["before"] == result["after"] == {"dead": dead, "live": live}
    assert result["change"] == {"dead": 0, "live": 0}
    histogram = result["histogram"]
    assert histogram.pop("edges") == [-0.5, -0.25, 0.0, 0.25, 0.5]
    assert histogram["before_dead"] == histogram["after_dead"] == [0, 0, 3, 77]
    assert histogram["before_live"] == histogram["after_live"] == [0, 0, 0, 80]


def test_dense_weights_on_dead_inputs_move_with_training(tmp_path: Path) -> None:
    network, weight = dense()
    start = weight.clone()
    result = fit(tmp_path, network, epochs=2)
    moved = (weight - start)[:, [*range(10), *range(30, 40)]].abs().mean().item()
    assert result["change"]["dead"] == pytest.approx(moved)
    assert moved > 0
    arrays = np.load(tmp_path / result["file"])
    assert arrays["shape"].tolist() == [8, 5]
    assert arrays["dead"].tolist() == [True] * 10 + [False] * 20 + [True] * 10
    assert arrays["neurons"].tolist() == [0, 3]
    np.testing.assert_array_equal(arrays["before"], start[[0, 3]])
    np.testing.assert_array_equal(arrays["after"], weight[[0, 3]])


def test_a_focused_layer_is_measured_by_its_effective_weights(tmp_path: Path) -> None:
    network = net()
    start = network.focused_layers()["hidden1"].effective_weight().abs().mean().item()
    before = fit(tmp_path, network, epochs=1)["before"]
    mean = (before["dead"]["mean_abs"] + before["live"]["mean_abs"]) / 2
    assert mean == pytest.approx(start)


def test_initial_weights_survive_an_interruption(tmp_path: Path) -> None:
    whole = fit(tmp_path / "a", net(), epochs=3)
    for batch in (2, 7):
        with pytest.raises(Interrupted):
            fit(tmp_path / "b", net(), Signal(signal.SIGTERM, batch))
    assert fit(tmp_path / "b", net(), epochs=3) == whole


def test_data_without_dead_inputs(tmp_path: Path) -> None:
    callback = DeadInputs()
    trained(tmp_path, callbacks=[callback], epochs=1)
    result = measured(callback, "dead_inputs")
    assert result["dead"] == 0
    assert result["before"]["dead"] is result["after"]["dead"] is result["change"]["dead"] is None


def test_inputs_are_compared_after_preparation() -> None:
    split = Split(torch.tensor([[1, 2, 3], [1, 3, 4]]), torch.tensor([0, 1]))
    assert constant_inputs(Batches(split, 1)).tolist() == [True, False, False]
    halved = Batches(split, 1, prepare=lambda inputs: inputs // 2)
    assert constant_inputs(halved).tolist() == [True, True, False]


def test_a_network_without_a_linear_first_layer_is_refused(
    tmp_path: Path,
) -> None:
    class Halves(Network):
        def __init__(self) -> None:
            super().__init__(40, 2, [4])
            self.output = torch.nn.Linear(20, 2)

    with pytest.raises(UserError, match="callbacks.dead_inputs: .* use a simple network"):
        trained(tmp_path, network=Halves(), callbacks=[DeadInputs()])  # type: ignore[arg-type]
