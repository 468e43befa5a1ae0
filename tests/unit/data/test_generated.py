"""The paper's synthetic data and cluttered MNIST."""

from pathlib import Path

import numpy as np
import pytest
import torch

from focusing.data import clt, hold_out, shifted, synthetic
from focusing.data.generated import clutter
from focusing.errors import UserError
from tests.unit.data import makers

DIGITS = np.random.default_rng(0).integers(1, 256, (50, 28, 28), dtype=np.uint8)


def test_columns_are_standardised_on_the_training_data() -> None:
    data = synthetic(n_samples=1000, test_share=0.3)
    assert data.train.inputs.shape == (700, 40)
    assert data.test.inputs.shape == (300, 40)
    assert (data.inputs, data.outputs, data.classes, data.metric) == (40, 2, 2, "accuracy")
    torch.testing.assert_close(data.train.inputs.mean(0), torch.zeros(40), atol=1e-5, rtol=0)
    spread = data.train.inputs.std(0, correction=0)
    torch.testing.assert_close(spread, torch.ones(40), atol=1e-5, rtol=0)
    assert data.test.inputs.mean(0).abs().max() > 1e-4
    held = synthetic(n_samples=200, holdout=0.4, run_seed=7)
    kept, held = hold_out(held.train, 0.4, seed=7, classes=2)
    assert kept.inputs.mean(0).abs().max() < 1e-5  # statistics leave out the validation split
    assert held.inputs.mean(0).abs().max() > 0.01


@pytest.mark.parametrize(
    ("position", "region"),
    [("left", (20, 40)), ("right", (0, 20)), ("sides", (10, 30)), ("none", (0, 20))],
)
@pytest.mark.parametrize("generator", ["blobs", "classification"])
def test_noise_position(position: str, region: tuple[int, int], generator: str) -> None:
    options = {"noise_position": position, "generator": generator, "noise_kind": "uniform"}
    data = synthetic(n_samples=4000, separation=2, clusters=1, **options)
    assert data.informative == region
    inputs, targets = data.train
    gap = (inputs[targets == 0].mean(0) - inputs[targets == 1].mean(0)).abs()
    inside = torch.zeros(len(gap), dtype=torch.bool)
    inside[slice(*region)] = True
    assert gap[inside].mean() > 0.3
    assert not (~inside).any() or gap[~inside].max() < 0.15
    assert not (~inside).any() or inputs[:, ~inside].abs().max() < 2  # uniform


def test_the_seed_decides_the_data() -> None:
    one, same, other = (synthetic(n_samples=50, seed=seed) for seed in (0, 0, 1))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert len(one.fingerprint) == 16


def test_classes_are_balanced_with_and_without_limits() -> None:
    data = synthetic(n_samples=800, classes=4, clusters=2)
    assert torch.cat([data.train.targets, data.test.targets]).bincount().tolist() == [200] * 4
    data = synthetic(n_samples=1000, classes=4, limit_train=100, limit_test=40)
    for split, share in ((data.train, 25), (data.test, 10)):
        assert len(split.targets) == 4 * share
        assert (split.targets.bincount() - share).abs().max() <= 2
    assert data.train.inputs.mean(0).abs().max() < 1e-5


def test_clutter_matches_a_plain_loop() -> None:
    images, which = clutter(DIGITS, 30, 60, 6, 8, [7])
    # The same random numbers in the same order, one image and one patch at a time.
    random = np.random.default_rng([7])
    np.testing.assert_array_equal(which, random.permutation(50)[:30])
    places = random.integers(0, 33, (30, 2))
    others = random.integers(0, 50, (30, 6))
    windows = random.integers(0, 21, (30, 6, 2))
    spots = random.integers(0, 53, (30, 6, 2))
    for row in range(30):
        canvas = np.zeros((60, 60), dtype=int)
        y, x = places[row]
        canvas[y : y + 28, x : x + 28] += DIGITS[which[row]]
        for other, (top, left), (y, x) in zip(others[row], windows[row], spots[row], strict=True):
            canvas[y : y + 8, x : x + 8] += DIGITS[other, top : top + 8, left : left + 8]
        np.testing.assert_array_equal(images[row], canvas.clip(max=255))


def test_every_digit_is_used_equally_often_at_any_size() -> None:
    images, which = clutter(DIGITS, 125, 28, 3, 28, [0])
    assert set(np.bincount(which)) == {2, 3}
    assert images.shape == (125, 28, 28)


def test_options_of_clutter(tmp_path: Path) -> None:
    makers.digits(tmp_path / "mnist")  # odd pixels train, even ones test; few are clipped
    data = clt(data_dir=tmp_path, train=90, test=7, size=40, patches=2, patch_size=5)
    assert data.train.inputs.shape == (90, 40, 40, 1)
    assert len(data.test.targets) == 7
    first, second, other = (clt(data_dir=tmp_path, seed=seed) for seed in (1, 1, 2))
    assert first.fingerprint == second.fingerprint != other.fingerprint
    assert first.source == "generated, local"
    train, test = first.train.inputs, first.test.inputs
    assert train.shape == (60, 60, 60, 1)
    assert bool((test[test != 255] % 2 == 0).all())  # nothing of training digits
    assert bool((train % 2 == 1).any())


def test_a_shifted_image_has_only_its_digit(tmp_path: Path) -> None:
    makers.digits(tmp_path / "mnist")
    data, again, other = (shifted(data_dir=tmp_path, size=40, seed=seed) for seed in (0, 0, 1))
    assert data.fingerprint == again.fingerprint != other.fingerprint
    assert (data.name, data.source) == ("shifted", "generated, local")
    assert data.train.inputs.shape == (60, 40, 40, 1)
    for image in data.test.inputs[..., 0]:
        rows, columns = (image.any(1 - axis).nonzero().flatten() for axis in (0, 1))
        assert max(rows[-1] - rows[0], columns[-1] - columns[0]) < 28
    corners = {int(image.any(1).nonzero()[0]) for image in data.train.inputs[..., 0]}
    assert len(corners) > 3


@pytest.mark.parametrize("one_hot", [True, False])
@pytest.mark.parametrize(
    ("variant", "side", "name"),
    [
        ("original", 60, "mnist_cluttered_60x60_6distortions.npz"),
        ("small", 40, "mnist_sequence1_sample_5distortions5x5.npz"),
    ],
)
def test_clutter_from_a_file(
    tmp_path: Path, variant: str, side: int, name: str, one_hot: bool
) -> None:
    (tmp_path / "mnist-cluttered").mkdir()
    arrays = {}
    for split, count in (("train", 20), ("valid", 10), ("test", 5)):
        arrays[f"x_{split}"] = np.full((count, side * side), len(split) / 10, np.float32)
        labels = np.arange(count) % 10
        arrays[f"y_{split}"] = np.eye(10)[labels] if one_hot else labels[:, None]
    path = tmp_path / "mnist-cluttered" / name
    path.write_bytes(makers.npz(**arrays))
    data = clt(data_dir=tmp_path, variant=variant, preprocess="unit")
    assert data.train.inputs.shape == (30, side, side, 1)  # train and valid
    assert data.train.targets.tolist() == [*range(10)] * 3
    assert data.test.inputs.unique().tolist() == pytest.approx([0.4])
    assert data.source == f"{variant}, local"
    path.write_bytes(makers.npz(x_train=arrays["x_train"]))
    with pytest.raises(UserError, match="it has no x_test"):
        clt(data_dir=tmp_path, variant=variant)
