"""Tabular data sets: ``data=boston`` and ``data=dna``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from focusing.data.dataset import DataSet, FileOptions, assemble, read_raw, takes_options
from focusing.data.decoders import DamagedError, load_npz, reading

DNA_TEST = 0.2
"""Test share of a random split: the paper's maxima are multiples of 1/638."""
DNA_CLASSES = ("ei", "ie", "n")
"""Exon to intron, intron to exon, neither: 1, 2 and 3 in the files."""
DNA_ROWS = {"dna.scale": 2000, "dna.scale.t": 1186}
"""Expected rows, to detect a file that is truncated at the end of a line."""


@takes_options
def boston(options: FileOptions, *, pad: Annotated[int, Ge(0)] = 0) -> DataSet:
    """Boston housing: 13 columns, and the price in thousands of dollars; 404 + 102 as in Keras.

    Args:
        options: see :class:`focusing.data.dataset.FileOptions`.
        pad: columns of zeros to add on both sides; the author's focused network had 5.
    """
    about: dict[str, Any] = {"shape": (13,), "classes": 0, "max_value": None, "official_share": 0.8}
    raw = read_raw("boston", options, read_boston, **about)
    return assemble("boston", raw, options, pad=pad)


@takes_options
def dna(options: FileOptions, *, pad: Annotated[int, Ge(0)] = 0) -> DataSet:
    """DNA splice junctions: 60 bases in 180 binary columns, 3 classes; 2000 + 1186.

    Args:
        options: see :class:`focusing.data.dataset.FileOptions`.
        pad: columns of zeros to add on both sides.
    """
    about: dict[str, Any] = {"shape": (180,), "classes": 3, "max_value": 1.0, "labels": DNA_CLASSES}
    about["test_share"] = DNA_TEST
    raw = read_raw("dna", options, read_dna, **about)
    return assemble("dna", raw, options, pad=pad)


def read_boston(path: Path) -> dict[str, NDArray[Any]]:
    """Read ``housing.data`` or ``boston_housing.npz``, in the order of Keras."""
    if path.suffix == ".npz":
        arrays = load_npz(path)
        with reading(path):
            table = np.column_stack([arrays["x"], arrays["y"]]).astype(np.float64)
    else:
        with reading(path):
            # In some copies each row takes two lines.
            table = np.array(path.read_text().split(), dtype=np.float64).reshape(-1, 14)
    if table.shape != (506, 14):
        raise DamagedError(path, f"{len(table)} rows of {table.shape[1]} instead of 506 of 14")
    if not np.isfinite(table).all():
        raise DamagedError(path, "it has values that are not numbers")
    order = np.arange(len(table))
    np.random.RandomState(113).shuffle(order)  # noqa: NPY002 - as Keras does
    table = table[order].astype(np.float32)
    return {"inputs": table[:, :13], "targets": table[:, 13]}


def read_dna(*paths: Path, expected: Mapping[str, int] = DNA_ROWS) -> dict[str, NDArray[Any]]:
    """Read LIBSVM's two files; ``expected`` is the number of rows by file name."""
    from sklearn.datasets import load_svmlight_file  # type: ignore[import-untyped]

    tables = []
    for path in paths:
        with reading(path):
            sparse, labels = load_svmlight_file(path, n_features=180, zero_based=False)
        if len(labels) != expected[path.name]:
            raise DamagedError(path, f"{len(labels)} rows instead of {expected[path.name]}")
        inputs = sparse.toarray().astype(np.float32)
        if not np.isin(inputs, (0, 1)).all():
            raise DamagedError(path, "it has values other than 0 and 1")
        if not np.isin(labels, (1, 2, 3)).all():
            raise DamagedError(path, "its classes are not 1 to 3")
        tables.append((inputs, labels.astype(np.int64) - 1))
    return {
        "inputs": np.concatenate([inputs for inputs, _ in tables]),
        "targets": np.concatenate([labels for _, labels in tables]),
        "train": np.array(len(tables[0][0])),
    }
