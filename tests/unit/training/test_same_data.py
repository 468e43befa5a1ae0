"""A finished run, and one to go on with, on data that has changed meanwhile."""

import shutil
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from focusing.compose import config_dir, prepare_hydra
from focusing.errors import UserError
from focusing.run import train
from tests.unit.data import makers


@pytest.fixture
def cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DictConfig:
    monkeypatch.setenv("FOCUSING_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nobody answers there
    makers.digits(tmp_path / "data" / "mnist")
    prepare_hydra()
    overrides = [
        *("data=mnist", "data.on_missing=error", "model=dense", "model.hidden=[4,4]", "debug=fast"),
        *("callbacks=none", "figures=false", f"paths.data_dir={tmp_path / 'data'}"),
        f"paths.output_dir={tmp_path / 'outputs'}",
    ]
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        return compose("train", overrides)


def test_a_finished_run_on_other_data_is_not_finished(
    cfg: DictConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    score = train(cfg)
    with monkeypatch.context() as patch:  # to say so takes no preparing
        patch.setattr("focusing.data.dataset.Preparation.fit", None)
        assert train(cfg) == score
    assert "Finished earlier" in capsys.readouterr().out
    makers.digits(tmp_path / "data" / "mnist")
    with pytest.raises(
        UserError,
        match=r"seed=0 was trained on other data: local, fingerprint \w{16}; now data=mnist is "
        r"local, fingerprint \w{16}; force=true runs it again\.$",
    ):
        train(cfg)
    cfg.force = True
    train(cfg)
    cfg.force = False
    shutil.rmtree(tmp_path / "data")  # what is gone has not changed
    train(cfg)
    assert "Finished earlier" in capsys.readouterr().out


def test_a_checkpoint_of_other_data_is_not_gone_on_from(cfg: DictConfig, tmp_path: Path) -> None:
    train(cfg)
    [record] = (tmp_path / "outputs").glob("*/*/seed=0/result.json")
    record.unlink()  # as if it had been killed at the very end
    train(cfg)
    record.unlink()
    makers.digits(tmp_path / "data" / "mnist")
    with pytest.raises(UserError, match=r"now data=mnist is local.*; resume=never begins again\."):
        train(cfg)
    assert not record.exists()
    cfg.resume = "never"
    train(cfg)
    assert record.exists()
