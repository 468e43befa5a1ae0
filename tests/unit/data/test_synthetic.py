"""The paper's synthetic data."""

import pytest
import torch

from focusing.data import hold_out, synthetic
from focusing.errors import UserError


def test_sizes_and_standardised_on_the_training_part() -> None:
    data = synthetic(n_samples=1000, test_share=0.3)
    assert data.train.inputs.shape == (700, 40)
    assert data.test.inputs.shape == (300, 40)
    assert (data.inputs, data.outputs, data.classes, data.metric) == (40, 2, 2, "accuracy")
    torch.testing.assert_close(data.train.inputs.mean(0), torch.zeros(40), atol=1e-5, rtol=0)
    spread = data.train.inputs.std(0, correction=0)
    torch.testing.assert_close(spread, torch.ones(40), atol=1e-5, rtol=0)
    assert data.test.inputs.mean(0).abs().max() > 1e-4  # not on the test part


@pytest.mark.parametrize(
    ("position", "region"),
    [("left", (20, 40)), ("right", (0, 20)), ("sides", (10, 30)), ("none", (0, 20))],
)
@pytest.mark.parametrize("generator", ["blobs", "classification"])
def test_the_noise_is_where_it_should_be(
    position: str, region: tuple[int, int], generator: str
) -> None:
    data = synthetic(
        n_samples=4000, noise_position=position, generator=generator, separation=2, clusters=1
    )
    assert data.informative == region
    inputs, targets = data.train
    gap = (inputs[targets == 0].mean(0) - inputs[targets == 1].mean(0)).abs()
    inside = torch.zeros(len(gap), dtype=torch.bool)
    inside[slice(*region)] = True
    assert gap[inside].mean() > 0.3
    assert not (~inside).any() or gap[~inside].max() < 0.15


def test_seed_and_fingerprint() -> None:
    one, same, other = (
        synthetic(n_samples=50),
        synthetic(n_samples=50),
        synthetic(n_samples=50, seed=1),
    )
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert len(one.fingerprint) == 16


def test_limits_keep_the_shares_of_the_classes() -> None:
    data = synthetic(n_samples=1000, classes=4, limit_train=100, limit_test=40)
    for part, share in ((data.train, 25), (data.test, 10)):
        assert len(part.targets) == 4 * share
        assert (part.targets.bincount() - share).abs().max() <= 2
    assert data.train.inputs.mean(0).abs().max() < 1e-5
    with pytest.raises(UserError, match="data.limit_test=0 must be at least 1"):
        synthetic(limit_test=0)


def test_statistics_leave_out_what_is_held_out() -> None:
    data = synthetic(n_samples=200, holdout=0.4, run_seed=7)
    kept, held = hold_out(data.train, 0.4, seed=7, classes=2)
    assert kept.inputs.mean(0).abs().max() < 1e-5
    assert held.inputs.mean(0).abs().max() > 0.01


def test_a_fake_has_the_same_shape() -> None:
    options = {"classes": 3, "informative": 7, "noise": 4, "noise_position": "sides"}
    real, fake = (synthetic(**options, fake=each, limit_train=30) for each in (False, True))
    assert fake.source == "fake"
    assert fake.train.inputs.shape == real.train.inputs.shape == (30, 11)
    assert fake.informative == real.informative == (2, 9)
    assert fake.classes == 3


def test_uniform_noise_is_bounded() -> None:
    data = synthetic(n_samples=500, noise_kind="uniform", noise_position="left")
    assert data.train.inputs[:, :20].abs().max() < 2


def test_classes_are_balanced() -> None:
    data = synthetic(n_samples=800, classes=4, clusters=2)
    counts = torch.cat([data.train.targets, data.test.targets]).bincount()
    assert counts.tolist() == [200] * 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"generator": "moons"}, "generator=moons is not one of"),
        ({"noise_position": "top"}, "noise_position=top"),
        ({"noise_kind": "pink"}, "noise_kind=pink"),
        ({"test_share": 1.0}, "leaves one part"),
        ({"generator": "classification", "informative": 1, "classes": 4}, "data: n_classes"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        synthetic(n_samples=50, **options)  # type: ignore[arg-type]
