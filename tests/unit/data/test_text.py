"""Reuters and IMDB, in the order and with the tokens of Keras."""

from pathlib import Path

import numpy as np
import pytest

from focusing.data import imdb, reuters
from focusing.errors import UserError
from tests.unit.data import makers

random = np.random.default_rng(0)


def texts(count: int, longest: int = 12) -> list[list[int]]:
    return [random.integers(1, 30, random.integers(1, longest)).tolist() for _ in range(count)]


def keras_orders(*counts: int) -> list[np.ndarray]:
    """Keras shuffles the splits one after the other with one generator."""
    orders, shuffling = [np.arange(count) for count in counts], np.random.RandomState(113)  # noqa: NPY002
    for order in orders:
        shuffling.shuffle(order)
    return orders


def write(path: Path, **arrays: np.ndarray) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(makers.npz(**arrays))


def test_reuters_matches_keras(tmp_path: Path) -> None:
    lists, labels = texts(50), np.arange(50) % 46
    write(tmp_path / "reuters/reuters.npz", x=makers.lists(lists), y=labels)
    data = reuters(data_dir=tmp_path, words=20)
    (order,) = keras_orders(50)
    assert (data.train.inputs.shape, data.test.inputs.shape) == ((40, 20), (10, 20))
    for row, index in enumerate(order[:40]):
        keras = [1] + [word + 3 for word in lists[index]]
        expected = np.zeros(20)
        expected[[word for word in keras if word < 20]] = 1
        np.testing.assert_array_equal(data.train.inputs[row], expected)
    np.testing.assert_array_equal(data.test.targets, labels[order[40:]])


def keras_imdb(lists, order, words: int) -> list[list[int]]:
    return [[1] + [word + 3 if word + 3 < words else 2 for word in lists[index]] for index in order]


def padded(tokens: list[int], length: int) -> list[int]:
    return [0] * max(0, length - len(tokens)) + tokens[-length:]


@pytest.mark.parametrize("ngrams", [1, 2, 3])
@pytest.mark.parametrize("length", [5, 40])
def test_imdb_matches_keras(tmp_path: Path, ngrams: int, length: int) -> None:
    lists = {split: texts(30) for split in ("train", "test")}
    labels = np.arange(30) % 2
    write(
        tmp_path / "imdb/imdb.npz",
        **{f"x_{split}": makers.lists(tokens) for split, tokens in lists.items()},
        **{f"y_{split}": labels for split in lists},
    )
    data = imdb(data_dir=tmp_path, words=20, length=length, ngrams=ngrams)
    orders = dict(zip(("train", "test"), keras_orders(30, 30), strict=True))
    train, test = (keras_imdb(lists[split], order, 20) for split, order in orders.items())

    def grams(tokens: list[int], size: int) -> list[tuple[int, ...]]:
        return [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]

    known: dict[tuple[int, ...], int] = {}
    for size in range(2, ngrams + 1):
        for gram in sorted({gram for tokens in train for gram in grams(tokens, size)}):
            known[gram] = 20 + len(known)
    for split, tokens_of in ((data.train, train), (data.test, test)):
        for row, tokens in zip(split.inputs.tolist(), tokens_of, strict=True):
            more = [
                known[gram]
                for size in range(2, ngrams + 1)
                for gram in grams(tokens, size)
                if gram in known
            ]
            assert row == padded(tokens + more, length)
    assert data.vocabulary == 20 + len(known)
    np.testing.assert_array_equal(data.train.targets, labels[orders["train"]])
    np.testing.assert_array_equal(data.test.targets, labels[orders["test"]])


def test_a_damaged_file_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "reuters/reuters.npz"
    for arrays, reason in (
        ({"x": makers.lists(texts(5)), "y": np.arange(4)}, "its y does not fit its x"),
        ({"x": makers.lists(texts(5))}, r"reuters.npz is damaged \('y'\)"),
    ):
        write(path, **arrays)
        with pytest.raises(UserError, match=reason):
            reuters(data_dir=tmp_path)
        assert not path.exists()
