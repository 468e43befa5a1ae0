"""The real files, where FOCUSING_DATA_DIR has them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from focusing.data import (
    boston,
    catsdogs,
    cifar10,
    clt,
    dna,
    fashion,
    fsdd,
    imdb,
    lfw,
    mnist,
    reuters,
)
from focusing.data.sources import catalogue, find

Have = Callable[[str], Path]


@pytest.fixture
def have(real: Path) -> Have:
    def folder_of(name: str) -> Path:
        if find(catalogue()[name], real) is None:
            pytest.skip(f"{name} is not in FOCUSING_DATA_DIR")
        return real

    return folder_of


def counts(targets: torch.Tensor) -> list[int]:
    return np.bincount(targets.numpy()).tolist()


def test_mnist(have: Have) -> None:
    data = mnist(data_dir=have("mnist"), preprocess="unit")
    assert (data.train.inputs.shape, data.test.inputs.shape[0]) == ((60000, 28, 28, 1), 10000)
    assert data.source == "official"
    assert data.train.inputs.mean().item() == pytest.approx(0.1307, abs=5e-5)
    assert data.train.inputs.std().item() == pytest.approx(0.3081, abs=5e-5)
    assert counts(data.train.targets) == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip


def test_fashion(have: Have) -> None:
    data = fashion(data_dir=have("fashion"), preprocess="unit")
    assert counts(data.train.targets) == [6000] * 10
    assert counts(data.test.targets) == [1000] * 10
    assert data.train.inputs.mean().item() == pytest.approx(0.2860, abs=5e-5)


def test_cifar10(have: Have) -> None:
    data = cifar10(data_dir=have("cifar10"), preprocess="unit")
    assert counts(data.train.targets) == [5000] * 10
    mean = data.train.inputs.mean((0, 1, 2)).tolist()
    assert mean == pytest.approx([0.49139968, 0.48215841, 0.44653091], abs=1e-5)


def test_generated_clutter(have: Have) -> None:
    data = clt(data_dir=have("mnist"), preprocess="unit")
    assert (data.train.inputs.shape, len(data.test.targets)) == ((60000, 60, 60, 1), 10000)
    assert data.source == "generated"
    assert counts(data.test.targets)[0] == 980
    # The generator's numbers must never change: results are compared over years.
    assert data.fingerprint == "d69cafcfaf9b050f"


def test_small_clutter(have: Have) -> None:
    data = clt(data_dir=have("clt40"), variant="small", preprocess="unit")
    assert (data.train.inputs.shape, len(data.test.targets)) == ((11000, 40, 40, 1), 1000)
    assert data.train.inputs.max() == 1
    assert data.source == "small, official"


def test_lfw(have: Have) -> None:
    data = lfw(data_dir=have("lfw"), split="random", preprocess="author")
    assert (data.train.inputs.shape, len(data.test.targets)) == ((2267, 50, 37, 1), 756)
    assert data.classes == 62
    both = torch.cat([data.train.targets, data.test.targets])
    assert sorted(counts(both))[-3:] == [144, 236, 530]
    assert data.train.inputs.min() >= -2
    assert data.train.inputs.max() < 2


def test_fsdd(have: Have) -> None:
    folder = have("fsdd")
    data = fsdd(data_dir=folder, split="random")
    assert (data.train.inputs.shape, len(data.test.targets)) == ((1250, 20, 40, 1), 1250)
    assert counts(data.train.targets) == [125] * 10
    official = fsdd(data_dir=folder, speakers=["lucas", "theo"])
    assert (len(official.train.targets), len(official.test.targets)) == (900, 100)
    fold = fsdd(data_dir=folder, split="kfold10", fold=9)
    assert counts(fold.test.targets) == [25] * 10


def test_boston(have: Have) -> None:
    data = boston(data_dir=have("boston"))
    assert (data.train.inputs.shape, len(data.test.targets)) == ((404, 13), 102)
    keras = [1.23247, 0.0, 8.14, 0.0, 0.538, 6.142, 91.7, 3.9769, 4.0, 307.0, 21.0, 396.9, 18.72]
    assert data.train.inputs[0].tolist() == pytest.approx(keras)
    assert data.train.targets[0].item() == pytest.approx(15.2)


def test_dna(have: Have) -> None:
    paper = dna(data_dir=have("dna"), split="random", test_share=0.2)
    assert len(paper.test.targets) == 638
    data = dna(data_dir=have("dna"))
    assert (data.train.inputs.shape, len(data.test.targets)) == ((2000, 180), 1186)
    assert counts(torch.cat([data.train.targets, data.test.targets])) == [767, 765, 1654]


def test_reuters(have: Have) -> None:
    data = reuters(data_dir=have("reuters"))
    assert (data.train.inputs.shape, len(data.test.targets)) == ((8982, 1000), 2246)
    assert data.train.targets[:5].tolist() == [3, 4, 3, 4, 4]  # as Keras gives them
    assert set(data.train.targets.tolist()) == set(range(46))


def test_imdb(have: Have) -> None:
    data = imdb(data_dir=have("imdb"))
    assert data.train.inputs.shape == data.test.inputs.shape == (25000, 400)
    assert counts(data.train.targets) == counts(data.test.targets) == [12500, 12500]
    first = data.train.inputs[0]
    assert first[first != 0][:6].tolist() == [1, 14, 22, 16, 43, 530]  # "this film was just ..."
    test = data.test.inputs[0]
    assert test[test != 0][:9].tolist() == [1, 591, 202, 14, 31, 6, 717, 10, 10]  # as Keras' docs


def test_catsdogs(have: Have) -> None:
    data = catsdogs(data_dir=have("catsdogs"), split="random")
    assert data.train.inputs.shape[1:] == (125, 125, 3)
    assert len(set(counts(torch.cat([data.train.targets, data.test.targets])))) == 1
