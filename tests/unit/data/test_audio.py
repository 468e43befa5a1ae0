from pathlib import Path

import numpy as np
import pytest

from focusing.data import fsdd
from focusing.data.audio import read_wave
from focusing.data.mfcc import mel_filters, mfcc
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


def test_sound_has_no_range(recordings: Path) -> None:
    with pytest.raises(UserError, match="data.preprocess=unit is for values from 0 to a known"):
        fsdd(data_dir=recordings, speakers=["ann"], preprocess="unit")


def test_short_recordings_end_in_silence_and_long_ones_are_cut(recordings: Path) -> None:
    long = fsdd(data_dir=recordings, speakers=["ann"], frames=20).train
    loudness = long.inputs[0, 0, :, 0]  # 1 + 1500 // 160 frames of sound, one more hears its end
    assert loudness[11:].unique().numel() == 1
    assert loudness[11] < loudness[:10].min()
    assert long.inputs[0, 1:, 11:].abs().max() < 1e-3  # the same in all bands
    short = fsdd(data_dir=recordings, speakers=["ann"], frames=5).train
    assert bool(short.inputs.eq(long.inputs[:, :, :5]).all())


@pytest.mark.parametrize("window", [256, 512, 2048])
def test_mfcc_is_librosas(window: int) -> None:
    import librosa  # late: it takes a second

    # The pieces of librosa that need no compiling; its mfcc takes half a minute the first time.
    filters = librosa.filters.mel(sr=8000, n_fft=window, n_mels=40, dtype=np.float64)
    np.testing.assert_allclose(mel_filters(8000, window, 40), filters, atol=1e-9)
    signal = sound(4000)
    power = np.abs(librosa.stft(signal, n_fft=window, hop_length=100)) ** 2
    decibels = librosa.power_to_db(filters @ power)
    ours = mfcc(signal, 8000, coefficients=20, bands=40, window=window, hop=100)
    np.testing.assert_allclose(ours, librosa.feature.mfcc(S=decibels, n_mfcc=20), atol=3e-5)


def test_a_recording_with_a_damaged_header_is_put_aside(recordings: Path) -> None:
    path = recordings / "fsdd/recordings/1_ann_4.wav"
    content = path.read_bytes()
    path.write_bytes(content[:16] + b"\xff\xff\xff\x7f" + content[20:])
    with pytest.raises(UserError, match=r"1_ann_4.wav is damaged .* now 1_ann_4\.wav\.corrupt"):
        fsdd(data_dir=recordings, speakers=["ann"])


@pytest.mark.parametrize("keep", [0, 20, 60, -10])
def test_a_truncated_recording_is_put_aside(recordings: Path, keep: int) -> None:
    path = recordings / "fsdd/recordings/1_ann_4.wav"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(
        UserError, match=r"1_ann_4.wav is damaged .* now 1_ann_4\.wav\.corrupt; put"
    ):
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
        ({"coefficients": 50}, "coefficients=50 must lie between 1 and bands=40"),
        ({"hop": 0}, "hop=0 be at least 1"),
        ({"window": 1}, "data.window=1 is too short for data.bands=40"),
    ],
)
def test_impossible_options_are_refused(recordings: Path, options, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        fsdd(data_dir=recordings, **options)
