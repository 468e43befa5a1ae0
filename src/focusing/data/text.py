"""``data=reuters`` and ``data=imdb``: texts as Keras numbers their words."""

from __future__ import annotations

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
from focusing.data.ngrams import Texts, sequences
from focusing.data.options import Options
from focusing.data.pickles import load_npz
from focusing.errors import UserError
from focusing.validation import check_memory

START, UNKNOWN, SHIFT = 1, 2, 3
"""Keras' numbers: 0 pads, 1 starts a text, 2 is a rare word, others are 3 more than in the file."""
REUTERS, IMDB = 11_228, 50_000
"""Texts of each."""
TOKENS = {1: 1, 2: 60, 3: 234}
"""For each of 20 000 words, with pairs, with triples too: 1.2 and 4.7 million; for fake reviews."""


def reuters(*, words: int = 1000, pad: int = 0, **options: Any) -> DataSet:
    """Reuters newswires: which of the most frequent words they have, 46 topics; 8982 + 2246.

    Args:
        words: number of columns: Keras' words 0 to words - 1.
        pad: columns of zeros on either side; the author's focused network had 9.
        **options: see :class:`focusing.data.options.Options`.
    """
    wanted = Options(**options)
    if words < 4:
        raise UserError(f"data.words={words} must be at least 4.")
    if wanted.fake:
        return assemble("reuters", fake((words,), 46, top=1.0), wanted, pad=pad)
    found = wanted.files("reuters")
    check_memory(REUTERS * words, f"data.words={words}")
    origin = {"files": found.hashes, "words": words}
    entry = decoded("reuters", origin, lambda: read_reuters(found.paths[0], words))
    inputs, labels = entry.arrays["inputs"], entry.arrays["targets"]
    official = int(len(inputs) * 0.8)
    raw = Raw(inputs, labels, official, 46, found.source, entry.content, top=1.0)
    return assemble("reuters", raw, wanted, pad=pad)


def imdb(*, words: int = 20000, length: int = 400, ngrams: int = 1, **options: Any) -> DataSet:
    """IMDB reviews: the last tokens of each, good or bad; 25 000 + 25 000.

    Args:
        words: only so many of the most frequent words are told apart.
        length: tokens of a review; longer ones lose their beginning, shorter ones begin with 0.
        ngrams: 1: words; 2: also pairs of words that the training data has, appended as tokens of
            their own; 3: also triples.
        **options: see :class:`focusing.data.options.Options`.
    """
    wanted = Options(**options)
    if words < 4 or length < 1 or not 1 <= ngrams <= 3:
        raise UserError(
            f"data: words={words} must be at least 4, length={length} at least 1, "
            f"ngrams={ngrams} 1, 2 or 3."
        )
    if ngrams > 1 and wanted.split != "official":
        raise UserError(
            f"data.ngrams={ngrams} are those of the official training data: use "
            "data.split=official, or data.ngrams=1."
        )
    if wanted.fake:
        raw = fake((length,), 2, top=None, vocabulary=words * TOKENS[ngrams])
        return assemble("imdb", raw, wanted)
    found = wanted.files("imdb")
    check_memory(4 * IMDB * length, f"data.length={length}")
    recipe = {"words": words, "length": length, "ngrams": ngrams}
    entry = decoded(
        "imdb", {"files": found.hashes, **recipe}, lambda: read_imdb(found.paths[0], **recipe)
    )
    arrays = entry.arrays
    raw = Raw(
        arrays["inputs"],
        arrays["targets"],
        int(arrays["train"]),
        2,
        found.source,
        entry.content,
        top=None,
        vocabulary=int(arrays["vocabulary"]),
    )
    return assemble("imdb", raw, wanted, labels=("bad", "good"))


def read_reuters(path: Path, words: int) -> dict[str, NDArray[Any]]:
    """Binary vectors in the order of Keras' ``load_data`` and ``sequences_to_matrix``."""
    (texts, labels), *_ = _load(path, [("x", "y")], classes=46)
    order = _shuffled(len(labels), _keras_random())
    inputs = np.zeros((len(labels), words), dtype=np.uint8)
    inputs[:, START] = 1
    row = np.repeat(np.arange(len(labels)), np.diff(texts.starts))
    column = texts.tokens + SHIFT
    kept = column < words
    inputs[row[kept], column[kept]] = 1
    return {"inputs": inputs[order], "targets": labels[order]}


def read_imdb(path: Path, words: int, length: int, ngrams: int) -> dict[str, NDArray[Any]]:
    """Tokens in the order of Keras' ``load_data``, with ``pad_sequences``' padding in front."""
    parts = _load(path, [("x_train", "y_train"), ("x_test", "y_test")], classes=2)
    random = _keras_random()
    orders = [_shuffled(len(labels), random) for _, labels in parts]
    texts = []
    for (text, _), order in zip(parts, orders, strict=True):
        tokens = np.where(text.tokens + SHIFT < words, text.tokens + SHIFT, UNKNOWN)
        texts.append(Texts(tokens, text.starts).prepend(START).reorder(order))
    train, test, vocabulary = sequences(texts[0], texts[1], words, length, ngrams)
    labels = [labels[order] for (_, labels), order in zip(parts, orders, strict=True)]
    return {
        "inputs": np.concatenate([train, test]),
        "targets": np.concatenate(labels),
        "train": np.array(len(train)),
        "vocabulary": np.array(vocabulary),
    }


def _load(
    path: Path, names: Sequence[tuple[str, str]], classes: int
) -> list[tuple[Texts, NDArray[np.int64]]]:
    arrays = load_npz(path)
    loaded = []
    for text, label in names:
        with reading(path):
            texts, labels = Texts.of(arrays[text]), arrays[label].astype(np.int64)
            if len(texts) != len(labels) or labels.min() < 0 or labels.max() >= classes:
                raise ValueError(f"its {label} does not fit its {text}")
            if texts.tokens.min(initial=0) < 0:
                raise ValueError(f"its {text} has negative numbers")
        loaded.append((texts, labels))
    return loaded


def _keras_random() -> np.random.RandomState:
    """What Keras shuffles the training texts with, and then, going on, the test texts."""
    return np.random.RandomState(113)  # noqa: NPY002 - results depend on it


def _shuffled(count: int, random: np.random.RandomState) -> NDArray[np.int64]:
    order = np.arange(count)
    random.shuffle(order)
    return order
