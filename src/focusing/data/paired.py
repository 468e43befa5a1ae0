"""``data=multi_domain``: a handwritten and a spoken digit of the same class as one input."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from focusing.data.audio import read_recordings
from focusing.data.dataset import DataSet, FileOptions, Raw, assemble, fake, takes_options
from focusing.data.image_sets import read_mnist
from focusing.errors import UserError
from focusing.validation import check_memory

SIDE = 28
"""Height and width of either half: the recordings have as many coefficients and frames."""
RECIPE: dict[str, Any] = {
    "coefficients": SIDE,
    "frames": SIDE,
    "window": 512,
    "hop": 228,
    "bands": 40,
}
"""Options of :func:`focusing.data.fsdd`; with this hop 28 frames are 0.8 s."""
DOMAINS = {"image": (0, SIDE**2), "audio": (SIDE**2, 2 * SIDE**2)}
"""First input of a domain and the one after its last, where inputs are on a line."""
MEAN, DEVIATION = 0.1307, 0.3081
"""Of MNIST's pixels, between 0 and 1."""
Values = NDArray[Any]


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
    """MNIST and spoken digits side by side, (56, 28, 1): a digit above, its recording below.

    A row of the lower half is a frame of 28 MFCCs, each with zero mean and unit variance over the
    recording. On a line of inputs the first half is the image, the second the recording. Training
    pairs have nothing of the official test data of either set.

    Args:
        options: see :class:`focusing.data.dataset.FileOptions`; the split is the official one.
        noise: the domain that is N(0, 1) in place of its digits.
        on_missing: what to do without MNIST, see :func:`focusing.data.mnist`.
        train: number of training pairs. With 2250 each recording is in one of them; with more, a
            validation split has recordings of the training data and says little.
        test: number of test pairs.
        seed: seed of the pairs and of the noise.
    """
    if options.split != "official":
        raise UserError(
            f"data.split={options.split}: pairs share recordings, use official, which keeps those "
            "of the test data apart."
        )
    if options.fake:
        raw = fake((2 * SIDE, SIDE, 1), 10, top=None)
    else:
        check_memory(8 * (train + test) * SIDE**2, f"data.train={train} and test={test}")
        images = read_mnist(options, on_missing)
        sounds = read_recordings(options, **RECIPE)
        raw = _pairs(images, sounds, noise, (train, test), seed)
    informative = {"none": None, "image": DOMAINS["audio"], "audio": DOMAINS["image"]}[noise]
    data = assemble("multi_domain", raw, options)
    return replace(data, informative=informative, domains=DOMAINS)


def _pairs(images: Raw, sounds: Raw, noise: str, counts: tuple[int, int], seed: int) -> Raw:
    """Pairs of the same class, those of the training data first."""
    inputs, targets = [], []
    for number, count in enumerate(counts):
        random = np.random.default_rng([seed, number])
        chosen = [_split(raw, number) for raw in (images, sounds)]
        labels = random.permutation(np.arange(count) % 10)
        index = np.zeros((2, count), dtype=np.int64)
        for digit in range(10):
            places = labels == digit
            for domain, known in enumerate(chosen):
                rounds = -(-int(places.sum()) // len(known[digit]))  # all equally often
                drawn = [random.permutation(known[digit]) for _ in range(rounds)]
                index[domain, places] = np.concatenate(drawn)[: places.sum()]
        halves = [
            (images.inputs[index[0]][..., 0] / 255 - MEAN) / DEVIATION,
            _normalised(sounds.inputs[index[1]][..., 0].swapaxes(1, 2)),
        ]
        if noise != "none":
            halves[noise == "audio"] = random.normal(size=(count, SIDE, SIDE))
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
        top=None,
    )


def _split(raw: Raw, number: int) -> list[NDArray[np.int64]]:
    """Indices by digit of the official training data, or of the test data."""
    cut = raw.official or 0
    start, stop = (0, cut) if number == 0 else (cut, len(raw.targets))
    return [start + np.flatnonzero(raw.targets[start:stop] == digit) for digit in range(10)]


def _normalised(frames: Values) -> Values:
    """Recordings (N, frames, coefficients), each coefficient with mean 0 and variance 1 in each."""
    deviation = np.maximum(frames.std(1, keepdims=True), 1e-6)
    normalised: Values = (frames - frames.mean(1, keepdims=True)) / deviation
    return normalised
