"""Many texts in one array, and the n-grams in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Texts:
    """Tokens of many texts, one text after the other.

    Args:
        tokens: of all texts.
        starts: where each text starts, and where the last one ends.
    """

    tokens: Ints
    starts: Ints

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]] | NDArray[Any]) -> Texts:
        """From a list of tokens for each text."""
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return cls(np.fromiter(chain.from_iterable(lists), np.int64, starts[-1]), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Ints:
        """Of each text."""
        return np.diff(self.starts)

    def prepend(self, token: int) -> Texts:
        """With a token before each text."""
        return Texts(
            np.insert(self.tokens, self.starts[:-1], token),
            self.starts + np.arange(len(self.starts)),
        )

    def reorder(self, order: Ints) -> Texts:
        """The texts in another order."""
        lengths = self.lengths[order]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
        return Texts(self.tokens[np.repeat(self.starts[:-1][order], lengths) + within], starts)

    def text_of(self) -> Ints:
        """The number of the text of each token."""
        return np.repeat(np.arange(len(self)), self.lengths)


def sequences(
    train: Texts, test: Texts, words: int, length: int, ngrams: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Sequences of one length; n-grams follow the words of a text, as tokens of their own.

    Args:
        train: texts of tokens below ``words``; only their n-grams get tokens.
        test: the texts whose other n-grams are left out.
        words: number of words.
        length: of a sequence; texts lose their beginning, or are padded with 0 in front.
        ngrams: the largest n.

    Returns:
        Sequences of both, and the number of different tokens.
    """
    columns = [[(train.tokens, train.text_of())], [(test.tokens, test.text_of())]]
    vocabulary = words
    for size in range(2, ngrams + 1):
        grams = [_grams(texts, words, size) for texts in (train, test)]
        known = np.unique(grams[0][0])
        for found, (codes, text) in zip(columns, grams, strict=True):
            place = np.minimum(np.searchsorted(known, codes), max(len(known) - 1, 0))
            seen = known[place] == codes if len(known) else np.zeros(len(codes), dtype=bool)
            found.append((vocabulary + place[seen], text[seen]))
        vocabulary += len(known)
    first, second = (
        _pad(found, len(texts), length) for found, texts in zip(columns, (train, test), strict=True)
    )
    return first, second, vocabulary


def _grams(texts: Texts, words: int, size: int) -> tuple[Ints, Ints]:
    """A number for each n-gram, and the text it is in."""
    text = texts.text_of()
    last = len(texts.tokens) - size + 1
    if last <= 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    codes = np.zeros(last, dtype=np.int64)
    for offset in range(size):
        codes = codes * words + texts.tokens[offset : offset + last]
    inside = text[:last] == text[size - 1 :]
    return codes[inside], text[:last][inside]


def _pad(found: Sequence[tuple[Ints, Ints]], count: int, length: int) -> NDArray[np.int32]:
    """The last tokens of each text at the end of its row."""
    tokens = np.concatenate([each for each, _ in found])
    text = np.concatenate([each for _, each in found])
    order = np.argsort(text, kind="stable")  # words before pairs, as they were found
    tokens, text = tokens[order], text[order]
    ends = np.cumsum(np.bincount(text, minlength=count))
    column = np.arange(len(tokens)) - ends[text] + length
    rows = np.zeros((count, length), dtype=np.int32)
    kept = column >= 0
    rows[text[kept], column[kept]] = tokens[kept]
    return rows
