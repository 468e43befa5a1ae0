"""``data=fsdd``: spoken digits as pictures of their sound."""

from __future__ import annotations

import re
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focusing.data.assemble import Raw, assemble
from focusing.data.cache import decoded
from focusing.data.damage import reading
from focusing.data.dataset import DataSet
from focusing.data.fake import fake
from focusing.data.mfcc import mel_filters, mfcc
from focusing.data.options import Options
from focusing.data.sources import tree_hash
from focusing.errors import UserError
from focusing.validation import check_memory

RATE = 8000
SPEAKERS = ("george", "jackson", "nicolas", "theo", "yweweler")
"""Of the release with 2500 recordings, as many as the paper had; lucas came after it."""
TEST_SHARE = 0.5
"""The paper's: 1250 and 1250."""
OFFICIAL_TEST = 5
"""Recordings 0 to 4 of each digit of each speaker are the official test data."""


def fsdd(
    *,
    speakers: Sequence[str] = SPEAKERS,
    coefficients: int = 20,
    frames: int = 40,
    window: int = 512,
    hop: int = 160,
    bands: int = 40,
    **options: Any,
) -> DataSet:
    """Free Spoken Digit Dataset: MFCCs, (coefficients, frames, 1), of ten digits.

    Args:
        speakers: whose recordings, 500 of each.
        coefficients: MFCCs of a frame.
        frames: of a recording; later ones are cut off, missing ones are silent.
        window: samples of a frame, 8000 a second.
        hop: samples from frame to frame.
        bands: mel bands.
        **options: see :class:`focusing.data.options.Options`.
    """
    wanted = Options(**options)
    if not 1 <= coefficients <= bands or min(frames, window, hop) < 1:
        raise UserError(
            f"data: coefficients={coefficients} must lie between 1 and bands={bands}, and "
            f"frames={frames}, window={window}, hop={hop} be at least 1."
        )
    check_memory(
        8 * (window * bands + frames * max(hop, window, coefficients)),
        f"data: frames={frames}, window={window}, hop={hop} and bands={bands}",
    )
    if not mel_filters(RATE, window, bands).any(1).all():
        raise UserError(
            f"data.window={window} is too short for data.bands={bands}, some of which would hear "
            "nothing: use a longer window, or fewer bands."
        )
    if wanted.fake:
        raw = fake((coefficients, frames, 1), 10, top=None, test_share=TEST_SHARE)
        return assemble("fsdd", raw, wanted)
    found = wanted.files("fsdd")
    names, labels, official = _recordings(found.paths[0], speakers)
    recipe = {"coefficients": coefficients, "window": window, "hop": hop, "bands": bands}
    recipe["frames"] = frames

    def build() -> dict[str, NDArray[Any]]:
        inputs = np.empty((len(names), coefficients, frames, 1), dtype=np.float32)
        for row, name in enumerate(names):
            inputs[row, ..., 0] = read_picture(found.paths[0] / name, **recipe)
        return {"inputs": inputs, "targets": labels}

    origin = {"files": tree_hash(found.paths[0], names), **recipe}
    entry = decoded("fsdd", origin, build)
    raw = Raw(
        entry.arrays["inputs"],
        entry.arrays["targets"],
        official,
        10,
        found.source,
        entry.content,
        top=None,
        keep=(1,),  # each coefficient has its own size
        test_share=TEST_SHARE,
    )
    return assemble("fsdd", raw, wanted)


def read_picture(path: Path, *, frames: int, hop: int, **recipe: int) -> NDArray[np.float64]:
    """The MFCCs (coefficients, frames) of a recording, which silence follows if it is shorter.

    Args:
        path: a wav file.
        frames: how many.
        hop: samples from frame to frame.
        **recipe: the other options of :func:`focusing.data.mfcc.mfcc`.
    """
    # Frames of zeros would be louder than most sounds: those of silence are not 0.
    sound = read_wave(path)
    silence = max(0, (frames - 1) * hop - len(sound))
    return mfcc(np.pad(sound, (0, silence)), RATE, hop=hop, **recipe)[:, :frames]


def read_wave(path: Path) -> NDArray[np.float64]:
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


def _recordings(folder: Path, speakers: Sequence[str]) -> tuple[list[str], NDArray[np.int64], int]:
    """Names and digits, official training recordings first, and how many these are."""
    aside = next(folder.glob("*.corrupt"), None)
    if aside is not None:
        raise UserError(f"{aside} was damaged: put a good copy in its place, and remove it.")
    fits = [re.fullmatch(r"(\d)_(\w+)_(\d+)\.wav", path.name) for path in folder.glob("*.wav")]
    found = [(each[2], int(each[1]), int(each[3]), each[0]) for each in fits if each]
    known = sorted({speaker for speaker, *_ in found})
    for speaker in speakers:
        if speaker not in known:
            raise UserError(f"data.speakers: {speaker} is not one of {', '.join(known)}.")
    wanted = [each for each in found if each[0] in speakers]
    if not wanted:
        raise UserError("data.speakers is empty: name some, or leave it out.")
    absent = sorted(set(range(10)) - {digit for _, digit, *_ in wanted})
    if absent:
        raise UserError(
            f"data=fsdd: {folder} holds no recording of {', '.join(map(str, absent))} by "
            f"{', '.join(speakers)}."
        )
    # By speaker, digit and number, the official test recordings last.
    wanted.sort(key=lambda each: (each[2] < OFFICIAL_TEST, *each))
    official = sum(number >= OFFICIAL_TEST for _, _, number, _ in wanted)
    labels = np.array([digit for _, digit, _, _ in wanted], dtype=np.int64)
    return [name for *_, name in wanted], labels, official
