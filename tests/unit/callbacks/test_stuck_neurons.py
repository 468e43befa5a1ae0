"""Neurons count as stuck if they are uninformative and do not move."""

import logging
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from focusing.callbacks import ClipFoci, StuckNeurons
from focusing.callbacks.stuck_neurons import explained_variance
from focusing.data import DataSet, Split, synthetic
from focusing.models import MLP, focused_mlp
from focusing.training.module import FocusingModule
from tests.unit.training.fitting import measured, net, optim, trained


def half_noise() -> DataSet:
    """Twenty inputs of noise, then twenty informative ones."""
    torch.manual_seed(0)
    inputs, targets = torch.randn(400, 40), torch.randint(2, (400,))
    inputs[:, 20:] += 2.0 * targets[:, None] - 1
    split = Split(inputs, targets)
    return DataSet("half", "generated", split, split, classes=2)


def two_neurons(**options: Any) -> MLP:
    """One neuron on the noise, one on the informative inputs."""
    torch.manual_seed(0)
    network = focused_mlp(40, 2, hidden=[2], mu=[0.2, 0.8], sigma=0.03, **options)
    nn.init.ones_(network.hidden1.weight)  # type: ignore[arg-type, union-attr]
    return network


def fit(folder: Path, *callbacks: pl.Callback, **options: Any) -> FocusingModule:
    settings = optim(lr=0.01, lr_mu=1e-4, lr_sigma=1e-4)
    defaults = {"network": two_neurons(), "dataset": half_noise(), "settings": settings}
    return trained(folder, callbacks=[*callbacks, ClipFoci()], **{**defaults, **options})


@pytest.mark.parametrize(("epochs", "stuck"), [(4, [0]), (2, [])], ids=["after", "before"])
def test_after_the_window_a_neuron_on_noise_is_stuck_and_an_informative_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, epochs: int, stuck: list[int]
) -> None:
    callback = StuckNeurons(window=3)
    with caplog.at_level(logging.WARNING):
        module = fit(tmp_path, callback, epochs=epochs)
    assert callback.stuck == {"hidden1": len(stuck)}
    assert measured(callback, "stuck") == {"hidden1": {"neurons": 2, "stuck": stuck}}
    assert module.trainer.callback_metrics["focus/stuck"] == len(stuck)
    warning = "1 of 2 in hidden1 did not move in the last 3 epochs"
    assert (caplog.text.count(warning), caplog.text.count("Stuck")) == (len(stuck), len(stuck))
    assert caplog.text.count(" model.mu=spread ") == len(stuck)


class Walk(pl.Callback):
    """Moves mu of the first neuron along a path, whatever the optimizer does."""

    def __init__(self, path: list[float]) -> None:
        self.path = path

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        with torch.no_grad():
            pl_module.net.hidden1.mu[0] = 0.2 + self.path[trainer.current_epoch]


@pytest.mark.parametrize(
    ("path", "stuck"),
    [
        ([0.05, -0.05, 0.05, 0.0], 1),  # jitters, and returns
        ([0.004, 0.008, 0.012, 0.016], 0),  # small steps, but more than half of .03 in all
        ([0.003, 0.006, 0.009, 0.012], 1),  # less
    ],
)
def test_the_total_movement_counts(tmp_path: Path, path: list[float], stuck: int) -> None:
    callback = StuckNeurons(window=4, tolerance=0.5)
    still = optim(lr=1e-30, lr_mu=1e-30, lr_sigma=1e-30)
    fit(tmp_path, Walk(path), callback, settings=still, epochs=4)  # first the walk
    assert callback.stuck == {"hidden1": stuck}


@pytest.mark.parametrize(
    ("foci", "stuck"),
    [({"mu": 0.25, "sigma": 0.025}, 3), ({"mu": 0.75, "sigma": 0.08}, 0)],
    ids=["in the noise", "off the noise"],
)
def test_the_stuck_neurons_of_the_paper_are_found(
    tmp_path: Path, foci: dict[str, float], stuck: int
) -> None:
    """``experiment=stuck``, and the same from the informative half."""
    callback = StuckNeurons()
    fit(
        tmp_path,
        callback,
        network=net(**foci),
        dataset=synthetic(),
        settings=optim(lr=1e-3, lr_mu=1e-3, lr_sigma=1e-4, momentum=0.9, batch_size=128),
        epochs=40,
        precision="64-true",  # in 32 bits the processor decides about one of them
    )
    assert callback.stuck == {"hidden1": stuck}


def test_a_dead_neuron_is_stuck(tmp_path: Path) -> None:
    network = two_neurons(batch_norm=False)
    with torch.no_grad():
        network.hidden1.bias[1] = -1e4  # type: ignore[index, union-attr]  # below ReLU, for ever
        network.hidden1.weight[1] = 0.0  # type: ignore[index, union-attr]
    callback = StuckNeurons(window=1)
    fit(tmp_path, callback, network=network, epochs=1)
    assert callback.which["hidden1"].tolist() == [True, True]


def test_fixed_foci_do_not_count(tmp_path: Path) -> None:
    fixed, half = StuckNeurons(window=1), StuckNeurons(window=2)
    network = two_neurons(train_mu=False, train_sigma=False)
    module = fit(tmp_path / "a", fixed, network=network, epochs=2)
    assert fixed.stuck == fixed.measurements({}) == {}
    assert "focus/stuck" not in module.trainer.callback_metrics
    fit(tmp_path / "b", half, network=two_neurons(train_sigma=False), epochs=2)
    assert half.stuck == {"hidden1": 1}


def test_layers_are_counted_separately(tmp_path: Path) -> None:
    network = net(hidden=[4, 3], sigma=0.3)
    metrics = fit(
        tmp_path, StuckNeurons(window=1), network=network, epochs=2
    ).trainer.callback_metrics
    assert metrics["focus/stuck"] == metrics["focus/stuck_hidden1"] + metrics["focus/stuck_hidden2"]


def test_measuring_does_not_change_a_run(tmp_path: Path) -> None:
    watched = StuckNeurons(window=1, tolerance=100)  # measures the information in every epoch
    one, two = (
        fit(tmp_path / name, *more, network=two_neurons(dropout=[0.5]))
        for name, more in {"a": [], "b": [watched]}.items()
    )
    assert one.series == two.series


class TestExplainedVariance:
    def test_by_hand(self) -> None:
        values = torch.tensor([[0.0, 5, 1], [2.0, 5, 1], [4.0, 5, -1], [6.0, 5, -1]])
        # Of squares 9 + 1 + 1 + 9, the means 1 and 5 of the classes explain 4 * 4; 1 - .2 * 3 / 2.
        share = explained_variance(values.double(), torch.tensor([0, 0, 3, 3]))
        assert share.tolist() == pytest.approx([0.7, 0.0, 1.0])

    def test_regression_uses_the_squared_correlation(self) -> None:
        torch.manual_seed(0)
        values, targets = torch.randn(50, 1).double(), torch.randn(50)
        share = torch.corrcoef(torch.stack([values[:, 0], targets.double()]))[0, 1] ** 2
        adjusted = 1 - (1 - share) * 49 / 48
        assert explained_variance(values, targets).item() == pytest.approx(adjusted)

    def test_chance_explains_nothing_however_many_classes(self) -> None:
        torch.manual_seed(0)
        share = explained_variance(torch.randn(1024, 500).double(), torch.randint(46, (1024,)))
        assert share.mean().item() == pytest.approx(0, abs=2e-3)
