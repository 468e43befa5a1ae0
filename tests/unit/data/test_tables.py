from pathlib import Path

import numpy as np
import pytest

from focusing.data import boston, dna
from focusing.errors import UserError
from tests.unit.data import makers

TABLE = np.random.default_rng(0).random((506, 14)).round(4)


@pytest.fixture
def housing(tmp_path: Path) -> Path:
    (tmp_path / "boston").mkdir()
    path = tmp_path / "boston" / "housing.data"
    path.write_text("".join(" " + "  ".join(map(str, row)) + "\n" for row in TABLE))
    return path


def test_boston_is_split_as_in_keras(tmp_path: Path, housing: Path) -> None:
    data = boston(data_dir=tmp_path)
    assert (data.train.inputs.shape, data.test.inputs.shape) == ((404, 13), (102, 13))
    assert (data.classes, data.metric) == (0, "mae")
    order = np.arange(506)
    np.random.RandomState(113).shuffle(order)  # noqa: NPY002 - Keras' way
    np.testing.assert_allclose(data.train.targets, TABLE[order[:404], 13], rtol=1e-6)
    np.testing.assert_allclose(data.test.inputs, TABLE[order[404:], :13], rtol=1e-6)


def test_wrapped_lines_and_the_file_of_keras_give_the_same(tmp_path: Path, housing: Path) -> None:
    first = boston(data_dir=tmp_path)
    words = housing.read_text().split()
    housing.write_text("\n".join(" ".join(words[i : i + 7]) for i in range(0, len(words), 7)))
    second = boston(data_dir=tmp_path)
    housing.unlink()
    content = makers.npz(x=TABLE[:, :13], y=TABLE[:, 13])
    (tmp_path / "boston" / "boston_housing.npz").write_bytes(content)
    assert first.fingerprint == second.fingerprint == boston(data_dir=tmp_path).fingerprint


def test_zeros_on_either_side(tmp_path: Path, housing: Path) -> None:
    data = boston(data_dir=tmp_path, pad=5, preprocess="standard")
    assert data.train.inputs.shape == (404, 23)
    assert not data.train.inputs[:, :5].any()
    assert not data.train.inputs[:, 18:].any()
    assert data.informative == (5, 18)
    np.testing.assert_allclose(data.train.inputs[:, 5:18].mean(0), 0, atol=1e-6)


@pytest.mark.parametrize("change", [lambda text: text[:5000], lambda text: text + " x"])
def test_a_damaged_table_is_put_aside(tmp_path: Path, housing: Path, change) -> None:
    housing.write_text(change(housing.read_text()))
    with pytest.raises(UserError, match=r"housing.data is damaged .* now housing\.data\.corrupt"):
        boston(data_dir=tmp_path)
    assert not housing.exists()


ROWS = np.random.default_rng(1).integers(0, 2, (40, 180))
CLASSES = np.arange(40) % 3 + 1


def libsvm(path: Path, rows: np.ndarray, classes: np.ndarray) -> None:
    lines = [
        f"{label} " + " ".join(f"{column + 1}:1" for column in np.flatnonzero(row)) + " \n"
        for row, label in zip(rows, classes, strict=True)
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(lines))


def test_dna_from_libsvm(tmp_path: Path) -> None:
    libsvm(tmp_path / "dna/dna.scale", ROWS[:30], CLASSES[:30])
    libsvm(tmp_path / "dna/dna.scale.t", ROWS[30:], CLASSES[30:])
    data = dna(data_dir=tmp_path)
    np.testing.assert_array_equal(data.train.inputs, ROWS[:30])
    np.testing.assert_array_equal(data.test.targets, CLASSES[30:] - 1)


def test_dna_from_arff_has_no_official_split(tmp_path: Path) -> None:
    head = "% comment\n@relation dna\n" + "".join(f"@attribute A{i} {{0,1}}\n" for i in range(180))
    body = "".join(
        ",".join(map(str, row)) + f",{label}\n" for row, label in zip(ROWS, CLASSES, strict=True)
    )
    (tmp_path / "dna").mkdir()
    (tmp_path / "dna/dna.arff").write_text(f"{head}@attribute class {{1,2,3}}\n@data\n{body}")
    with pytest.raises(UserError, match=r"data\.split=official: this data set has none"):
        dna(data_dir=tmp_path)
    data = dna(data_dir=tmp_path, split="random", test_share=0.2)
    assert (len(data.train.targets), len(data.test.targets)) == (32, 8)


@pytest.mark.parametrize("line", ["4 1:1\n", "1 181:1\n", "1 x\n"])
def test_a_damaged_dna_file_is_put_aside(tmp_path: Path, line: str) -> None:
    libsvm(tmp_path / "dna/dna.scale", ROWS[:30], CLASSES[:30])
    libsvm(tmp_path / "dna/dna.scale.t", ROWS[30:], CLASSES[30:])
    with (tmp_path / "dna/dna.scale").open("a") as file:
        file.write(line)
    with pytest.raises(UserError, match=r"dna.scale is damaged .* now dna\.scale\.corrupt"):
        dna(data_dir=tmp_path)
