"""Which loggers a run gets, and what happens without a key, a network or a package."""

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.loggers import TensorBoardLogger, WandbLogger
from pytorch_lightning.loggers.logger import Logger

from focusing.errors import UserError
from focusing.training import wandb_run
from focusing.training.loggers import MetricsFile, build_loggers, close_loggers
from tests.unit.callbacks.tiny import LIGHTNING, Batches, Module, trainer

pytestmark = LIGHTNING


def build(folder: Path, options: dict[str, Any]) -> list[Logger]:
    return build_loggers(options, folder, config={}, experiment="test")


@pytest.mark.parametrize("options", [{}, {"csv": {}}, {"csv": None}])
def test_csv_always(tmp_path: Path, options: dict[str, Any]) -> None:
    (logger,) = build(tmp_path, options)
    assert isinstance(logger, MetricsFile)
    assert logger.path == tmp_path / "metrics.csv"


def test_unknown_loggers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'comet' is not one of csv, wandb, tensorboard"):
        build(tmp_path, {"comet": {}})


def test_tensorboard_gets_the_metrics(tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    loggers = build(tmp_path, {"tensorboard": {}})
    assert isinstance(loggers[1], TensorBoardLogger)
    trainer(tmp_path, logger=loggers).fit(Module(), Batches())
    close_loggers(loggers, 0)
    events = accumulators.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert len(events.Scalars("train/loss")) == 3


def test_without_tensorboard_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    for name in [name for name in sys.modules if name.startswith("tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UserError, match=r"pip install 'focusing\[tensorboard\]'"):
        build(tmp_path, {"tensorboard": {}})


def test_a_logger_that_fails_keeps_none_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    closed = []

    class Fails(MetricsFile):
        def finalize(self, status: str) -> None:
            closed.append(status)
            raise OSError("disk full")

    path = tmp_path / "metrics.csv"
    close_loggers([Fails(path), Fails(path)], exit_code=3)
    assert closed == ["failed", "failed"]
    assert "Fails did not close well: disk full" in caplog.text


class TestMode:
    """Of a W&B run, decided before W&B itself could wait for anything."""

    @pytest.fixture(autouse=True)
    def nothing_set(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        names = ("MODE", "API_KEY", "IDENTITY_TOKEN_FILE", "BASE_URL")
        for name in [f"WANDB_{name}" for name in names] + ["HTTPS_PROXY", "https_proxy"]:
            monkeypatch.setenv(name, "")  # so that what the code sets is undone
            monkeypatch.delenv(name)
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    @pytest.fixture
    def server(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        with socket.create_server(("127.0.0.1", 0)) as server:
            monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
            yield server

    def test_the_environment_decides(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WANDB_MODE", "disabled")
        assert wandb_run._decide_mode(1) == "disabled"

    def test_without_a_key_offline(self, server: Any) -> None:
        assert wandb_run._decide_mode(1) == "offline"
        assert os.environ["WANDB_MODE"] == "offline"  # for the jobs that follow

    def test_a_key_and_a_connection(self, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        assert wandb_run._decide_mode(1) == "online"

    def test_a_key_without_a_connection(self, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        server.close()
        assert wandb_run._decide_mode(1) == "offline"

    def test_a_proxy_is_asked_instead(self, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        monkeypatch.setenv("HTTPS_PROXY", os.environ["WANDB_BASE_URL"])
        monkeypatch.setenv("WANDB_BASE_URL", "https://nowhere.invalid")
        assert wandb_run._decide_mode(1) == "online"

    @pytest.mark.parametrize(
        ("machine", "mode"), [("127.0.0.1:{port}", "online"), ("else.invalid", "offline")]
    )
    def test_a_key_of_wandb_login(
        self, server: Any, tmp_path: Path, machine: str, mode: str
    ) -> None:
        host = machine.format(port=server.getsockname()[1])
        (tmp_path / "netrc").write_text(f"machine {host} login user password {'0' * 40}\n")
        assert wandb_run._decide_mode(1) == mode

    def test_an_unreadable_netrc_is_none(self, server: Any, tmp_path: Path) -> None:
        (tmp_path / "netrc").write_text("machine")
        assert wandb_run._decide_mode(1) == "offline"

    def test_one_run_per_folder(self, tmp_path: Path) -> None:
        ids = []
        for folder in (tmp_path / "a", tmp_path / "a", tmp_path / "b"):
            folder.mkdir(exist_ok=True)
            loggers = build(folder, {"wandb": {"mode": "disabled"}})
            assert isinstance(loggers[1], WandbLogger)
            close_loggers(loggers, 0)
            ids.append((folder / "wandb" / "run_id").read_text())
        assert ids[0] == ids[1] != ids[2]

    @pytest.mark.parametrize(
        ("options", "message"),
        [({"mode": "on"}, "mode=on is not one of"), ({"projekt": "x"}, "projekt is not one of")],
    )
    def test_wrong_options(self, tmp_path: Path, options: dict[str, Any], message: str) -> None:
        with pytest.raises(UserError, match=message):
            build(tmp_path, {"wandb": options})
