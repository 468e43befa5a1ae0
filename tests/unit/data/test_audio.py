"""Spoken digits, from small recordings; the MFCCs are those of librosa."""

from pathlib import Path

import numpy as np
import pytest

from focusing.data import fsdd
from focusing.data.audio import mfcc, read_wave
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


def test_the_seed_of_the_run_splits(recordings: Path) -> None:
    options = {"speakers": ["bob", "ann"], "split": "random", "split_seed": None}
    first, again, other = (
        fsdd(data_dir=recordings, run_seed=seed, **options) for seed in (0, 0, 17)
    )
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert first.content == other.content  # the same recordings
    (recordings / "fsdd/recordings/7_ann_4.wav").unlink()
    assert fsdd(data_dir=recordings, **options).content != first.content


def test_digits_that_nobody_says_are_missed(recordings: Path) -> None:
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
