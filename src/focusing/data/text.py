"""``data=reuters`` and ``data=imdb``: texts with the word numbers of Keras."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from focusing.data.dataset import DataSet, FileOptions, assemble, read_raw, takes_options
from focusing.data.decoders import load_npz, reading
from focusing.errors import UserError
from focusing.validation import check_memory

Ints = NDArray[np.int64]
START, UNKNOWN, SHIFT = 1, 2, 3
"""Keras' numbers: 0 pads, 1 starts a text, 2 is a rare word, others are 3 more than in the file."""
REUTERS, IMDB = 11_228, 50_000
"""Number of texts."""
TOKENS_PER_WORD = {1: 1, 2: 60, 3: 234}
"""With 20 000 words, pairs make 1.2 million tokens, triples 4.7 million; for fake reviews."""


@takes_options
def reuters(
    options: FileOptions, *, words: Annotated[int, Ge(4)] = 1000, pad: Annotated[int, Ge(0)] = 0
) -> DataSet:
    """Reuters newswires: which of the most frequent words they have, 46 topics; 8982 + 2246.

    Args:
        options: see :class:`focusing.data.dataset.FileOptions`.
        words: number of columns: Keras' words 0 to words - 1.
        pad: columns of zeros on either side; the author's focused network had 9.
    """
    if not options.fake:
        check_memory(REUTERS * words, f"data.words={words}")
    raw = read_raw(
        "reuters",
        options,
        lambda files: read_reuters(files.paths[0], words),
        key={"words": words},
        shape=(words,),
        classes=46,
        official_share=0.8,
        top=1.0,
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
        words: number of the most frequent words to tell apart.
        length: tokens of a review; longer ones lose their beginning, shorter ones begin with 0.
        ngrams: 1: words; 2: also the pairs of words in the training data, appended as tokens of
            their own; 3: also triples.
    """
    if ngrams > 1 and options.split != "official":
        raise UserError(
            f"data.ngrams={ngrams} are those of the official training data: use "
            "data.split=official, or data.ngrams=1."
        )
    if not options.fake:
        check_memory(4 * IMDB * length, f"data.length={length}")
    recipe = {"words": words, "length": length, "ngrams": ngrams}
    raw = read_raw(
        "imdb",
        options,
        lambda files: read_imdb(files.paths[0], **recipe),
        key=recipe,
        shape=(length,),
        classes=2,
        vocabulary=words * TOKENS_PER_WORD[ngrams],
        top=None,
        labels=("bad", "good"),
    )
    return assemble("imdb", raw, options)


def read_reuters(path: Path, words: int) -> dict[str, NDArray[Any]]:
    """Binary vectors in the order of Keras' ``load_data`` and ``sequences_to_matrix``."""
    texts, targets = _load(path, "x", "y", 46, _keras_random())
    inputs = np.zeros((len(targets), words), dtype=np.uint8)
    kept = texts.tokens < words
    inputs[texts.text_numbers()[kept], texts.tokens[kept]] = 1
    return {"inputs": inputs, "targets": targets}


def read_imdb(path: Path, words: int, length: int, ngrams: int) -> dict[str, NDArray[Any]]:
    """Tokens in the order of Keras' ``load_data``, with ``pad_sequences``' padding in front."""
    random = _keras_random()
    texts, targets = [], []
    for split in ("train", "test"):
        text, labels = _load(path, f"x_{split}", f"y_{split}", 2, random)
        tokens = np.where(text.tokens < words, text.tokens, UNKNOWN)
        texts.append(Texts(tokens, text.starts))
        targets.append(labels)
    train, test, vocabulary = sequences(texts[0], texts[1], words, length, ngrams)
    return {
        "inputs": np.concatenate([train, test]),
        "targets": np.concatenate(targets),
        "train": np.array(len(train)),
        "vocabulary": np.array(vocabulary),
    }


@dataclass(frozen=True)
class Texts:
    """Tokens of many texts in one array, one text after the other.

    Args:
        tokens: tokens of all texts.
        starts: where each text starts, and where the last one ends.
    """

    tokens: Ints
    starts: Ints

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]] | NDArray[Any]) -> Texts:
        """Make them from a list of tokens per text."""
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return cls(np.fromiter(chain.from_iterable(lists), np.int64, starts[-1]), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def text_numbers(self) -> Ints:
        """The number of the text that each token belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))


def sequences(
    train: Texts, test: Texts, words: int, length: int, ngrams: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Sequences of one length; the n-grams of a text follow its words, as tokens of their own.

    Args:
        train: texts of tokens below ``words``; only their n-grams become tokens.
        test: texts whose other n-grams are left out.
        words: number of words.
        length: length of a sequence; texts lose their beginning, or are padded with 0 in front.
        ngrams: the largest n.

    Returns:
        Training and test sequences, and the number of different tokens.
    """
    tokens = [[train.tokens], [test.tokens]]
    numbers = [[train.text_numbers()], [test.text_numbers()]]
    vocabulary = words
    for size in range(2, ngrams + 1):
        grams = [_grams(texts, words, size) for texts in (train, test)]
        known = np.unique(grams[0][0])
        for split, (codes, text) in enumerate(grams):
            rank = np.minimum(np.searchsorted(known, codes), max(len(known) - 1, 0))
            seen = known[rank] == codes if len(known) else np.zeros(len(codes), dtype=bool)
            tokens[split].append(vocabulary + rank[seen])
            numbers[split].append(text[seen])
        vocabulary += len(known)
    padded = [
        _pad(np.concatenate(tokens[split]), np.concatenate(numbers[split]), len(texts), length)
        for split, texts in enumerate((train, test))
    ]
    return padded[0], padded[1], vocabulary


def _grams(texts: Texts, words: int, size: int) -> tuple[Ints, Ints]:
    """A code for each n-gram, and the number of the text it is in."""
    text = texts.text_numbers()
    count = len(texts.tokens) - size + 1
    if count <= 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    codes = np.zeros(count, dtype=np.int64)
    for offset in range(size):
        codes = codes * words + texts.tokens[offset : offset + count]
    inside = text[:count] == text[size - 1 :]
    return codes[inside], text[:count][inside]


def _pad(tokens: Ints, text: Ints, count: int, length: int) -> NDArray[np.int32]:
    """Put the last tokens of each text at the end of its row."""
    order = np.argsort(text, kind="stable")  # words stay before pairs, pairs before triples
    tokens, text = tokens[order], text[order]
    ends = np.cumsum(np.bincount(text, minlength=count))
    column = np.arange(len(tokens)) - ends[text] + length
    rows = np.zeros((count, length), dtype=np.int32)
    kept = column >= 0
    rows[text[kept], column[kept]] = tokens[kept]
    return rows


def _load(
    path: Path, text: str, label: str, classes: int, random: np.random.RandomState
) -> tuple[Texts, NDArray[np.int64]]:
    """Texts and labels by the names of their arrays in an npz file, shuffled as Keras does."""
    arrays = load_npz(path, (text, label))
    with reading(path):
        texts, labels = arrays[text], arrays[label].astype(np.int64)
        if len(texts) != len(labels) or labels.min() < 0 or labels.max() >= classes:
            raise ValueError(f"its {label} does not fit its {text}")
        order = np.arange(len(labels))
        random.shuffle(order)
        shuffled = Texts.of([[START - SHIFT, *texts[row]] for row in order])
        tokens = shuffled.tokens + SHIFT
        if (tokens < SHIFT).sum() > len(labels):  # each text has one START
            raise ValueError(f"its {text} has negative numbers")
    return Texts(tokens, shuffled.starts), labels[order]


def _keras_random() -> np.random.RandomState:
    """Keras' generator: it shuffles the training texts and, continuing, the test texts."""
    return np.random.RandomState(113)  # noqa: NPY002 - results depend on it
