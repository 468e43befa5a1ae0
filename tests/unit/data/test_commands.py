"""The commands ``focusing data list``, ``get`` and ``check``."""

from pathlib import Path

import pytest

from focusing.errors import UserError
from tests.command_line import check_data, get_data, list_data
from tests.unit.data import makers


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline: None) -> Path:
    monkeypatch.setenv("FOCUSING_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def test_list_shows_where_files_are(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    makers.digits(data_dir / "mnist")
    list_data([])
    lines = capsys.readouterr().out.splitlines()
    where = {line[:26].strip(): line[68:] for line in lines[:-2]}
    assert where["mnist"] == "here, in mnist"
    assert where["cifar10"] == "focusing data get cifar10"
    assert where["clt data.variant=original"].startswith("put mnist_cluttered_60x60")
    assert where["synthetic"] == where["clt"].replace("from mnist ", "") == "made when needed"
    assert where["shifted"] == where["clt"]
    assert str(data_dir) in lines[-1]


def test_get_names_the_files(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    makers.digits(data_dir / "mnist")
    get_data(["clt"])
    assert str(data_dir / "mnist/t10k-labels-idx1-ubyte.gz") in capsys.readouterr().out


def test_get_continues_after_a_failure(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    makers.digits(data_dir / "mnist")
    with pytest.raises(UserError, match="^reuters, clt60 could not be downloaded, see above.$"):
        get_data(["reuters", "mnist", "clt60"])
    said = capsys.readouterr()
    assert said.out.startswith(f"mnist: {data_dir / 'mnist'}")
    lines = said.err.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "Reuters newswires",
        "Cluttered MNIST 60x60, the original file",
    ]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [([], "NAME"), (["minst"], "did you mean mnist"), (["zebra"], "; there are boston, catsdogs")],
)
def test_get_refuses_unknown_names(names: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        get_data(names)


def test_check_reads_existing_files(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    makers.digits(data_dir / "mnist")
    check_data([])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("mnist     60 + 20 samples of 28x28x1, 10 classes, local, finger")
    assert "cifar10   missing" in lines


def test_check_continues_after_damage(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    makers.digits(data_dir / "mnist")
    makers.digits(data_dir / "fashion-mnist")
    path = data_dir / "mnist/train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:99])
    with pytest.raises(UserError, match="^mnist cannot be read, see above"):
        check_data(["mnist", "clt", "fashion"])
    lines = capsys.readouterr().out.splitlines()
    assert "it is now train-images-idx3-ubyte.gz.corrupt" in lines[0]
    assert lines[1].startswith("fashion   60 + 20 samples")
