"""Neurons that see nothing and stay there are counted; those that are of use, or move, are not."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from focusing.callbacks import ClipFoci, StuckNeurons
from focusing.callbacks.stuck_neurons import explained
from focusing.data import DataSet, Split, synthetic
from focusing.models import MLP, focused_mlp
from focusing.training.module import FocusingModule
from tests.unit.training.fitting import net, optim, trained


def half_noise() -> DataSet:
    """Twenty inputs of noise, then twenty of which each tells the class."""
    torch.manual_seed(0)
    inputs, targets = torch.randn(400, 40), torch.randint(2, (400,))
    inputs[:, 20:] += 2.0 * targets[:, None] - 1
    part = Split(inputs, targets)
    return DataSet("half", "generated", part, part, classes=2)


def two_neurons(**options: Any) -> MLP:
    """One amid the noise, one amid the information."""
    torch.manual_seed(0)
    network = focused_mlp(40, 2, hidden=[2], mu=[0.2, 0.8], sigma=0.03, **options)
    nn.init.ones_(network.hidden1.weight)  # type: ignore[arg-type, union-attr]
    return network


def fit(folder: Path, callback: StuckNeurons, network: MLP, **options: Any) -> FocusingModule:
    rates = options.pop("settings", optim(lr=0.01, lr_mu=1e-4, lr_sigma=1e-4))
    return trained(
        folder,
        network=network,
        dataset=half_noise(),
        settings=rates,
        callbacks=[callback, ClipFoci()],
        **options,
    )


def test_a_neuron_in_noise_is_stuck_and_one_in_its_place_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    callback = StuckNeurons(window=3)
    with caplog.at_level(logging.WARNING):
        module = fit(tmp_path, callback, two_neurons(), epochs=4)
    assert callback.stuck == {"hidden1": 1}
    assert callback.measurements({}) == {
        "measured": {"stuck": {"hidden1": {"neurons": 2, "stuck": [0]}}}
    }
    assert module.trainer.callback_metrics["focus/stuck"] == 1
    assert caplog.text.count("1 of 2 in hidden1 went nowhere in the last 3 epochs") == 1


def test_not_before_the_window_is_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    callback = StuckNeurons(window=4)
    module = fit(tmp_path, callback, two_neurons(), epochs=3)
    assert callback.stuck == {"hidden1": 0}
    assert module.trainer.callback_metrics["focus/stuck"] == 0
    assert "Stuck" not in caplog.text


class Walk(ClipFoci):
    """Takes the first neuron's mu along a path, whatever the optimizer does."""

    def __init__(self, path: list[float]) -> None:
        super().__init__()
        self.path = path

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        with torch.no_grad():
            pl_module.net.hidden1.mu[0] = 0.2 + self.path[trainer.current_epoch]


@pytest.mark.parametrize(
    ("path", "stuck"),
    [
        ([0.05, -0.05, 0.05, 0.0], 1),  # jiggles, and is where it was
        ([0.004, 0.008, 0.012, 0.016], 0),  # small steps, but more than half of .03 in all
        ([0.003, 0.006, 0.009, 0.012], 1),  # less
    ],
)
def test_the_whole_way_counts_and_not_the_steps(
    tmp_path: Path, path: list[float], stuck: int
) -> None:
    callback = StuckNeurons(window=4, tolerance=0.5)
    walk = Walk(path)
    trained(
        tmp_path,
        network=two_neurons(),
        dataset=half_noise(),
        settings=optim(lr=1e-30, lr_mu=1e-30, lr_sigma=1e-30),
        callbacks=[walk, callback],  # first the step, then the look
        epochs=4,
    )
    assert callback.stuck == {"hidden1": stuck}


@pytest.mark.parametrize(
    ("foci", "stuck"),
    [({"mu": 0.25, "sigma": 0.025}, 3), ({"mu": 0.75, "sigma": 0.08}, 0)],
    ids=["in the noise", "off the noise"],
)
def test_the_paper_s_jammed_neurons_are_noticed(
    tmp_path: Path, foci: dict[str, float], stuck: int
) -> None:
    """``experiment=stuck``, and the same from the informative half."""
    callback = StuckNeurons()
    trained(
        tmp_path,
        network=net(**foci),
        dataset=synthetic(),
        settings=optim(lr=1e-3, lr_mu=1e-3, lr_sigma=1e-4, momentum=0.9, batch_size=128),
        callbacks=[callback, ClipFoci()],
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
    fit(tmp_path, callback, network, epochs=1)
    assert callback.which["hidden1"].tolist() == [True, True]


def test_fixed_foci_are_not_stuck(tmp_path: Path) -> None:
    callback = StuckNeurons(window=1)
    module = fit(tmp_path, callback, two_neurons(train_mu=False, train_sigma=False), epochs=2)
    assert callback.stuck == callback.measurements({}) == {}
    assert "focus/stuck" not in module.trainer.callback_metrics


def test_with_sigma_fixed_only_mu_counts(tmp_path: Path) -> None:
    callback = StuckNeurons(window=2)
    fit(tmp_path, callback, two_neurons(train_sigma=False), epochs=2)
    assert callback.stuck == {"hidden1": 1}


def test_several_layers_are_told_apart(tmp_path: Path) -> None:
    module = fit(tmp_path, StuckNeurons(window=1), net(hidden=[4, 3], sigma=0.3), epochs=2)
    metrics = module.trainer.callback_metrics
    assert metrics["focus/stuck"] == metrics["focus/stuck_hidden1"] + metrics["focus/stuck_hidden2"]


def test_a_run_is_the_same_with_it_and_counting_goes_on_after_a_resume(tmp_path: Path) -> None:
    plain = trained(tmp_path / "plain", network=two_neurons(), dataset=half_noise(), epochs=3)
    whole, first, second = (StuckNeurons(window=3, tolerance=100) for _ in range(3))
    options: dict[str, Any] = {"network": two_neurons(dropout=[0.5]), "dataset": half_noise()}
    trained(tmp_path / "a", **options, callbacks=[whole], epochs=5)
    options["network"] = two_neurons(dropout=[0.5])
    trained(tmp_path / "b", **options, callbacks=[first], epochs=3)
    options["network"] = two_neurons(dropout=[0.5])
    last = tmp_path / "b" / "checkpoints" / "last.ckpt"
    trained(tmp_path / "b", **options, callbacks=[second], epochs=5, resume_from=last.parent)
    torch.testing.assert_close(second.state_dict(), whole.state_dict(), rtol=0, atol=0)
    watched = StuckNeurons(window=1, tolerance=100)  # asks for the information in each epoch
    options = {"network": two_neurons(), "dataset": half_noise()}
    module = trained(tmp_path / "c", **options, callbacks=[watched], epochs=3)
    assert module.series == plain.series


@pytest.mark.parametrize("option", ["window", "samples"])
def test_an_empty_window_is_refused(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option}=0"):
        StuckNeurons(**{option: 0})


class TestExplained:
    def test_by_hand(self) -> None:
        values = torch.tensor(
            [[0.0, 5.0, 1.0], [2.0, 5.0, 1.0], [4.0, 5.0, -1.0], [6.0, 5.0, -1.0]]
        )
        # Of squares 9 + 1 + 1 + 9, the means 1 and 5 of the classes explain 4 * 4; 1 - .2 * 3 / 2.
        found = explained(values.double(), torch.tensor([0, 0, 3, 3]))
        assert found.tolist() == pytest.approx([0.7, 0.0, 1.0])

    def test_of_regression_it_is_the_squared_correlation(self) -> None:
        torch.manual_seed(0)
        values, targets = torch.randn(50, 1).double(), torch.randn(50)
        share = torch.corrcoef(torch.stack([values[:, 0], targets.double()]))[0, 1] ** 2
        assert explained(values, targets).item() == pytest.approx(1 - (1 - share) * 49 / 48)

    def test_chance_explains_nothing_however_many_classes(self) -> None:
        torch.manual_seed(0)
        found = explained(torch.randn(1024, 500).double(), torch.randint(46, (1024,)))
        assert found.mean().item() == pytest.approx(0, abs=2e-3)
