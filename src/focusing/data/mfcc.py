"""Mel-frequency cepstral coefficients, as librosa computes them.

librosa compiles itself for half a minute when it is first called, and brings 400 MB along.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def mfcc(
    signal: Array, rate: int, *, coefficients: int, bands: int, window: int, hop: int
) -> Array:
    """Coefficients of each frame; ``librosa.feature.mfcc`` with its other defaults.

    Args:
        signal: samples from -1 to 1.
        rate: samples per second.
        coefficients: ``n_mfcc``.
        bands: ``n_mels``.
        window: ``n_fft``, samples in a frame.
        hop: ``hop_length``, samples from frame to frame.

    Returns:
        Of shape (coefficients, 1 + len(signal) // hop).
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
    edges = _to_hertz(np.linspace(0, _to_mel(rate / 2), bands + 2))
    widths = np.diff(edges)
    bins = np.fft.rfftfreq(window, 1 / rate)
    rising = (bins - edges[:-2, None]) / widths[:-1, None]
    falling = (edges[2:, None] - bins) / widths[1:, None]
    filters: Array = np.maximum(0, np.minimum(rising, falling))
    return filters * (2 / (edges[2:] - edges[:-2]))[:, None]


LINEAR = 200 / 3
"""Hertz per mel up to 1000 Hz, which is mel 15; 27 mels per factor of 6.4 above."""


def _to_mel(hertz: float) -> float:
    if hertz < 1000:
        return hertz / LINEAR
    return 15 + 27 * float(np.log(hertz / 1000) / np.log(6.4))


def _to_hertz(mel: Array) -> Array:
    return np.where(mel < 15, mel * LINEAR, 1000 * 6.4 ** ((mel - 15) / 27))
