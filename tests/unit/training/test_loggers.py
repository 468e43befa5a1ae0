"""Loggers of a run, the content of metrics.csv, and W&B without a key or a network."""

import csv
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.loggers.logger import Logger

from focusing.errors import UserError
from focusing.training import wandb_run
from focusing.training.loggers import MetricsFile, build_loggers, close_loggers
from focusing.training.wandb_run import (
    curves_of,
    display_name,
    log_record,
    public_config,
    summary_of,
    tags,
)
from tests.unit.training.fitting import trained


def build(folder: Path, options: dict[str, Any]) -> list[Logger]:
    return build_loggers(options, folder, config={}, experiment="test")


@pytest.mark.parametrize("options", [{}, {"csv": {}}, {"csv": None}])
def test_there_is_always_a_csv_logger(tmp_path: Path, options: dict[str, Any]) -> None:
    (logger,) = build(tmp_path, options)
    assert isinstance(logger, MetricsFile)
    assert logger.path == tmp_path / "metrics.csv"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"comet": {}}, "'comet' is not one of csv, wandb, tensorboard"),
        ({"wandb": {"mode": "on"}}, "mode=on is not one of"),
        ({"wandb": {"projekt": "x"}}, "projekt is not one of"),
    ],
)
def test_unknown_options_are_refused(
    tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        build(tmp_path, options)


def test_tensorboard_gets_the_metrics(tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    loggers = build(tmp_path, {"tensorboard": {}})
    assert isinstance(loggers[1], TensorBoardLogger)
    trained(tmp_path, loggers=loggers)
    close_loggers(loggers, 0)
    events = accumulators.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert len(events.Scalars("train/loss")) == 3


def test_missing_tensorboard_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    for name in [name for name in sys.modules if name.startswith("tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UserError, match=r"pip install 'focusing\[tensorboard\]'"):
        build(tmp_path, {"tensorboard": {}})


def test_all_loggers_are_closed_even_if_one_fails(
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
    assert "Fails could not be closed: disk full" in caplog.text


class TestMetricsFile:
    """metrics.csv has one row per epoch, even after kills."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "metrics.csv"

    @staticmethod
    def rows(path: Path) -> list[dict[str, str]]:
        with path.open(newline="") as file:
            return list(csv.DictReader(file))

    @staticmethod
    def log(path: Path, *epochs: int, **metrics: float) -> MetricsFile:
        file = MetricsFile(path)
        for epoch in epochs:
            file.log_metrics({"epoch": epoch, "loss": epoch / 10, **metrics})
        return file

    def test_rows_of_a_run(self, tmp_path: Path, path: Path) -> None:
        file = MetricsFile(path)
        module = trained(tmp_path, loggers=[file])
        rows = self.rows(path)
        assert [row["epoch"] for row in rows] == ["0", "1", "2"]
        assert all(all(row.values()) for row in rows)
        assert [float(row["train/loss"]) for row in rows] == module.series["train/loss"]
        assert (file.name, file.version, file.save_dir) == ("csv", "", str(tmp_path))

    def test_metrics_of_an_epoch_share_a_row(self, path: Path) -> None:
        file = MetricsFile(path)
        file.log_metrics({"epoch": 0, "a": 1})
        file.log_metrics({"epoch": 0, "b": 2}, step=7)
        file.log_metrics({"epoch": 1, "b": 3})
        file.log_metrics({"c": 4})  # belongs to no epoch
        assert path.read_text() == "epoch,a,b\n0,1.0,2.0\n1,,3.0\n"

    def test_going_back_replaces_later_rows(self, path: Path) -> None:
        self.log(path, 0, 1, 2, 3)
        self.log(path, 2, 3, 4)
        assert [row["epoch"] for row in self.rows(path)] == ["0", "1", "2", "3", "4"]
        self.log(path, 2)
        assert [row["epoch"] for row in self.rows(path)] == ["0", "1", "2"]
        self.log(path, 0, new=2.0)  # started again
        assert path.read_text() == "epoch,loss,new\n0,0.0,2.0\n"

    def test_a_truncated_file_can_be_resumed(self, path: Path) -> None:
        self.log(path, 0, 1, 2)
        text = path.read_text()
        for size in range(len(text) + 1):  # a truncated line is dropped
            path.write_text(text[:size])
            complete = text[:size].count("\n") - 1
            self.log(path, *range(max(0, complete), 3))
            assert path.read_text() == text

    def test_equal_rows_are_not_written_again(self, path: Path) -> None:
        file = self.log(path, 0, 1)
        path.unlink()
        file.log_metrics({"epoch": 1, "loss": 0.1})
        assert not path.exists()


KEY = {"WANDB_API_KEY": "0" * 40}


class TestMode:
    """Whether a W&B run is online, decided without waiting for W&B."""

    @pytest.fixture(autouse=True)
    def clean_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        names = ("MODE", "API_KEY", "IDENTITY_TOKEN_FILE", "BASE_URL")
        for name in [f"WANDB_{name}" for name in names] + ["HTTPS_PROXY", "https_proxy"]:
            monkeypatch.setenv(name, "")  # so that monkeypatch restores it
            monkeypatch.delenv(name)
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    @pytest.mark.parametrize(
        ("environment", "netrc", "mode"),
        [
            ({"WANDB_MODE": "disabled"}, "", "disabled"),
            ({}, "", "offline"),  # without a key
            (KEY, "", "online"),
            (
                {**KEY, "HTTPS_PROXY": "{server}", "WANDB_BASE_URL": "https://nowhere.invalid"},
                "",
                "online",
            ),
            ({**KEY, "WANDB_BASE_URL": "{deaf}"}, "", "offline"),
            # The file that wandb login writes; the last one is damaged.
            ({}, "machine {host} login user password 00\n", "online"),
            ({}, "machine else.invalid login user password 00\n", "offline"),
            ({}, "machine", "offline"),
        ],
    )
    def test_online_needs_a_key_and_a_connection(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        environment: dict[str, str],
        netrc: str,
        mode: str,
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))  # a port that refuses connections
            host, nobody = (f"127.0.0.1:{one.getsockname()[1]}" for one in (server, deaf))
            for name, value in {"WANDB_BASE_URL": "{server}", **environment}.items():
                url = value.format(server=f"http://{host}", deaf=f"http://{nobody}")
                monkeypatch.setenv(name, url)
            (tmp_path / "netrc").write_text(netrc.format(host=host))
            assert wandb_run._decide_mode(1) == mode
        assert os.environ.get("WANDB_MODE", "online") == mode  # for the jobs that follow


CONFIG: dict[str, Any] = {
    "name": "mine",
    "seed": 3,
    "size": "quick",
    "variant": "text",
    "data": {"name": "mnist", "fake": False, "on_missing": "sample"},
    "model": {"name": "focus_s"},
    "protocol": {"name": "holdout"},
    "paths": {"data_dir": "somewhere"},
}
RECORD: dict[str, Any] = {
    "experiment": "mine",
    "config": CONFIG,
    "data": {"name": "mnist"},
    "metric": "accuracy",
    "status": "done",
    "finished": "now",
    "scores": {
        "best_test": {"value": 0.9, "epoch": 1},
        "holdout": {"value": 0.8, "epoch": 2},
        "last": None,
    },
    "test_metrics": {"macro_f1": 0.7, "confusion_matrix": [[2, 1], [0, 3]]},
    "network": {"parameters": 7},
    "focus": {"hidden1": {"moved": 0.5}},
    "measured": {
        "timing": {"ratio": {"train": 1.2, "test": None}, "device": "cpu"},
        "pruning": {
            "curve": [{"threshold": 0.5, "sparsity": 0.1, "acc": 0.9, "loss": 1.0}],
            "magnitude": [{"sparsity": 0.2, "mae": 3.0}],
        },
    },
    "wall_seconds": 2.0,
    "steps_per_second": None,
}


class TestShownInWandb:
    def test_name_and_tags(self) -> None:
        assert display_name({**CONFIG, "seed": 5}) == "focus_s · mnist · seed 5"
        groups = ["data=mnist", "model=focus_s", "size=quick", "variant=text", "protocol=holdout"]
        assert tags(CONFIG) == groups

    @pytest.mark.parametrize(
        ("changes", "label"),
        [
            ({}, "focus_s, quick, holdout, sample (mine)"),
            ({"size": "full", "protocol": {"name": "best_test"}, "data": {}}, "focus_s (mine)"),
            (
                {"variant": "author", "data": {"fake": True}},
                "focus_s, quick, author, holdout, fake data (mine)",
            ),
        ],
    )
    def test_labels_name_differences(self, changes: dict[str, Any], label: str) -> None:
        assert public_config({**CONFIG, **changes})["label"] == label

    def test_seeds_share_a_hash_and_paths_are_left_out(self) -> None:
        one, other = public_config(CONFIG), public_config({**CONFIG, "seed": 4})
        assert one["config_hash"] == other["config_hash"]
        assert (one["seed"], other["seed"]) == (3, 4)
        assert "paths" not in one

    def test_the_summary_has_scores_and_measurements(self) -> None:
        assert summary_of(RECORD) == {
            "score/best_test": 0.9,
            "score/holdout": 0.8,
            "mine/mnist": 0.8,  # under the protocol of the run
            "test/macro_f1": 0.7,
            "network/parameters": 7,
            "focus/hidden1/moved": 0.5,
            "timing/ratio/train": 1.2,
            "wall_seconds": 2.0,
            "status": "done",
            "finished": "now",
        }

    def test_pruning_curves(self) -> None:
        assert list(curves_of(RECORD)) == [
            {"pruning/sparsity": 0.1, "pruning/threshold": 0.5, "pruning/focus_acc": 0.9},
            {"pruning/sparsity": 0.2, "pruning/magnitude_mae": 3.0},
        ]
        assert list(curves_of({})) == []

    def test_the_confusion_matrix_is_a_chart(self, caplog: pytest.LogCaptureFixture) -> None:
        class Run:
            logged: dict[str, Any] = {}
            summary: dict[str, Any] = {}

            def log(self, row: dict[str, Any]) -> None:
                self.logged.update(row)

        log_record(Run(), RECORD, Path("nowhere"))
        assert not caplog.text
        counts = Run.logged["test/confusion_matrix"].table.data
        assert [tuple(row) for row in counts] == [
            ("0", "0", 2), ("0", "1", 1), ("1", "0", 0), ("1", "1", 3)
        ]  # fmt: skip
        assert Run.summary["test/macro_f1"] == 0.7
