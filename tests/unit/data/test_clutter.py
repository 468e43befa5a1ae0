from pathlib import Path

import numpy as np
import pytest

from focusing.data import clt
from focusing.data.generated import clutter
from focusing.errors import UserError
from tests.unit.data import makers

DIGITS = np.random.default_rng(0).integers(1, 256, (50, 28, 28), dtype=np.uint8)


def test_an_image_is_its_digit_and_its_patches_added_and_clipped() -> None:
    images, which = clutter(DIGITS, 30, 60, 6, 8, [7])
    # The same numbers in the same order, one image and one patch at a time.
    random = np.random.default_rng([7])
    expected_which = random.permutation(50)[:30]
    places = random.integers(0, 33, (30, 2))
    others = random.integers(0, 50, (30, 6))
    windows = random.integers(0, 21, (30, 6, 2))
    spots = random.integers(0, 53, (30, 6, 2))
    np.testing.assert_array_equal(which, expected_which)
    for row in range(30):
        canvas = np.zeros((60, 60), dtype=int)
        y, x = places[row]
        canvas[y : y + 28, x : x + 28] += DIGITS[which[row]]
        for other, (top, left), (y, x) in zip(others[row], windows[row], spots[row], strict=True):
            canvas[y : y + 8, x : x + 8] += DIGITS[other, top : top + 8, left : left + 8]
        np.testing.assert_array_equal(images[row], canvas.clip(max=255))


def test_every_digit_is_used_equally_often() -> None:
    _, which = clutter(DIGITS, 125, 60, 0, 8, [0])
    assert set(np.bincount(which)) == {2, 3}


def test_other_sizes() -> None:
    images, _ = clutter(DIGITS, 5, 28, 3, 28, [0])
    assert images.shape == (5, 28, 28)


def test_test_images_have_nothing_of_training_digits(tmp_path: Path) -> None:
    makers.digits(tmp_path / "mnist")  # odd pixels train, even ones test; few are clipped
    data = clt(data_dir=tmp_path, patches=6)
    train, test = data.train.inputs, data.test.inputs
    assert train.shape == (60, 60, 60, 1)
    sums_clipped = test == 255
    assert bool((test[~sums_clipped] % 2 == 0).all())
    assert bool((train % 2 == 1).any())


def test_numbers_and_seed_can_be_chosen(tmp_path: Path) -> None:
    makers.digits(tmp_path / "mnist")
    data = clt(data_dir=tmp_path, train=90, test=7, size=40, patches=2, patch_size=5)
    assert data.train.inputs.shape == (90, 40, 40, 1)
    assert len(data.test.targets) == 7
    first, second, other = (clt(data_dir=tmp_path, seed=seed) for seed in (1, 1, 2))
    assert first.fingerprint == second.fingerprint != other.fingerprint
    assert first.source == "generated, local"


@pytest.mark.parametrize("one_hot", [True, False])
@pytest.mark.parametrize(
    ("variant", "side", "name"),
    [
        ("original", 60, "mnist_cluttered_60x60_6distortions.npz"),
        ("small", 40, "mnist_sequence1_sample_5distortions5x5.npz"),
    ],
)
def test_files_of_others(tmp_path: Path, variant: str, side: int, name: str, one_hot: bool) -> None:
    (tmp_path / "mnist-cluttered").mkdir()
    arrays = {}
    for part, count in (("train", 20), ("valid", 10), ("test", 5)):
        arrays[f"x_{part}"] = np.full((count, side * side), len(part) / 10, np.float32)
        labels = np.arange(count) % 10
        arrays[f"y_{part}"] = np.eye(10)[labels] if one_hot else labels[:, None]
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


@pytest.mark.parametrize("option", ["size", "patches", "patch_size", "seed", "train", "test"])
@pytest.mark.parametrize("fake", [True, False])
def test_a_file_is_not_generated(tmp_path: Path, option: str, fake: bool) -> None:
    with pytest.raises(UserError, match=f"data.{option}=28 is for data.variant=generated, not"):
        clt(data_dir=tmp_path, variant="small", fake=fake, **{option: 28})


@pytest.mark.parametrize(
    "options", [{"size": 20}, {"patch_size": 29}, {"patches": -1}, {"variant": "big"}, {"seed": -1}]
)
def test_impossible_options_are_refused(tmp_path: Path, options) -> None:
    with pytest.raises(UserError, match="data"):
        clt(data_dir=tmp_path, **options)
