"""Boston housing and DNA, from small files in the real formats."""

from pathlib import Path

import numpy as np
import pytest

from focusing.data import boston, dna
from focusing.data.decoders import DamagedError
from focusing.data.tabular import read_dna
from focusing.errors import UserError
from tests.unit.data import makers
from tests.unit.data.makers import TABLE


@pytest.fixture
def housing(tmp_path: Path) -> Path:
    makers.housing(tmp_path / "boston")
    return tmp_path / "boston" / "housing.data"


def test_boston_matches_keras(tmp_path: Path, housing: Path) -> None:
    data = boston(data_dir=tmp_path)
    assert (data.train.inputs.shape, data.test.inputs.shape) == ((404, 13), (102, 13))
    assert (data.classes, data.metric) == (0, "mae")
    order = np.arange(506)
    np.random.RandomState(113).shuffle(order)  # noqa: NPY002 - Keras' way
    np.testing.assert_allclose(data.train.targets, TABLE[order[:404], 13], rtol=1e-6)
    np.testing.assert_allclose(data.test.inputs, TABLE[order[404:], :13], rtol=1e-6)


def test_all_file_formats_of_boston_give_the_same_data(tmp_path: Path, housing: Path) -> None:
    first = boston(data_dir=tmp_path)
    words = housing.read_text().split()
    housing.write_text("\n".join(" ".join(words[i : i + 7]) for i in range(0, len(words), 7)))
    second = boston(data_dir=tmp_path)
    housing.unlink()
    content = makers.npz(x=TABLE[:, :13], y=TABLE[:, 13])
    (tmp_path / "boston" / "boston_housing.npz").write_bytes(content)
    assert first.fingerprint == second.fingerprint == boston(data_dir=tmp_path).fingerprint


def test_pad_adds_columns_of_zeros(tmp_path: Path, housing: Path) -> None:
    data = boston(data_dir=tmp_path, pad=5, preprocess="standard")
    assert data.train.inputs.shape == (404, 23)
    assert not data.train.inputs[:, :5].any()
    assert not data.train.inputs[:, 18:].any()
    assert data.informative == (5, 18)
    np.testing.assert_allclose(data.train.inputs[:, 5:18].mean(0), 0, atol=1e-6)


ROWS = np.random.default_rng(1).integers(0, 2, (3186, 180))
CLASSES = np.arange(3186) % 3 + 1


def libsvm(path: Path, rows: np.ndarray, classes: np.ndarray) -> None:
    cells = [" ".join(f"{column + 1}:1" for column in np.flatnonzero(row)) for row in rows]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{n} {row} \n" for n, row in zip(classes, cells, strict=True)))


def test_dna_from_libsvm(tmp_path: Path) -> None:
    libsvm(tmp_path / "dna/dna.scale", ROWS[:2000], CLASSES[:2000])
    libsvm(tmp_path / "dna/dna.scale.t", ROWS[2000:], CLASSES[2000:])
    data = dna(data_dir=tmp_path)
    np.testing.assert_array_equal(data.train.inputs, ROWS[:2000])
    np.testing.assert_array_equal(data.test.targets, CLASSES[2000:] - 1)
    assert data.labels == ("ei", "ie", "n")
    libsvm(tmp_path / "dna/dna.scale.t", ROWS[:1000], CLASSES[:1000])  # cut off after a line
    with pytest.raises(
        UserError,
        match=r"1000 rows instead of 1186\): it is now dna\.scale\.t\.corrupt; put a good copy",
    ):
        dna(data_dir=tmp_path)
    assert (tmp_path / "dna/dna.scale").exists()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("4 1:1\n", "classes are not 1 to 3"),
        ("1.5 1:1\n", "classes are not 1 to 3"),
        ("nan 1:1\n", "classes are not 1 to 3"),
        ("1 181:1\n", "contains 181 features"),
        ("1 x\n", "(need more than 1 value|not enough values)"),
        ("1 7:nan\n", "values other than 0 and 1"),
        ("1 7:2\n", "values other than 0 and 1"),
        ("", "30 rows instead of 31"),
    ],
)
def test_a_damaged_libsvm_file(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "dna.scale"
    libsvm(path, ROWS[:30], CLASSES[:30])
    with path.open("a") as file:
        file.write(line)
    with pytest.raises(DamagedError, match=f"dna.scale is damaged: .*{reason}"):
        read_dna(path, expected={"dna.scale": 31})
