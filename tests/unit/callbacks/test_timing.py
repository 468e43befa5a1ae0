"""Times of a network and of its dense twin."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from focusing.callbacks import Timing
from focusing.callbacks.timing import take_turns, training_twins
from focusing.models import MLP, build_network
from focusing.nn import FocusedLinear
from focusing.training.resume import Interrupted
from tests.unit.models.test_dynamic_network import DENSE, FOCUSED
from tests.unit.training.fitting import Signal, measured, net, same_weights, trained


class Clock(pl.Callback):
    """A clock by which a training epoch takes 1 s, a validation 100 s and reading it 1 ms."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now

    def on_train_batch_end(self, *_: Any) -> None:
        self.now += 1

    def on_validation_batch_end(self, *_: Any) -> None:
        self.now += 100


def test_times_of_a_focused_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    callback, clock = Timing(rounds=2), Clock()
    monkeypatch.setattr("focusing.clock.time.perf_counter", clock)
    module = trained(tmp_path / "a", callbacks=[callback, clock], epochs=2)
    result = measured(callback, "timing")
    assert result["epochs"] == 2
    assert result["epoch_seconds"] == pytest.approx(1, abs=0.1)  # the batches of an epoch are one
    assert (result["device"], result["threads"]) == ("cpu", torch.get_num_threads())
    assert (result["batch_size"], result["test_batch_size"], result["rounds"]) == (16, 30, 2)
    assert result["test_seconds"] == pytest.approx({"as_is": 1 / 30, "folded": 1 / 30})
    assert result["step_seconds"] == pytest.approx({"as_is": 0.001, "dense": 0.001})
    assert result["ratio"] == pytest.approx({"train": 1, "test": 1})
    assert result["quartiles"]["train"] == pytest.approx([1, 1])
    assert same_weights(module, trained(tmp_path / "b", epochs=2))


def test_a_dense_network_has_no_ratio(tmp_path: Path) -> None:
    callback = Timing(rounds=1)
    trained(tmp_path, network=MLP(40, 2, [4]), callbacks=[callback], epochs=1)
    result = measured(callback, "timing")
    assert result["ratio"] == result["quartiles"] == {"train": None, "test": None}
    assert result["step_seconds"].keys() == {"as_is"}


@pytest.mark.parametrize("inner", [{**FOCUSED, "topology": None}, DENSE], ids=["foci", "dense"])
def test_windows_are_compared_with_a_dense_network_on_the_whole_frame(
    inner: dict[str, Any], tmp_path: Path
) -> None:
    network = build_network(
        {**inner, "dynamic": {"axes": [0], "grid": [8], "pool": 2}}, inputs=(40, 1), outputs=2
    )
    twin: Any = training_twins(network)["dense"]
    assert (type(twin.hidden1), twin.hidden1.in_features) == (torch.nn.Linear, 40)
    callback = Timing(rounds=1)
    trained(tmp_path, network=network, callbacks=[callback], epochs=1)
    result = measured(callback, "timing")
    assert result["test_seconds"].keys() == {"as_is", "folded", "dense"}
    assert all(ratio > 0 for ratio in result["ratio"].values())


def test_actions_alternate_after_a_warm_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns: list[str] = []
    clock = iter(range(100))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    actions = {"a": lambda: turns.append("a"), "b": lambda: (turns.append("b"), next(clock))}
    seconds = take_turns(actions, torch.device("cpu"), rounds=2)
    assert turns == ["a", "b"] * 3
    assert seconds == {"a": [1, 1], "b": [2, 2]}


def test_the_twin_computes_the_same_without_foci() -> None:
    network = net(batch_norm=False)
    twins = training_twins(network)
    kinds = {name: type(twin.hidden1) for name, twin in twins.items()}
    assert kinds == {"as_is": FocusedLinear, "dense": torch.nn.Linear}
    inputs = torch.randn(5, 40)
    for twin in twins.values():
        torch.testing.assert_close(twin(inputs), network(inputs), rtol=1e-4, atol=1e-4)
        assert twin.training
        assert all(parameter.requires_grad for parameter in twin.parameters())


def test_an_interrupted_epoch_does_not_count(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        trained(tmp_path, callbacks=[Timing(1), Signal(signal.SIGTERM, 8)], epochs=4)
    callback = Timing(1)
    trained(tmp_path, callbacks=[callback], epochs=4)
    assert measured(callback, "timing")["epochs"] == 3  # of four, the second was interrupted
