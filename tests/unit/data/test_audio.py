"""Spoken digits from small recordings, MFCCs compared with librosa, and pairs with images."""

from pathlib import Path

import numpy as np
import pytest
import torch

from focusing.data import fsdd, mnist, multi_domain
from focusing.data.audio import SPEAKERS, mfcc, read_wave
from focusing.errors import UserError
from tests.unit.data import makers


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    makers.recordings(tmp_path / "fsdd/recordings")
    return tmp_path


def test_recordings_of_chosen_speakers(recordings: Path) -> None:
    data = fsdd(data_dir=recordings, speakers=["ann"], frames=12)
    assert data.train.inputs.shape == (10, 20, 12, 1)  # number 5 of each digit
    assert data.test.targets.tolist() == [*range(10)]  # number 4
    both = fsdd(data_dir=recordings, speakers=["bob", "ann"], split="random")
    assert np.bincount(both.train.targets).tolist() == [2] * 10  # half and half, as the paper
    assert np.bincount(both.test.targets).tolist() == [2] * 10
    fold = fsdd(data_dir=recordings, speakers=["bob", "ann"], split="kfold(4)", fold=3)
    assert np.bincount(fold.test.targets).tolist() == [1] * 10


def test_the_run_seed_can_draw_the_split(recordings: Path) -> None:
    options = {"speakers": ["bob", "ann"], "split": "random", "split_seed": None}
    first, again, other = (
        fsdd(data_dir=recordings, run_seed=seed, **options) for seed in (0, 0, 17)
    )
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert first.content == other.content  # the same recordings
    (recordings / "fsdd/recordings/7_ann_4.wav").unlink()
    assert fsdd(data_dir=recordings, **options).content != first.content


def test_missing_digits_are_refused(recordings: Path) -> None:
    for number in (4, 5):
        (recordings / f"fsdd/recordings/7_ann_{number}.wav").unlink()
    for speakers, sentence in (
        (["ann"], "recordings holds no recording of 7 by ann"),
        (["eve"], "data.speakers: eve is not one of ann, bob"),
        ([], "data.speakers is empty"),
    ):
        with pytest.raises(UserError, match=sentence):
            fsdd(data_dir=recordings, speakers=speakers)
    assert fsdd(data_dir=recordings, speakers=["ann", "bob"]).classes == 10


def test_short_recordings_end_in_silence_and_long_ones_are_cut(recordings: Path) -> None:
    long = fsdd(data_dir=recordings, speakers=["ann"], frames=20).train
    loudness = long.inputs[0, 0, :, 0]  # 1 + 1500 // 160 frames of sound, one more hears its end
    assert loudness[11:].unique().numel() == 1
    assert loudness[11] < loudness[:10].min()
    assert long.inputs[0, 1:, 11:].abs().max() < 1e-3  # the same in all bands
    short = fsdd(data_dir=recordings, speakers=["ann"], frames=5).train
    assert bool(short.inputs.eq(long.inputs[:, :, :5]).all())


# librosa 0.11 on the signal below: coefficients 0 to 9 of frames 0 and 20
FIRST = [-150.5916, 91.3814, 15.7637, 3.3366, -8.8478, -12.2791, -11.9107, -7.6428, -2.7277, 1.7534]
LATER = [-322.0205, 18.3678, -18.0089, 59.2155, -50.8593, -93.965, 2.1297, -34.7833, -44.3731]
LATER.append(43.3849)


def test_mfcc_is_librosas() -> None:
    """Its mel filters, power_to_db and mfcc(n_mfcc=20), whose import alone takes half a minute."""
    time = np.arange(4000) / 8000
    rising = np.sin(2 * np.pi * (200 + 3000 * time) * time)
    signal = 0.3 * np.sin(2 * np.pi * 440 * time) + 0.1 * rising
    result = mfcc(signal, 8000, coefficients=20, bands=40, window=512, hop=100)
    assert result.shape == (20, 41)
    np.testing.assert_allclose(result[:10, [0, 20]].T, [FIRST, LATER], atol=1e-3)


def test_another_rate_is_refused(tmp_path: Path) -> None:
    makers.recording(tmp_path / "x.wav", np.zeros(100), rate=16000)
    with pytest.raises(UserError, match=r"\(1, 2, 16000\) instead of one channel"):
        read_wave(tmp_path / "x.wav")


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
