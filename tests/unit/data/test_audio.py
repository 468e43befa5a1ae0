"""Spoken digits, from small recordings; the MFCCs are those of librosa."""

from pathlib import Path

import numpy as np
import pytest

from focusing.data import fsdd
from focusing.data.audio import mfcc, read_wave
from focusing.errors import UserError
from tests.unit.data import makers

random = np.random.default_rng(0)


def sound(samples: int) -> np.ndarray:
    time = np.arange(samples) / 8000
    return 0.3 * np.sin(2 * np.pi * 440 * time) + 0.1 * random.standard_normal(samples).clip(-3, 3)


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    for digit in range(10):
        for speaker in ("ann", "bob"):
            for number in range(4, 6):
                name = f"fsdd/recordings/{digit}_{speaker}_{number}.wav"
                makers.recording(tmp_path / name, sound(1500 + 100 * digit))
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
    with pytest.raises(UserError, match="recordings holds no recording of 7 by ann"):
        fsdd(data_dir=recordings, speakers=["ann"])
    assert fsdd(data_dir=recordings, speakers=["ann", "bob"]).classes == 10


def test_short_recordings_end_in_silence_and_long_ones_are_cut(recordings: Path) -> None:
    long = fsdd(data_dir=recordings, speakers=["ann"], frames=20).train
    loudness = long.inputs[0, 0, :, 0]  # 1 + 1500 // 160 frames of sound, one more hears its end
    assert loudness[11:].unique().numel() == 1
    assert loudness[11] < loudness[:10].min()
    assert long.inputs[0, 1:, 11:].abs().max() < 1e-3  # the same in all bands
    short = fsdd(data_dir=recordings, speakers=["ann"], frames=5).train
    assert bool(short.inputs.eq(long.inputs[:, :, :5]).all())


# fmt: off
LIBROSA = {  # librosa 0.11 on the signal below: coefficients 0 to 9 of frames 0 and 20
    256: [
        [-172.0581, 88.1896, 13.3091, 2.0471, -8.7801, -10.9302, -9.6286, -4.9183, -0.0792, 3.898],
        [-353.7731, 37.6337, -6.7969, 49.0677, -59.3383, -98.9094, -6.3667, -34.62, -38.8269,
         44.8474],
    ],
    512: [
        [-150.5916, 91.3814, 15.7637, 3.3366, -8.8478, -12.2791, -11.9107, -7.6428, -2.7277,
         1.7534],
        [-322.0205, 18.3678, -18.0089, 59.2155, -50.8593, -93.965, 2.1297, -34.7833, -44.3731,
         43.3849],
    ],
    2048: [
        [-102.6418, 101.4514, 16.9894, -3.0937, -17.2564, -17.3704, -12.4704, -6.2871, -2.6564,
         -0.3285],
        [-175.5031, -29.7423, -94.7136, 89.7474, -20.9303, -51.3472, -37.179, -46.5971, 14.5407,
         10.4787],
    ],
}
# fmt: on


@pytest.mark.parametrize("window", LIBROSA)
def test_mfcc_is_librosas(window: int) -> None:
    """Its mel filters, power_to_db and mfcc(n_mfcc=20), whose import alone takes half a minute."""
    time = np.arange(4000) / 8000
    rising = np.sin(2 * np.pi * (200 + 3000 * time) * time)
    signal = 0.3 * np.sin(2 * np.pi * 440 * time) + 0.1 * rising
    result = mfcc(signal, 8000, coefficients=20, bands=40, window=window, hop=100)
    assert result.shape == (20, 41)
    np.testing.assert_allclose(result[:10, [0, 20]].T, LIBROSA[window], atol=1e-3)


@pytest.mark.parametrize("keep", [0, 20, 60, -10, None])
def test_a_damaged_recording_is_set_aside(recordings: Path, keep: int | None) -> None:
    path = recordings / "fsdd/recordings/1_ann_4.wav"
    content = path.read_bytes()
    damaged = content[:16] + b"\xff\xff\xff\x7f" + content[20:] if keep is None else content[:keep]
    path.write_bytes(damaged)
    with pytest.raises(UserError, match=r"1_ann_4.wav is damaged .* now 1_ann_4\.wav\.corrupt"):
        fsdd(data_dir=recordings, speakers=["ann"])
    with pytest.raises(UserError, match="was damaged: put a good copy in its place"):
        fsdd(data_dir=recordings, speakers=["ann"])


def test_another_rate_is_refused(tmp_path: Path) -> None:
    makers.recording(tmp_path / "x.wav", sound(100), rate=16000)
    with pytest.raises(UserError, match=r"\(1, 2, 16000\) instead of one channel"):
        read_wave(tmp_path / "x.wav")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"speakers": []}, "data.speakers is empty"),
        ({"speakers": ["eve"]}, "data.speakers: eve is not one of ann, bob"),
        ({"coefficients": 50}, "coefficients=50 must be at most bands=40"),
        ({"hop": 0}, "hop=0 must be at least 1"),
        ({"window": 1}, "data.window=1 is too short for data.bands=40"),
    ],
)
def test_impossible_options_are_refused(recordings: Path, options, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        fsdd(data_dir=recordings, **options)
