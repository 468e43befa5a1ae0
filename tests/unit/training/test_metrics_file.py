"""metrics.csv has one row per epoch, whatever happens to the process."""

import csv
from pathlib import Path

import pytest

from focusing.training.loggers import MetricsFile
from tests.unit.callbacks.tiny import LIGHTNING, Batches, Module, trainer

pytestmark = LIGHTNING


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def log(path: Path, *epochs: int, **metrics: float) -> MetricsFile:
    file = MetricsFile(path)
    for epoch in epochs:
        file.log_metrics({"epoch": epoch, "loss": epoch / 10, **metrics})
    return file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.csv"


def test_a_real_run(tmp_path: Path, path: Path) -> None:
    file = MetricsFile(path)
    fitted = trainer(tmp_path, logger=file)
    fitted.fit(Module(), Batches(), Batches())
    found = rows(path)
    assert [row["epoch"] for row in found] == ["0", "1", "2"]
    assert list(found[0]) == ["epoch", "val/acc", "train/loss", "focus/sigma_mean"]
    assert all(all(row.values()) for row in found)
    assert float(found[-1]["train/loss"]) == fitted.callback_metrics["train/loss"].item()
    assert (file.name, file.version, file.save_dir) == ("csv", "", str(tmp_path))


def test_metrics_of_an_epoch_are_gathered(path: Path) -> None:
    file = MetricsFile(path)
    file.log_metrics({"epoch": 0, "a": 1})
    file.log_metrics({"epoch": 0, "b": 2}, step=7)
    file.log_metrics({"epoch": 1, "b": 3})
    file.log_metrics({"c": 4})  # belongs to no epoch
    assert path.read_text() == "epoch,a,b\n0,1.0,2.0\n1,,3.0\n"


def test_the_rows_of_a_run_that_went_back_are_replaced(path: Path) -> None:
    log(path, 0, 1, 2, 3)
    log(path, 2, 3, 4)
    assert [row["epoch"] for row in rows(path)] == ["0", "1", "2", "3", "4"]
    log(path, 2)
    assert [row["epoch"] for row in rows(path)] == ["0", "1", "2"]


def test_a_run_started_anew_keeps_nothing(path: Path) -> None:
    log(path, 0, 1, old=1.0)
    log(path, 0, new=2.0)
    assert path.read_text() == "epoch,loss,new\n0,0.0,2.0\n"


@pytest.mark.parametrize("torn", ["", "3", "3,0.", "3,0.3"])
def test_a_torn_line_is_dropped(path: Path, torn: str) -> None:
    log(path, 0, 1, 2)
    path.write_text(path.read_text() + torn)
    log(path, 3, 4)
    assert path.read_text() == "epoch,loss\n0,0.0\n1,0.1\n2,0.2\n3,0.3\n4,0.4\n"


def test_every_prefix_of_the_file_can_be_resumed(path: Path) -> None:
    log(path, 0, 1, 2)
    text = path.read_text()
    for size in range(len(text) + 1):
        path.write_text(text[:size])
        whole = len(rows(path)) if text[:size].endswith("\n") else text[:size].count("\n") - 1
        log(path, *range(max(0, whole), 3))
        assert path.read_text() == text


def test_equal_rows_are_not_written_again(path: Path) -> None:
    file = log(path, 0, 1)
    path.unlink()
    file.log_metrics({"epoch": 1, "loss": 0.1})
    assert not path.exists()
