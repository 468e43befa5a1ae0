"""Training from the command line on a machine without data sets and network."""

from pathlib import Path

import pytest

from tests.integration.commands import record, run_dirs, run_here

FAST = ["debug=fast", "model.hidden=[8,8]", "callbacks=none", "data.limit_train=200"]


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("FOCUSING_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("FOCUSING_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing answers there
    monkeypatch.setenv("COLUMNS", "300")


def train(folder: Path, *overrides: str, code: int = 0) -> str:
    """Train quickly; returns stderr."""
    done = run_here("train", *FAST, *overrides, cwd=folder)
    assert done.returncode == code, done.stderr
    return done.stderr


def test_trains_on_the_sample_without_data(tmp_path: Path) -> None:
    errors = train(tmp_path, "data=clt", "data.train=200", "data.test=100")
    assert "Warning: 5000 digits in place of 70 000." in errors
    [folder] = run_dirs(tmp_path)
    assert record(folder)["data"]["source"] == "generated, sample-5k"
    assert record(folder)["config"]["data"]["on_missing"] == "sample"


@pytest.mark.parametrize("mode", ["hydra.mode=MULTIRUN", "experiment=learning_to_focus"])
def test_sweeps_and_experiments_stop_without_data(tmp_path: Path, mode: str) -> None:
    errors = train(tmp_path, "data=mnist", mode, code=1)
    assert "or run `focusing data get mnist` where there is a netw" in errors
    assert not run_dirs(tmp_path)


def test_training_on_data_kept_as_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = []
    for limit in (2**30, 100):
        monkeypatch.setattr("focusing.data.dataset.MAX_PREPARED_BYTES", limit)
        train(tmp_path, "data=catsdogs", "data.size=16", "data.fake=true", "force=true")
        [folder] = run_dirs(tmp_path)
        losses.append(record(folder)["series"]["test/loss"])
    assert losses[0] == losses[1]
