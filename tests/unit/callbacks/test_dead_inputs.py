"""Weights on inputs that say nothing."""

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
from tests.unit.training.fitting import Signal, data, net, optim, trained


def with_border(value: float = 1.0) -> DataSet:
    """The informative inputs in the middle of 40, all others the same."""

    def frame(split: Split) -> Split:
        inputs = split.inputs.clone()
        inputs[:, :10], inputs[:, 30:] = value, value
        return Split(inputs.view(-1, 8, 5), split.targets)

    whole = data()
    return DataSet("border", "generated", frame(whole.train), frame(whole.test), whole.classes)


def dense(weight: float = 0.5) -> MLP:
    torch.manual_seed(0)
    network = MLP(40, 2, [4], batch_norm=False)
    torch.nn.init.constant_(network.hidden1.weight, weight)  # type: ignore[arg-type, union-attr]
    return network


def fit(folder: Path, network: MLP, **options: Any) -> dict[str, Any]:
    callback = DeadInputs(neurons=2, bins=4)
    trained(folder, network=network, dataset=with_border(), callbacks=[callback], **options)
    found: dict[str, Any] = callback.measurements({})["measured"]["dead_inputs"]
    return found


def test_a_network_that_learns_nothing(tmp_path: Path) -> None:
    still = optim(lr=1e-30)
    found = fit(tmp_path, dense(0.5), settings=still, epochs=1)
    assert (found["layer"], found["inputs"], found["dead"]) == ("hidden1", 40, 20)
    describes = {"mean_abs": 0.5, "small": 0.0, "small_count": 0}
    assert found["before"] == found["after"] == {"dead": describes, "live": describes}
    assert found["change"] == {"dead": 0, "live": 0}
    assert found["histogram"] == {
        "edges": [-0.5, -0.25, 0.0, 0.25, 0.5],
        **{
            f"{when}_{kind}": [0, 0, 0, 80]
            for when in ("before", "after")
            for kind in ("dead", "live")
        },
    }


def test_small_weights_are_counted(tmp_path: Path) -> None:
    network = dense(0.5)
    with torch.no_grad():
        network.hidden1.weight[0, :3] = 0.005  # type: ignore[index, union-attr]  # on dead inputs
    found = fit(tmp_path, network, settings=optim(lr=1e-30), epochs=1)
    assert found["before"]["dead"]["small_count"] == 3
    assert found["before"]["dead"]["small"] == 3 / 80
    assert found["before"]["live"]["small"] == 0


def test_dense_weights_on_dead_inputs_move_with_training(tmp_path: Path) -> None:
    network = dense()
    start = network.hidden1.weight.detach().clone()  # type: ignore[union-attr, operator]
    found = fit(tmp_path, network, epochs=2)
    end = network.hidden1.weight.detach()  # type: ignore[union-attr, operator]
    moved = (end - start)[:, [*range(10), *range(30, 40)]].abs().mean().item()
    assert found["change"]["dead"] == pytest.approx(moved)
    assert moved > 0
    arrays = np.load(tmp_path / found["file"])
    assert arrays["shape"].tolist() == [8, 5]
    assert arrays["dead"].tolist() == [True] * 10 + [False] * 20 + [True] * 10
    assert arrays["neurons"].tolist() == [0, 3]
    np.testing.assert_array_equal(arrays["before"], start[[0, 3]])
    np.testing.assert_array_equal(arrays["after"], end[[0, 3]])


def test_of_a_focused_layer_the_effective_weights_count(tmp_path: Path) -> None:
    network = net()
    start = network.focused_layers()["hidden1"].effective_weight().abs().mean().item()
    found = fit(tmp_path, network, epochs=1)
    both = [found["before"][kind]["mean_abs"] for kind in ("dead", "live")]
    assert sum(both) / 2 == pytest.approx(start)


def test_the_start_survives_an_interruption(tmp_path: Path) -> None:
    whole = fit(tmp_path / "a", net(), epochs=3)
    for left in (2, 7):
        with pytest.raises(Interrupted):
            trained(
                tmp_path / "b",
                network=net(),
                dataset=with_border(),
                callbacks=[DeadInputs(), Signal(signal.SIGTERM, left)],
                resume_from=tmp_path / "b" / "checkpoints",
            )
    assert fit(tmp_path / "b", net(), epochs=3, resume_from=tmp_path / "b" / "checkpoints") == whole


def _last(folder: Path) -> Path | None:
    path = folder / "checkpoints" / "last.ckpt"
    return path if path.exists() else None


def test_without_dead_inputs_there_is_less_to_say(tmp_path: Path) -> None:
    callback = DeadInputs()
    trained(tmp_path, callbacks=[callback], epochs=1)
    found = callback.measurements({})["measured"]["dead_inputs"]
    assert found["dead"] == 0
    assert found["before"]["dead"] is found["after"]["dead"] is found["change"]["dead"] is None


def test_inputs_are_compared_as_the_network_gets_them() -> None:
    split = Split(torch.tensor([[1, 2, 3], [1, 3, 4]]), torch.tensor([0, 1]))
    assert constant_inputs(Batches(split, 1)).tolist() == [True, False, False]
    halved = Batches(split, 1, prepare=lambda inputs: inputs // 2)
    assert constant_inputs(halved).tolist() == [True, True, False]


def test_a_network_whose_linear_layer_is_elsewhere_is_refused_before_training(
    tmp_path: Path,
) -> None:
    class Halves(Network):
        def __init__(self) -> None:
            super().__init__(40, 2, [4])
            self.output = torch.nn.Linear(20, 2)

        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return self.output(input[:, :20])  # type: ignore[no-any-return]

    with pytest.raises(UserError, match="callbacks.dead_inputs: .* use a simple network"):
        trained(tmp_path, network=Halves(), callbacks=[DeadInputs()])  # type: ignore[arg-type]


def test_impossible_options_are_refused() -> None:
    with pytest.raises(ValueError, match="small=0"):
        DeadInputs(small=0)
