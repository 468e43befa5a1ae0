"""Training steps, and the metrics of an epoch."""

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from focusing.callbacks import ClipFoci
from focusing.data import Batches, DataSet, Split
from focusing.errors import DivergedError
from focusing.models import MLP
from focusing.training import trainer
from focusing.training.metrics import detailed_metrics, loss_of, predicted, score
from focusing.training.optimizer import repulsion
from tests.unit.training.fitting import CountSteps, data, net, optim, same_weights, trained


def bare(epochs: int, **options: Any) -> MLP:
    """The same training as a plain loop."""
    network, dataset, settings = net(), data(), optim(**options)
    layer = network.focused_layers()["hidden1"]
    foci = {layer.mu, layer.sigma}
    optimizer = torch.optim.SGD(
        [
            {"params": [p for p in network.parameters() if p not in foci], "lr": settings.lr},
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
    ("options", "bundle"),
    [
        ({"momentum": 0.9}, 1),
        ({"momentum": 0.9}, 2),
        ({"clip_value": 0.001}, 200),
        ({"sigma_l2": 0.1, "sigma_l1": 0.1}, 200),
        ({"mu_repulsion": 0.5}, 200),
    ],
)
def test_training_matches_a_plain_loop(
    tmp_path: Path, options: dict[str, Any], bundle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "MAX_BUNDLE", bundle)
    module = trained(tmp_path, settings=optim(**options), callbacks=[ClipFoci()])
    expected = bare(3, **options)
    for one, two in zip(module.net.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    assert module.global_step == 15


def test_metrics_match_the_network(tmp_path: Path) -> None:
    network = net(hidden=[4, 3], topology=(8, 5))  # foci of two axes, then of one
    module, dataset = trained(tmp_path, network=network), data()
    assert set(module.series) == {
        *(f"{split}/{metric}" for split in ("train", "test") for metric in ("loss", "acc")),
        "focus/sigma_mean",
    }
    assert all(len(values) == 3 for values in module.series.values())
    module.eval()
    with torch.no_grad():
        output = module(dataset.test.inputs)
    expected = loss_of(output, dataset.test.targets).item()
    assert module.series["test/loss"][-1] == pytest.approx(expected)
    accuracy = (output.argmax(1) == dataset.test.targets).double().mean().item()
    assert module.series["test/acc"][-1] == accuracy
    assert module.test_metrics is not None
    assert module.test_metrics["accuracy"] == pytest.approx(accuracy)
    sigmas = [layer.sigma.flatten() for layer in network.focused_layers().values()]
    mean = torch.cat(sigmas).mean().item()
    assert module.series["focus/sigma_mean"][-1] == pytest.approx(mean)


@pytest.mark.parametrize("bundle", [1, 200])
def test_accumulation_makes_one_step_of_several_batches(
    tmp_path: Path, bundle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "MAX_BUNDLE", bundle)
    counter = CountSteps()
    # 70 samples: 5 batches of 14, in twos, and the odd one out.
    settings = optim(batch_size=14, accumulate=2)
    module = trained(tmp_path, settings=settings, callbacks=[counter], epochs=2)
    assert counter.steps == module.global_step == 6


def test_accumulation_gives_the_gradient_of_the_larger_batch(tmp_path: Path) -> None:
    small, large = (
        trained(tmp_path / name, network=net(batch_norm=False), settings=settings, epochs=1)
        for name, settings in {
            "small": optim(batch_size=7, accumulate=2),
            "large": optim(batch_size=14),
        }.items()
    )
    for one, two in zip(small.parameters(), large.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_a_seed_gives_the_same_bits_whatever_was_drawn_before(tmp_path: Path) -> None:
    one = trained(tmp_path / "a", network=net(input_dropout=0.3))
    network = net(input_dropout=0.3)
    torch.rand(99)
    two = trained(tmp_path / "b", network=network)
    assert same_weights(one, two)
    assert one.series == two.series


@pytest.mark.parametrize("factor", [1e30, float("inf")])
def test_divergence_stops_the_run_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, factor: float
) -> None:
    class Explode(pl.Callback):
        def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            if trainer.current_epoch == 2:
                with torch.no_grad():
                    pl_module.net.output.weight.mul_(factor).mul_(factor)

    with pytest.raises(DivergedError, match="after epoch 2: try a smaller"):
        trained(tmp_path, callbacks=[Explode()], epochs=5)
    checkpoint = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)
    assert checkpoint["epoch"] == 1
    assert len(checkpoint["series"]["train/loss"]) == 2


def test_metrics_of_regression(tmp_path: Path) -> None:
    torch.manual_seed(0)
    split = Split(torch.randn(60, 5), torch.randn(60))
    dataset = DataSet("line", "generated", split, split, classes=0)
    assert (dataset.metric, dataset.outputs) == ("mae", 1)
    module = trained(tmp_path, network=MLP(5, 1, [4]), dataset=dataset)
    assert {"test/mae", "test/mse", "test/loss"} <= module.series.keys()
    assert "focus/sigma_mean" not in module.series
    assert module.test_metrics is not None
    assert module.test_metrics.keys() == {"mae", "mse", "r2"}
    assert module.test_metrics["mae"] == pytest.approx(module.series["test/mae"][-1])


class TestMetrics:
    def test_one_logit_is_equivalent_to_two(self) -> None:
        torch.manual_seed(0)
        logit, targets = torch.randn(9, 1), torch.randint(0, 2, (9,))
        both = torch.cat([torch.zeros(9, 1), logit], dim=1)  # softmax of (0, z): sigmoid of z
        assert loss_of(logit, targets).item() == pytest.approx(loss_of(both, targets).item())
        assert torch.equal(predicted(logit), predicted(both))
        assert score([logit], [targets]) == pytest.approx(score([both], [targets]))
        assert detailed_metrics([logit], [targets]) == detailed_metrics([both], [targets])

    def test_scores_by_hand(self) -> None:
        scores = score([torch.tensor([[0.0], [2.0], [-1.0]])], [torch.tensor([1, 1, 0])])
        assert scores["acc"] == 2 / 3  # at an even chance the first class is predicted
        assert scores["loss"] == pytest.approx((0.693147 + 0.126928 + 0.313262) / 3, abs=1e-5)
        scores = score([torch.tensor([[1.0], [3.0]])], [torch.tensor([0.0, 1.0])])
        assert scores == {"loss": 2.5, "mae": 1.5, "mse": 2.5}

    def test_details_by_hand(self) -> None:
        # Of three classes, four samples: right, right, 1 taken for 0, 2 taken for 1.
        output = torch.tensor([[9.0, 0, 0], [0, 9.0, 0], [9.0, 0, 0], [0, 9.0, 0]])
        details = detailed_metrics([output[:1], output[1:]], [torch.tensor([0, 1, 1, 2])])
        assert details["confusion_matrix"] == [[1, 0, 0], [1, 1, 0], [0, 1, 0]]
        assert details["accuracy"] == 0.5
        assert details["macro_f1"] == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
        assert details["calibration_error"] == pytest.approx(0.5, abs=1e-3)  # sure, half wrong

    @pytest.mark.parametrize(
        ("targets", "expected"),
        [
            ([0.0, 2.0], {"mae": 0.5, "mse": 0.5, "r2": 0.5}),
            ([1.0, 1.0], {"mae": 0.5, "mse": 0.5, "r2": None}),  # no variance to explain
        ],
    )
    def test_details_of_regression(self, targets: list[float], expected: dict[str, Any]) -> None:
        output = [torch.tensor([[1.0], [2.0]])]
        assert detailed_metrics(output, [torch.tensor(targets)]) == pytest.approx(expected)
