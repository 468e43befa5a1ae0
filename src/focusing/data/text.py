"""Text data sets with the word numbers of Keras: ``data=reuters`` and ``data=imdb``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from focusing.data.dataset import DataSet, FileOptions, assemble, read_raw, takes_options
from focusing.data.decoders import load_npz, reading
from focusing.errors import UserError
from focusing.validation import check_memory

Ints = NDArray[np.int64]
START, UNKNOWN, SHIFT = 1, 2, 3
"""Keras' tokens: 0 pads, 1 starts a text, 2 is a rare word, others are 3 more than in the file."""
REUTERS_TEXTS, IMDB_TEXTS = 11_228, 50_000
TOKENS_PER_WORD = {1: 1, 2: 60, 3: 234}
"""Vocabulary size of fake reviews by n-gram size: 20 000 words have 1.2 million pairs."""


@takes_options
def reuters(
    options: FileOptions, *, words: Annotated[int, Ge(4)] = 1000, pad: Annotated[int, Ge(0)] = 0
) -> DataSet:
    """Reuters newswires: which of the most frequent words each has, 46 topics; 8982 + 2246.

    Args:
        options: see :class:`focusing.data.dataset.FileOptions`.
        words: number of columns: Keras' words 0 to words - 1.
        pad: columns of zeros to add on both sides; the author's focused network had 9.
    """
    if not options.fake:
        check_memory(REUTERS_TEXTS * words, f"data.words={words}")
    raw = read_raw(
        "reuters",
        options,
        lambda path: read_reuters(path, words),
        key={"words": words},
        shape=(words,),
        classes=46,
        official_share=0.8,
        max_value=1.0,
    )
    return assemble("reuters", raw, options, pad=pad)


@takes_options
def imdb(
    options: FileOptions,
    *,
    words: Annotated[int, Ge(4)] = 20000,
    length: Annotated[int, Ge(1)] = 400,
    ngrams: Annotated[int, Ge(1), Le(3)] = 1,
) -> DataSet:
    """IMDB reviews: the last tokens of each, good or bad; 25 000 + 25 000.

    Args:
        options: see :class:`focusing.data.dataset.FileOptions`.
        words: size of the vocabulary; rarer words share a token.
        length: tokens per review; longer reviews lose their beginning, shorter ones are padded
            with 0 in front.
        ngrams: 1: words only; 2: also pairs of words that occur in the training data, appended as
            further tokens; 3: also triples.
    """
    if ngrams > 1 and options.split != "official":
        raise UserError(
            f"data.ngrams={ngrams} are those of the official training data: use "
            "data.split=official, or data.ngrams=1."
        )
    if not options.fake:
        check_memory(4 * IMDB_TEXTS * length, f"data.length={length}")
    recipe = {"words": words, "length": length, "ngrams": ngrams}
    raw = read_raw(
        "imdb",
        options,
        lambda path: read_imdb(path, **recipe),
        key=recipe,
        shape=(length,),
        classes=2,
        vocabulary=words * TOKENS_PER_WORD[ngrams],
        max_value=None,
        labels=("bad", "good"),
    )
    return assemble("imdb", raw, options)


def read_reuters(path: Path, words: int) -> dict[str, NDArray[Any]]:
    """Read binary vectors, in the order of Keras' ``load_data``."""
    texts, targets = _load(path, "x", "y", 46, _keras_random())
    inputs = np.zeros((len(targets), words), dtype=np.uint8)
    kept = texts.tokens < words
    inputs[texts.numbers[kept], texts.tokens[kept]] = 1
    return {"inputs": inputs, "targets": targets}


def read_imdb(path: Path, words: int, length: int, ngrams: int) -> dict[str, NDArray[Any]]:
    """Read tokens, in the order of Keras' ``load_data``, padded in front."""
    random = _keras_random()
    texts, targets = [], []
    for split in ("train", "test"):
        text, labels = _load(path, f"x_{split}", f"y_{split}", 2, random)
        tokens = np.where(text.tokens < words, text.tokens, UNKNOWN)
        texts.append(Texts(tokens, text.numbers))
        targets.append(labels)
    with_ngrams, vocabulary = append_ngrams(texts, words, ngrams)
    counts = [len(labels) for labels in targets]
    padded = [_pad(text, count, length) for text, count in zip(with_ngrams, counts, strict=True)]
    return {
        "inputs": np.concatenate(padded),
        "targets": np.concatenate(targets),
        "train": np.array(counts[0]),
        "vocabulary": np.array(vocabulary),
    }


class Texts(NamedTuple):
    """Tokens of many texts in one array, and the number of the text of each token."""

    tokens: Ints
    numbers: Ints


def append_ngrams(splits: Sequence[Texts], words: int, ngrams: int) -> tuple[list[Texts], int]:
    """Append n-grams of words, from pairs up to n = ``ngrams``, as further tokens.

    Only n-grams of the first split, the training data, become tokens; others are dropped.

    Returns:
        The splits, and the number of different tokens.
    """
    grown = [[split] for split in splits]
    vocabulary = words
    for size in range(2, ngrams + 1):
        grams = [_grams(split, words, size) for split in splits]
        known = np.unique(grams[0].tokens)
        for parts, (codes, numbers) in zip(grown, grams, strict=True):
            seen = np.isin(codes, known)
            ranks = np.searchsorted(known, codes[seen])
            parts.append(Texts(vocabulary + ranks, numbers[seen]))
        vocabulary += len(known)
    return [Texts(*map(np.concatenate, zip(*parts, strict=True))) for parts in grown], vocabulary


def _grams(texts: Texts, words: int, size: int) -> Texts:
    """A code for each n-gram, and the number of its text."""
    count = max(len(texts.tokens) - size + 1, 0)
    codes = np.zeros(count, dtype=np.int64)
    for offset in range(size):
        codes = codes * words + texts.tokens[offset : offset + count]
    inside = texts.numbers[:count] == texts.numbers[size - 1 :]
    return Texts(codes[inside], texts.numbers[:count][inside])


def _pad(texts: Texts, count: int, length: int) -> NDArray[np.int32]:
    """Put the last tokens of each text at the end of its row, with zeros in front."""
    order = np.argsort(texts.numbers, kind="stable")  # keeps words before pairs of words
    tokens, numbers = texts.tokens[order], texts.numbers[order]
    ends = np.cumsum(np.bincount(numbers, minlength=count))
    column = np.arange(len(tokens)) - ends[numbers] + length
    rows = np.zeros((count, length), dtype=np.int32)
    kept = column >= 0
    rows[numbers[kept], column[kept]] = tokens[kept]
    return rows


def _load(
    path: Path, text: str, label: str, classes: int, random: np.random.RandomState
) -> tuple[Texts, NDArray[np.int64]]:
    """Load texts and labels from two arrays of an npz file, shuffled as in Keras."""
    arrays = load_npz(path, (text, label))
    with reading(path):
        texts, labels = arrays[text], arrays[label].astype(np.int64)
        if len(texts) != len(labels) or labels.min() < 0 or labels.max() >= classes:
            raise ValueError(f"its {label} does not fit its {text}")
        order = np.arange(len(labels))
        random.shuffle(order)
        lists = [[START - SHIFT, *texts[row]] for row in order]
        tokens = np.fromiter(chain.from_iterable(lists), np.int64) + SHIFT
        if (tokens < SHIFT).sum() > len(labels):  # each text has one START
            raise ValueError(f"its {text} has negative numbers")
        numbers = np.repeat(np.arange(len(lists)), [*map(len, lists)])
    return Texts(tokens, numbers), labels[order]


def _keras_random() -> np.random.RandomState:
    """The generator with which Keras shuffles the training texts, and then the test texts."""
    return np.random.RandomState(113)  # noqa: NPY002 - as Keras does
