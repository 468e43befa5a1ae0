"""``data=fsdd``: spoken digits as pictures of their sound, mel-frequency cepstral coefficients."""

from __future__ import annotations

import re
import wave
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from focusing.data.cache import decode_files
from focusing.data.dataset import DataSet, FileOptions, Raw, assemble, fake, takes_options
from focusing.data.decoders import reading, refuse_corrupt
from focusing.errors import UserError
from focusing.validation import check_memory

Array = NDArray[np.float64]
RATE = 8000
SPEAKERS = ("george", "jackson", "nicolas", "theo", "yweweler")
"""The release with 2500 recordings, as many as the paper had; lucas came after it."""
TEST_SHARE = 0.5
"""The paper's: 1250 and 1250."""
OFFICIAL_TEST = 5
"""Recordings 0 to 4 of each digit of each speaker are the official test data."""
LINEAR = 200 / 3
"""Hertz per mel up to 1000 Hz, which is mel 15; above it 27 mels per factor of 6.4."""


@takes_options
def fsdd(
    options: FileOptions,
    *,
    speakers: Sequence[str] = SPEAKERS,
    coefficients: Annotated[int, Ge(1)] = 20,
    frames: Annotated[int, Ge(1)] = 40,
    window: Annotated[int, Ge(1)] = 512,
    hop: Annotated[int, Ge(1)] = 160,
    bands: Annotated[int, Ge(1)] = 40,
) -> DataSet:
    """Free Spoken Digit Dataset: MFCCs, (coefficients, frames, 1), of ten digits.

    Args:
        options: see :class:`focusing.data.dataset.FileOptions`.
        speakers: names of the speakers, with 500 recordings each.
        coefficients: MFCCs of a frame.
        frames: frames of a recording; later ones are cut off, missing ones are silent.
        window: samples of a frame, 8000 a second.
        hop: samples from frame to frame.
        bands: number of mel bands.
    """
    if coefficients > bands:
        raise UserError(f"data.coefficients={coefficients} must be at most bands={bands}.")
    check_memory(
        8 * (window * bands + frames * max(hop, window, coefficients)),
        f"data: frames={frames}, window={window}, hop={hop} and bands={bands}",
    )
    if not mel_filters(RATE, window, bands).any(1).all():
        raise UserError(
            f"data.window={window} is too short for data.bands={bands}, some of which would hear "
            "nothing: use a longer window, or fewer bands."
        )
    if options.fake:
        raw = fake((coefficients, frames, 1), 10, top=None, test_share=TEST_SHARE)
        return assemble("fsdd", raw, options)
    recipe = {"coefficients": coefficients, "window": window, "hop": hop, "bands": bands}
    return assemble("fsdd", read_recordings(options, speakers, frames=frames, **recipe), options)


def read_recordings(options: FileOptions, speakers: Sequence[str] = SPEAKERS, **recipe: int) -> Raw:
    """The recordings themselves, by the options of :func:`fsdd`; pairs of digits use them too."""
    files = options.files("fsdd")
    folder = files.paths[0]
    names, labels, official = _recordings(folder, speakers)

    def read(path: Path) -> NDArray[np.float32]:
        return read_picture(path, **recipe)[..., None].astype(np.float32)

    entry = decode_files("fsdd", folder, names, labels, recipe, read)
    about: dict[str, Any] = {"top": None, "test_share": TEST_SHARE}
    about["keep"] = (1,)  # each coefficient has its own scale
    return Raw.of(entry, files.source, 10, official, **about)


def read_picture(path: Path, *, frames: int, hop: int, **recipe: int) -> Array:
    """The :func:`mfcc` (coefficients, frames) of a wav file; silence follows a short one."""
    # Frames of zeros would be louder than most sounds: those of silence are not 0.
    sound = read_wave(path)
    silence = max(0, (frames - 1) * hop - len(sound))
    return mfcc(np.pad(sound, (0, silence)), RATE, hop=hop, **recipe)[:, :frames]


def read_wave(path: Path) -> Array:
    """The samples of a recording, from -1 to 1."""
    with reading(path):
        try:
            with wave.open(str(path)) as file:
                form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
                content, count = file.readframes(file.getnframes()), file.getnframes()
        except wave.Error as error:
            raise ValueError(str(error)) from None
        if form != (1, 2, RATE):
            raise ValueError(f"{form} instead of one channel of 2 bytes at {RATE} Hz")
        if not count or len(content) != 2 * count:
            raise ValueError(f"{len(content)} bytes instead of {2 * count}")
        return np.frombuffer(content, "<i2") / 32768


def mfcc(
    signal: Array, rate: int, *, coefficients: int, bands: int, window: int, hop: int
) -> Array:
    """Coefficients (coefficients, 1 + len(signal) // hop) of the frames of a signal in [-1, 1].

    This is ``librosa.feature.mfcc`` with ``n_mfcc``, ``n_mels``, ``n_fft``, ``hop_length`` and its
    other defaults. librosa itself compiles for half a minute when it is first called, and brings
    400 MB along.
    """
    padded = np.pad(signal, window // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, window)[::hop]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    power = np.abs(np.fft.rfft(frames * hann)) ** 2
    mel = mel_filters(rate, window, bands) @ power.T
    decibels = 10 * np.log10(np.maximum(mel, 1e-10))
    decibels = np.maximum(decibels, decibels.max() - 80)
    # The orthonormal cosine transform of the bands.
    waves = np.cos(np.pi * np.outer(np.arange(coefficients), np.arange(bands) + 0.5) / bands)
    waves *= np.sqrt(2 / bands)
    waves[0] /= np.sqrt(2)
    result: Array = waves @ decibels
    return result


@cache
def mel_filters(rate: int, window: int, bands: int) -> Array:
    """Triangles of equal area at equal distances on Slaney's mel scale; ``librosa.filters.mel``."""
    top = 15 + 27 * float(np.log(rate / 2 / 1000) / np.log(6.4))  # for rates above 2000
    mel = np.linspace(0, top, bands + 2)
    edges = np.where(mel < 15, mel * LINEAR, 1000 * 6.4 ** ((mel - 15) / 27))
    widths = np.diff(edges)
    bins = np.fft.rfftfreq(window, 1 / rate)
    rising = (bins - edges[:-2, None]) / widths[:-1, None]
    falling = (edges[2:, None] - bins) / widths[1:, None]
    filters: Array = np.maximum(0, np.minimum(rising, falling))
    return filters * (2 / (edges[2:] - edges[:-2]))[:, None]


def _recordings(folder: Path, speakers: Sequence[str]) -> tuple[list[str], NDArray[np.int64], int]:
    """File names and digits, official training recordings first, and how many these are."""
    refuse_corrupt(folder)
    matches = [re.fullmatch(r"(\d)_(\w+)_(\d+)\.wav", path.name) for path in folder.glob("*.wav")]
    recordings = [(name[2], int(name[1]), int(name[3]), name[0]) for name in matches if name]
    known = sorted({speaker for speaker, *_ in recordings})
    for speaker in speakers:
        if speaker not in known:
            raise UserError(f"data.speakers: {speaker} is not one of {', '.join(known)}.")
    if not speakers:
        raise UserError("data.speakers is empty: name some, or leave it out.")
    chosen = [recording for recording in recordings if recording[0] in speakers]
    absent = sorted(set(range(10)) - {digit for _, digit, *_ in chosen})
    if absent:
        raise UserError(
            f"data=fsdd: {folder} holds no recording of {', '.join(map(str, absent))} by "
            f"{', '.join(speakers)}."
        )
    # By speaker, digit and number, the official test recordings last.
    chosen.sort(key=lambda recording: (recording[2] < OFFICIAL_TEST, *recording))
    official = sum(number >= OFFICIAL_TEST for _, _, number, _ in chosen)
    labels = np.array([digit for _, digit, _, _ in chosen], dtype=np.int64)
    return [name for *_, name in chosen], labels, official
