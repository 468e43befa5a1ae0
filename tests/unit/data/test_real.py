"""Real files in FOCUSING_DATA_DIR: their sizes, and published values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import focusing.data
from focusing.data import DataSet
from focusing.data.sources import catalogue, find


def load(folder: Path, name: str, **options: Any) -> DataSet:
    files = {"clt": "clt40" if "variant" in options else "mnist"}.get(name, name)
    if find(catalogue()[files], folder) is None:
        pytest.skip(f"{files} is not in FOCUSING_DATA_DIR")
    return getattr(focusing.data, name)(data_dir=folder, **options)


def counts(*targets: torch.Tensor) -> list[int]:
    return np.bincount(torch.cat(targets).numpy()).tolist()


@pytest.mark.parametrize(
    ("name", "options", "shape", "tests", "classes"),
    [
        ("clt", {"variant": "small"}, (11000, 40, 40, 1), 1000, None),
        ("lfw", {"split": "random", "preprocess": "author"}, (2267, 50, 37, 1), 756, None),
        ("fsdd", {"split": "random"}, (1250, 20, 40, 1), 1250, [250] * 10),
        ("dna", {}, (2000, 180), 1186, [767, 765, 1654]),
        ("dna", {"split": "random"}, (2548, 180), 638, [767, 765, 1654]),
        ("catsdogs", {"split": "random", "limit_train": 9}, (9, 125, 125, 3), None, None),
    ],
)
def test_sizes_and_classes(
    real: Path, name: str, options: dict[str, Any], shape: tuple, tests: int, classes: list[int]
) -> None:
    data = load(real, name, **options)
    assert data.train.inputs.shape == shape
    assert len(data.test.targets) == (tests or len(data.test.targets))
    samples = counts(data.train.targets, data.test.targets)
    assert samples == (classes or samples)
    if name == "lfw":
        assert sorted(samples)[-3:] == [144, 236, 530]
        assert -2 <= data.train.inputs.min() < data.train.inputs.max() < 2


@pytest.mark.parametrize(
    ("name", "mean", "classes"),
    [
        ("mnist", [0.1307], [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        ("fashion", [0.2860], [6000] * 10),
        ("cifar10", [0.4914, 0.4822, 0.4465], [5000] * 10),
    ],
)
def test_means_of_images(real: Path, name: str, mean: list[float], classes: list[int]) -> None:
    data = load(real, name, preprocess="unit")
    assert (data.source, len(data.test.targets)) == ("official", 10000)
    assert counts(data.train.targets) == classes
    assert data.train.inputs.mean((0, 1, 2)).tolist() == pytest.approx(mean, abs=1e-4)


def test_generated_clutter_does_not_change(real: Path) -> None:
    data = load(real, "clt", preprocess="unit")
    assert (data.train.inputs.shape, len(data.test.targets)) == ((60000, 60, 60, 1), 10000)
    assert data.source == "generated"
    assert data.fingerprint == "d69cafcfaf9b050f"  # published results depend on it


def test_boston_is_keras(real: Path) -> None:
    data = load(real, "boston")
    assert (data.train.inputs.shape, len(data.test.targets)) == ((404, 13), 102)
    keras = [1.23247, 0.0, 8.14, 0.0, 0.538, 6.142, 91.7, 3.9769, 4.0, 307.0, 21.0, 396.9, 18.72]
    assert data.train.inputs[0].tolist() == pytest.approx(keras)
    assert data.train.targets[0].item() == pytest.approx(15.2)


def test_reuters_is_keras(real: Path) -> None:
    data = load(real, "reuters")
    assert (data.train.inputs.shape, len(data.test.targets)) == ((8982, 1000), 2246)
    assert data.train.targets[:5].tolist() == [3, 4, 3, 4, 4]
    assert set(data.train.targets.tolist()) == set(range(46))


def test_imdb_is_keras(real: Path) -> None:
    data = load(real, "imdb")
    assert data.train.inputs.shape == data.test.inputs.shape == (25000, 400)
    assert counts(data.train.targets) == counts(data.test.targets) == [12500, 12500]
    first, test = data.train.inputs[0], data.test.inputs[0]
    assert first[first != 0][:6].tolist() == [1, 14, 22, 16, 43, 530]  # "this film was just ..."
    assert test[test != 0][:9].tolist() == [1, 591, 202, 14, 31, 6, 717, 10, 10]
