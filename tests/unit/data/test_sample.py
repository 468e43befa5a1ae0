from pathlib import Path

import numpy as np
import pytest

from focusing.data import clt, mnist
from focusing.data.image_sets import resolve_missing
from focusing.errors import UserError
from tests.unit.data import makers


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nobody answers there


def resolve_missingd(tmp_path: Path, on_missing: str, *, strict: bool = False, **more) -> str:
    options = {"on_missing": on_missing, "fake": False, **more}
    resolve_missing(options, tmp_path, strict=strict)
    return options["on_missing"]


def test_without_files_a_single_run_takes_the_sample_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert resolve_missingd(tmp_path, "auto") == "sample"
    warning = capsys.readouterr().err
    assert "Warning: 5000 digits in place of 70 000." in warning
    assert "focusing data get mnist" in warning
    assert str(tmp_path / "mnist") in warning.replace("\n", "")


def test_the_sample_is_real_digits() -> None:
    data = mnist(data_dir="nowhere", on_missing="sample")
    assert data.source == "sample-5k"
    assert data.train.inputs.shape == (4000, 28, 28, 1)
    assert np.bincount(data.train.targets).tolist() == [400] * 10
    assert np.bincount(data.test.targets).tolist() == [100] * 10
    assert 25 < data.train.inputs.mean() < 45  # of 255; all MNIST has 33
    clutter = clt(data_dir="nowhere", on_missing="sample", train=50, test=20)
    assert clutter.source == "generated, sample-5k"


@pytest.mark.parametrize("on_missing", ["auto", "error"])
def test_a_sweep_and_an_experiment_do_not(tmp_path: Path, on_missing: str) -> None:
    assert resolve_missingd(tmp_path, on_missing, strict=True) == "error"
    with pytest.raises(UserError, match="MNIST digits: train-images-idx3-ubyte.gz, .* not found"):
        mnist(data_dir=tmp_path, on_missing="error")


def test_unless_they_are_told_to(tmp_path: Path) -> None:
    assert resolve_missingd(tmp_path, "sample", strict=True) == "sample"


def test_with_files_there_is_no_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    makers.digits(tmp_path / "mnist")
    assert resolve_missingd(tmp_path, "auto") == resolve_missingd(tmp_path, "sample") == "error"
    assert mnist(data_dir=tmp_path, on_missing="sample").source == "local"
    assert not capsys.readouterr().err


def test_what_needs_no_mnist_is_left_alone(tmp_path: Path) -> None:
    assert resolve_missingd(tmp_path, "auto", fake=True) == "error"
    assert resolve_missingd(tmp_path, "auto", variant="small") == "error"
    options = {"words": 3}
    resolve_missing(options, tmp_path, strict=False)
    assert options == {"words": 3}


def test_other_words_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="data.on_missing=ask is not one of auto, sample, error"):
        resolve_missingd(tmp_path, "ask")
