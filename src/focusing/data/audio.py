"""Spoken digits as MFCCs (``data=fsdd``), and paired with MNIST digits (``data=multi_domain``)."""

from __future__ import annotations

import re
import wave
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from focusing.data.cache import decode_files
from focusing.data.dataset import DataSet, FileOptions, Raw, assemble, fake_samples, takes_options
from focusing.data.decoders import reading, refuse_corrupt
from focusing.data.image_sets import read_mnist
from focusing.errors import UserError
from focusing.validation import check_memory

Array = NDArray[np.float64]
RATE = 8000
SPEAKERS = ("george", "jackson", "nicolas", "theo", "yweweler")
"""Speakers of the release with 2500 recordings, as many as in the paper; lucas came later."""
TEST_SHARE = 0.5
"""Test share of the paper: 1250 of 2500."""
OFFICIAL_TEST = 5
"""Recordings 0 to 4 of each digit of each speaker are the official test data."""
HERTZ_PER_MEL = 200 / 3
"""Slope of the mel scale up to 1000 Hz, which is mel 15; above, 27 mels are a factor of 6.4."""
PAIR_SIDE = 28
"""Height and width of both halves of a pair; also MFCCs and frames of its recording."""
PAIR_MFCC: dict[str, Any] = {
    "coefficients": PAIR_SIDE,
    "frames": PAIR_SIDE,
    "window": 512,
    "hop": 228,
    "bands": 40,
}
"""Options of :func:`focusing.data.fsdd` for pairs; with this hop, 28 frames are 0.8 s."""
DOMAINS = {"image": (0, PAIR_SIDE**2), "audio": (PAIR_SIDE**2, 2 * PAIR_SIDE**2)}
"""Range ``(start, stop)`` of the flattened inputs of each domain."""
PIXEL_MEAN, PIXEL_DEVIATION = 0.1307, 0.3081
"""Mean and standard deviation of MNIST's pixels, scaled to [0, 1]."""


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
        coefficients: number of MFCCs per frame.
        frames: number of frames per recording; longer ones are cut off, shorter ones are padded
            with silence.
        window: samples per frame, at 8000 per second.
        hop: samples between the starts of two frames.
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
            f"data.window={window} is too short for data.bands={bands}, some of which would be "
            "empty: use a longer window, or fewer bands."
        )
    if options.fake:
        raw = fake_samples((coefficients, frames, 1), 10, max_value=None, test_share=TEST_SHARE)
        return assemble("fsdd", raw, options)
    recipe = {"coefficients": coefficients, "window": window, "hop": hop, "bands": bands}
    return assemble("fsdd", read_recordings(options, speakers, frames=frames, **recipe), options)


@takes_options
def multi_domain(
    options: FileOptions,
    *,
    noise: Literal["none", "image", "audio"] = "none",
    on_missing: str = "error",
    train: Annotated[int, Ge(1)] = 2250,
    test: Annotated[int, Ge(1)] = 2000,
    seed: Annotated[int, Ge(0)] = 0,
) -> DataSet:
    """Pairs of MNIST and spoken digits, (56, 28, 1): the image above, the recording below.

    A row of the lower half is a frame of 28 MFCCs, each normalised to zero mean and unit variance
    over the recording. Flattened, the first half of the inputs is the image, the second the
    recording. Training pairs use no official test data of either set.

    Args:
        options: see :class:`focusing.data.dataset.FileOptions`; only the official split is allowed.
        noise: the domain that is replaced by N(0, 1) noise.
        on_missing: what to do without MNIST, see :func:`focusing.data.mnist`.
        train: number of training pairs. Each recording is used once in 2250 pairs. With more pairs
            a validation split shares recordings with the training data, and its scores mean little.
        test: number of test pairs.
        seed: seed of the pairs and of the noise.
    """
    if options.split != "official":
        raise UserError(
            f"data.split={options.split}: pairs share recordings, use official, which keeps those "
            "of the test data apart."
        )
    if options.fake:
        raw = fake_samples((2 * PAIR_SIDE, PAIR_SIDE, 1), 10, max_value=None)
    else:
        check_memory(8 * (train + test) * PAIR_SIDE**2, f"data.train={train} and test={test}")
        images = read_mnist(options, on_missing)
        sounds = read_recordings(options, **PAIR_MFCC)
        raw = _pair_up(images, sounds, noise, (train, test), seed)
    informative = {"none": None, "image": DOMAINS["audio"], "audio": DOMAINS["image"]}[noise]
    data = assemble("multi_domain", raw, options)
    return replace(data, informative=informative, domains=DOMAINS)


def read_recordings(options: FileOptions, speakers: Sequence[str] = SPEAKERS, **recipe: int) -> Raw:
    """Read recordings with the options of :func:`fsdd`."""
    files = options.files("fsdd")
    folder = files.paths[0]
    names, labels, official = _recordings(folder, speakers)

    def read(path: Path) -> NDArray[np.float32]:
        return read_mfcc(path, **recipe)[..., None].astype(np.float32)

    entry = decode_files("fsdd", folder, names, labels, recipe, read)
    about: dict[str, Any] = {"max_value": None, "test_share": TEST_SHARE}
    about["stat_axes"] = (1,)  # coefficients differ in scale
    return Raw.of(entry, files.source, 10, official, **about)


def read_mfcc(path: Path, *, frames: int, hop: int, **recipe: int) -> Array:
    """Read a wav file and return its :func:`mfcc`, (coefficients, frames)."""
    # Pad the signal, not the MFCCs: those of silence are far from 0.
    sound = read_wave(path)
    silence = max(0, (frames - 1) * hop - len(sound))
    return mfcc(np.pad(sound, (0, silence)), RATE, hop=hop, **recipe)[:, :frames]


def read_wave(path: Path) -> Array:
    """Read the samples of a wav file, from -1 to 1."""
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
    """MFCCs (coefficients, 1 + len(signal) // hop) of a signal in [-1, 1].

    Equals ``librosa.feature.mfcc`` with ``n_mfcc``, ``n_mels``, ``n_fft``, ``hop_length`` and its
    other defaults. librosa itself takes 400 MB, and compiles for half a minute at its first call.
    """
    padded = np.pad(signal, window // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, window)[::hop]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    power = np.abs(np.fft.rfft(frames * hann)) ** 2
    mel = mel_filters(rate, window, bands) @ power.T
    decibels = 10 * np.log10(np.maximum(mel, 1e-10))
    decibels = np.maximum(decibels, decibels.max() - 80)
    # Orthonormal cosine transform over the bands.
    waves = np.cos(np.pi * np.outer(np.arange(coefficients), np.arange(bands) + 0.5) / bands)
    waves *= np.sqrt(2 / bands)
    waves[0] /= np.sqrt(2)
    result: Array = waves @ decibels
    return result


@cache
def mel_filters(rate: int, window: int, bands: int) -> Array:
    """Triangular filters of equal area on Slaney's mel scale, as ``librosa.filters.mel``."""
    highest = 15 + 27 * float(np.log(rate / 2 / 1000) / np.log(6.4))  # for rates above 2000
    mel = np.linspace(0, highest, bands + 2)
    edges = np.where(mel < 15, mel * HERTZ_PER_MEL, 1000 * 6.4 ** ((mel - 15) / 27))
    widths = np.diff(edges)
    bins = np.fft.rfftfreq(window, 1 / rate)
    rising = (bins - edges[:-2, None]) / widths[:-1, None]
    falling = (edges[2:, None] - bins) / widths[1:, None]
    filters: Array = np.maximum(0, np.minimum(rising, falling))
    return filters * (2 / (edges[2:] - edges[:-2]))[:, None]


def _recordings(folder: Path, speakers: Sequence[str]) -> tuple[list[str], NDArray[np.int64], int]:
    """File names and digits, training recordings first, and the number of training recordings."""
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
    # Test recordings last, otherwise by speaker, digit and number.
    chosen.sort(key=lambda recording: (recording[2] < OFFICIAL_TEST, *recording))
    official = sum(number >= OFFICIAL_TEST for _, _, number, _ in chosen)
    labels = np.array([digit for _, digit, _, _ in chosen], dtype=np.int64)
    return [name for *_, name in chosen], labels, official


def _pair_up(images: Raw, sounds: Raw, noise: str, counts: tuple[int, int], seed: int) -> Raw:
    """Pair images and recordings of the same class, training pairs first."""
    inputs, targets = [], []
    for number, count in enumerate(counts):
        random = np.random.default_rng([seed, number])
        chosen = [_by_digit(raw, number) for raw in (images, sounds)]
        labels = random.permutation(np.arange(count) % 10)
        index = np.zeros((2, count), dtype=np.int64)
        for digit in range(10):
            places = labels == digit
            for domain, known in enumerate(chosen):
                rounds = -(-int(places.sum()) // len(known[digit]))  # use all equally often
                drawn = [random.permutation(known[digit]) for _ in range(rounds)]
                index[domain, places] = np.concatenate(drawn)[: places.sum()]
        halves = [
            (images.inputs[index[0]][..., 0] / 255 - PIXEL_MEAN) / PIXEL_DEVIATION,
            _normalised(sounds.inputs[index[1]][..., 0].swapaxes(1, 2)),
        ]
        if noise != "none":
            halves[noise == "audio"] = random.normal(size=(count, PAIR_SIDE, PAIR_SIDE))
        inputs.append(np.concatenate(halves, axis=1, dtype=np.float32))
        targets.append(labels)
    sources = [images.source, sounds.source]
    return Raw(
        np.concatenate(inputs)[..., None],
        np.concatenate(targets),
        counts[0],
        10,
        "pairs, " + (sources[0] if sources[0] == sources[1] else ", ".join(sources)),
        f"{images.content[:16]} {sounds.content[:16]} {noise} {counts} {seed}",
        max_value=None,
    )


def _by_digit(raw: Raw, number: int) -> list[NDArray[np.int64]]:
    """Indices of the samples of each digit in the training (0) or the test data (1)."""
    cut = raw.official or 0
    start, stop = (0, cut) if number == 0 else (cut, len(raw.targets))
    return [start + np.flatnonzero(raw.targets[start:stop] == digit) for digit in range(10)]


def _normalised(frames: NDArray[Any]) -> NDArray[Any]:
    """Normalise each coefficient of each recording (N, frames, coefficients) over its frames."""
    deviation = np.maximum(frames.std(1, keepdims=True), 1e-6)
    normalised: NDArray[Any] = (frames - frames.mean(1, keepdims=True)) / deviation
    return normalised
