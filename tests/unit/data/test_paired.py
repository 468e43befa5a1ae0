"""``data=multi_domain``: pairs of the same class, halves in their places, test data apart."""

from pathlib import Path

import numpy as np
import pytest
import torch

from focusing.data import mnist, multi_domain
from focusing.data.audio import SPEAKERS
from tests.unit.data import makers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs")
    makers.digits(path / "mnist")
    random = np.random.default_rng(0)
    for digit in range(10):
        for number, speaker in enumerate(SPEAKERS):
            name = f"fsdd/recordings/{digit}_{speaker}_{4 + number % 2}.wav"
            makers.recording(path / name, random.normal(scale=0.1, size=4000).clip(-0.9, 0.9))
    return path


def test_a_digit_above_and_its_recording_below(folder: Path) -> None:
    data = multi_domain(data_dir=folder, train=40, test=20)
    images = mnist(data_dir=folder)
    assert (data.train.inputs.shape, data.test.inputs.shape) == ((40, 56, 28, 1), (20, 56, 28, 1))
    assert data.domains == {"image": (0, 784), "audio": (784, 1568)}
    assert data.informative is None
    for split, known in ((data.train, images.train), (data.test, images.test)):
        assert torch.bincount(split.targets).tolist() == [len(split.targets) // 10] * 10
        digits = (split.inputs[:, :28] * 0.3081 + 0.1307) * 255
        distance = (digits[:, None] - known.inputs).abs().amax(dim=(2, 3, 4))
        nearest = distance.argmin(1)
        assert distance.amin(1).max() < 1e-3  # each is a digit of its own split, of its class
        assert known.targets[nearest].equal(split.targets)
        sounds = split.inputs[:, 28:, :, 0]
        np.testing.assert_allclose(sounds.mean(1), 0, atol=1e-4)


@pytest.mark.parametrize(("noise", "informative"), [("image", (784, 1568)), ("audio", (0, 784))])
def test_one_domain_may_be_noise(folder: Path, noise: str, informative: tuple[int, int]) -> None:
    plain, noisy = (
        multi_domain(data_dir=folder, train=200, test=20, noise=kind) for kind in ("none", noise)
    )
    start, stop = informative
    assert noisy.informative == informative
    flat, same = noisy.train.inputs.flatten(1), plain.train.inputs.flatten(1)
    assert flat[:, start:stop].equal(same[:, start:stop])
    rest = torch.cat([flat[:, :start], flat[:, stop:]], dim=1)
    assert abs(rest.mean()) < 0.02
    assert abs(rest.std() - 1) < 0.02
    assert noisy.fingerprint != plain.fingerprint


def test_the_seed_makes_the_pairs(folder: Path) -> None:
    first, second, other = (
        multi_domain(data_dir=folder, train=30, test=10, seed=seed) for seed in (0, 0, 1)
    )
    assert first.train.inputs.equal(second.train.inputs)
    assert first.fingerprint == second.fingerprint != other.fingerprint


def test_digits_and_recordings_are_used_equally_often(folder: Path) -> None:
    data = multi_domain(data_dir=folder, train=60, test=10)  # as many as there are digits
    images = data.train.inputs[:, :28].flatten(1)
    assert len(images.unique(dim=0)) == 60
    sounds = data.train.inputs[:, 28:].flatten(1).unique(dim=0, return_counts=True)[1]
    assert sounds.max() - sounds.min() <= 1
