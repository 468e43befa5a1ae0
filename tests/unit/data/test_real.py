"""The real files, where FOCUSING_DATA_DIR has them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import focusing.data
from focusing.data import DataSet
from focusing.data.sources import catalogue, find

FILES = {"clt": "mnist"}


@pytest.fixture
def load(real: Path):
    def load(name: str, **options: Any) -> DataSet:
        files = "clt40" if options.get("variant") else FILES.get(name, name)
        if find(catalogue()[files], real) is None:
            pytest.skip(f"{files} is not in FOCUSING_DATA_DIR")
        return getattr(focusing.data, name)(data_dir=real, **options)

    return load


def counts(*targets: torch.Tensor) -> list[int]:
    return np.bincount(torch.cat(targets).numpy()).tolist()


@pytest.mark.parametrize(
    ("name", "options", "shape", "tests"),
    [
        ("mnist", {"preprocess": "unit"}, (60000, 28, 28, 1), 10000),
        ("fashion", {"preprocess": "unit"}, (60000, 28, 28, 1), 10000),
        ("cifar10", {"preprocess": "unit"}, (50000, 32, 32, 3), 10000),
        ("clt", {"preprocess": "unit"}, (60000, 60, 60, 1), 10000),
        ("clt", {"preprocess": "unit", "variant": "small"}, (11000, 40, 40, 1), 1000),
        ("lfw", {"preprocess": "author", "split": "random"}, (2267, 50, 37, 1), 756),
        ("fsdd", {"split": "random"}, (1250, 20, 40, 1), 1250),
        ("boston", {}, (404, 13), 102),
        ("dna", {}, (2000, 180), 1186),
        ("dna", {"split": "random"}, (2548, 180), 638),
        ("reuters", {}, (8982, 1000), 2246),
        ("imdb", {}, (25000, 400), 25000),
        ("catsdogs", {"split": "random"}, None, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_real_data(load, name: str, options, shape: tuple[int, ...] | None, tests: int) -> None:
    data = load(name, **options)
    inputs, targets = data.train
    if shape is not None:
        assert (inputs.shape, len(data.test.targets)) == (shape, tests)
    check = CHECKS.get(data.source if name == "clt" else name)
    if check:
        check(data, inputs, targets)


def check_mnist(data: DataSet, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    assert data.source == "official"
    assert inputs.mean().item() == pytest.approx(0.1307, abs=5e-5)
    assert inputs.std().item() == pytest.approx(0.3081, abs=5e-5)
    assert counts(targets) == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


def check_fashion(data: DataSet, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    assert (counts(targets), counts(data.test.targets)) == ([6000] * 10, [1000] * 10)
    assert inputs.mean().item() == pytest.approx(0.2860, abs=5e-5)


def check_cifar10(data: DataSet, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    assert counts(targets) == [5000] * 10
    mean = inputs.mean((0, 1, 2)).tolist()
    assert mean == pytest.approx([0.49139968, 0.48215841, 0.44653091], abs=1e-5)


def check_generated(data: DataSet, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    assert counts(data.test.targets)[0] == 980
    # The generator's numbers must never change: results are compared over years.
    assert data.fingerprint == "d69cafcfaf9b050f"


def check_small(data: DataSet, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    assert inputs.max() == 1


def check_lfw(data: DataSet, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    assert data.classes == 62
    assert sorted(counts(targets, data.test.targets))[-3:] == [144, 236, 530]
    assert inputs.min() >= -2
    assert inputs.max() < 2


def check_fsdd(data: DataSet, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    assert counts(targets) == [125] * 10


def check_boston(data: DataSet, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    keras = [1.23247, 0.0, 8.14, 0.0, 0.538, 6.142, 91.7, 3.9769, 4.0, 307.0, 21.0, 396.9, 18.72]
    assert inputs[0].tolist() == pytest.approx(keras)
    assert targets[0].item() == pytest.approx(15.2)


def check_dna(data: DataSet, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    assert counts(targets, data.test.targets) == [767, 765, 1654]


def check_reuters(data: DataSet, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    assert targets[:5].tolist() == [3, 4, 3, 4, 4]  # as Keras gives them
    assert set(targets.tolist()) == set(range(46))


def check_imdb(data: DataSet, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    assert counts(targets) == counts(data.test.targets) == [12500, 12500]
    first, test = inputs[0], data.test.inputs[0]
    assert first[first != 0][:6].tolist() == [1, 14, 22, 16, 43, 530]  # "this film was just ..."
    assert test[test != 0][:9].tolist() == [1, 591, 202, 14, 31, 6, 717, 10, 10]  # as Keras' docs


def check_catsdogs(data: DataSet, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    assert inputs.shape[1:] == (125, 125, 3)
    assert len(set(counts(targets, data.test.targets))) == 1


CHECKS = {name[6:]: check for name, check in globals().items() if name.startswith("check_")}
CHECKS["small, official"] = CHECKS.pop("small")
