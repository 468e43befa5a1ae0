"""What a training step does, and what an epoch leaves."""

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from focusing.callbacks import ClipFoci
from focusing.data import Batches, DataSet, Split
from focusing.errors import DivergedError, UserError
from focusing.models import MLP
from focusing.training import trainer
from focusing.training.metrics import loss_of, score
from focusing.training.optimizer import repulsion
from focusing.training.trainer import build_trainer
from tests.unit.training.fitting import OPTIONS, CountSteps, data, net, optim, same_weights, trained


def bare(epochs: int, **options: Any) -> MLP:
    """The same training, written out."""
    network, dataset, settings = net(), data(), optim(**options)
    layer = network.focused_layers()["hidden1"]
    rest = [
        each for each in network.parameters() if each is not layer.mu and each is not layer.sigma
    ]
    optimizer = torch.optim.SGD(
        [
            {"params": rest, "lr": settings.lr},
            {"params": [layer.mu], "lr": settings.lr_mu},
            {"params": [layer.sigma], "lr": settings.lr_sigma},
        ],
        momentum=settings.momentum or 0,
    )
    batches = Batches(dataset.train, settings.batch_size, seed=0)
    for epoch in range(epochs):
        batches.epoch = epoch
        network.train()
        for batch in batches:
            loss = loss_of(network(batch.inputs), batch.targets)
            loss = loss + settings.sigma_l1 * layer.sigma.abs().sum()
            loss = loss + settings.sigma_l2 * layer.sigma.square().sum()
            loss = loss + settings.mu_repulsion * repulsion(layer)
            optimizer.zero_grad()
            loss.backward()
            if settings.clip_value is not None:
                torch.nn.utils.clip_grad_value_(network.parameters(), settings.clip_value)
            optimizer.step()
            layer.constrain_()
    return network


@pytest.mark.parametrize(
    "options",
    [
        {"momentum": 0.9},
        {"clip_value": 0.001},
        {"sigma_l1": 0.1},
        {"sigma_l2": 0.1, "sigma_l1": 0.1},
        {"mu_repulsion": 0.5},
    ],
)
@pytest.mark.parametrize("bundle", [1, 2, 200])
def test_training_is_the_plain_loop(
    tmp_path: Path, options: dict[str, Any], bundle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "MAX_BUNDLE", bundle)
    module = trained(tmp_path, settings=optim(**options), callbacks=[ClipFoci()])
    expected = bare(3, **options)
    for one, two in zip(module.net.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    assert module.global_step == 15


def test_repulsion_costs_nothing_when_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr("focusing.training.optimizer.repulsion", calls.append)
    trained(tmp_path, settings=optim(sigma_l1=0.1), epochs=1)
    assert not calls


def test_metrics_of_each_epoch_are_those_of_the_network(tmp_path: Path) -> None:
    module, dataset = trained(tmp_path), data()
    assert set(module.series) == {
        *(f"{part}/{metric}" for part in ("train", "test") for metric in ("loss", "acc")),
        "focus/sigma_mean",
    }
    assert all(len(values) == 3 for values in module.series.values())
    module.eval()
    with torch.no_grad():
        output = module(dataset.test.inputs)
    assert module.series["test/loss"][-1] == pytest.approx(
        loss_of(output, dataset.test.targets).item()
    )
    right = (output.argmax(1) == dataset.test.targets).float().mean().item()
    assert module.series["test/acc"][-1] == pytest.approx(right)
    sigma = module.net.hidden1.sigma.mean().item()  # type: ignore[union-attr, operator]
    assert module.series["focus/sigma_mean"][-1] == pytest.approx(sigma)


def test_layers_may_differ_in_their_axes(tmp_path: Path) -> None:
    network = net(hidden=[4, 3], topology=(8, 5))
    module = trained(tmp_path, network=network, epochs=1)
    sigmas = [each.sigma.flatten() for each in network.focused_layers().values()]
    assert [len(each) for each in sigmas] == [8, 3]
    mean = torch.cat(sigmas).mean().item()
    assert module.series["focus/sigma_mean"][-1] == pytest.approx(mean)


@pytest.mark.parametrize("bundle", [1, 200])
def test_accumulated_batches_make_one_step(
    tmp_path: Path, bundle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "MAX_BUNDLE", bundle)
    recorder = CountSteps()
    # 70 samples: 5 batches of 14, in twos, and the odd one out.
    module = trained(
        tmp_path, settings=optim(batch_size=14, accumulate=2), callbacks=[recorder], epochs=2
    )
    assert recorder.steps == module.global_step == 6


def test_accumulation_gives_the_gradient_of_the_larger_batch(tmp_path: Path) -> None:
    options = {"batch_norm": False}
    small = trained(
        tmp_path / "a", network=net(**options), settings=optim(batch_size=7, accumulate=2), epochs=1
    )
    large = trained(tmp_path / "b", network=net(**options), settings=optim(batch_size=14), epochs=1)
    for one, two in zip(small.parameters(), large.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_the_same_seed_gives_the_same_bits_whatever_was_drawn_before(tmp_path: Path) -> None:
    options = {"input_dropout": 0.3}
    one = trained(tmp_path / "a", network=net(**options))
    two_net = net(**options)
    torch.rand(99)
    two = trained(tmp_path / "b", network=two_net)
    assert same_weights(one, two)
    assert one.series == two.series


@pytest.mark.parametrize("rate", [1e30, float("inf")])
def test_divergence_stops_the_run_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, rate: float
) -> None:
    class Explode(pl.Callback):
        def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            if trainer.current_epoch == 2:
                with torch.no_grad():
                    pl_module.net.output.weight.mul_(rate).mul_(rate)

    with pytest.raises(DivergedError, match="after epoch 2: try a smaller"):
        trained(tmp_path, callbacks=[Explode()], epochs=5)
    checkpoint = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)
    assert checkpoint["epoch"] == 1
    assert len(checkpoint["series"]["train/loss"]) == 2


def test_regression_has_errors_in_place_of_accuracy(tmp_path: Path) -> None:
    torch.manual_seed(0)
    part = Split(torch.randn(60, 5), torch.randn(60))
    dataset = DataSet("line", "generated", part, part, classes=0)
    assert dataset.metric == "mae"
    assert dataset.outputs == 1
    module = trained(tmp_path, network=MLP(5, 1, [4]), dataset=dataset)
    assert {"test/mae", "test/mse", "test/loss"} <= module.series.keys()
    assert "focus/sigma_mean" not in module.series
    found = score([torch.tensor([[1.0], [3.0]])], [torch.tensor([0.0, 1.0])])
    assert found == {"loss": 2.5, "mae": 1.5, "mse": 2.5}


def test_a_trainer_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="trainer: "):
        build_trainer({**OPTIONS, "accelerator": "abacus"}, tmp_path)
