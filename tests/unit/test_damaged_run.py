"""Damaged files in a run folder: they are renamed with a warning, and the run goes on."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from focusing.data import synthetic
from focusing.errors import UserError
from focusing.results.store import read_record
from focusing.run import train
from focusing.shipping.trained import evaluate
from focusing.training.checkpoint import encode, load_checkpoint
from focusing.training.loggers import MetricsFile
from focusing.training.resume import DATA_FILE, check_resumed_data
from tests.unit.test_run import config, folder_of

DAMAGED: dict[str, list[bytes]] = {
    "result.json": [b"", b"{", b'{"schema": 1, "seed": 0}'],
    "metrics.csv": [b"\xff\xfe", b"epoch,a\n1\n"],
    "checkpoints/data.json": [b"{", b"{}"],
    "checkpoints/last.ckpt": [b"torn", encode({"state_dict": {}})],
}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("done")
    train(config(folder))
    return folder


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, done: Path) -> Path:
    """A run that was killed just before its record was written."""
    folder = tmp_path_factory.mktemp("begun")
    shutil.copytree(done, folder, dirs_exist_ok=True)
    (folder_of(folder) / "result.json").unlink()
    return folder


@pytest.mark.parametrize(
    ("name", "content"),
    [(name, content) for name, contents in DAMAGED.items() for content in contents],
)
def test_a_damaged_file_is_renamed_and_the_run_goes_on(
    begun: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, content: bytes
) -> None:
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    path = folder_of(tmp_path) / name
    path.write_bytes(content)
    if name.endswith("last.ckpt"):
        path.with_name("best.ckpt").unlink()
    with caplog.at_level(logging.WARNING):
        train(config(tmp_path))
    record = read_record(folder_of(tmp_path)) or {}
    assert (record["status"], len(record["series"]["test/acc"])) == ("done", 2)
    assert path.with_name(f"{path.name}.damaged").read_bytes() == content
    assert path.name in caplog.text


@pytest.mark.parametrize(
    "content",
    [b"epoch,a\n\xb2,1\n", b"a,b\n1,2\n", b"epoch,a,a\n", b"epoch,a\n0,x\n", b"epoch,a\n0,1,2\n",
     b'epoch,a\n0,"1\n', b"epoch\n\0\n"],
)  # fmt: skip
def test_a_damaged_metrics_file_is_renamed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    MetricsFile(path).log_metrics({"epoch": 0, "a": 1})
    assert path.read_text() == "epoch,a\n0,1.0\n"
    assert path.with_name("metrics.csv.damaged").read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"fingerprint": 3, "source": "x"}', b"\xff", b"[" * 9999,
     b'{"fingerprint": "\\ud800", "source": "x"}'],
)  # fmt: skip
def test_a_damaged_data_file_is_renamed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / DATA_FILE
    path.parent.mkdir()
    path.write_bytes(content)
    path.with_name("last.ckpt").touch()
    check_resumed_data(tmp_path, synthetic(n_samples=10))
    assert path.with_name("data.json.damaged").read_bytes() == content


def test_a_record_of_a_newer_schema_is_not_touched(begun: Path, tmp_path: Path) -> None:
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    path = folder_of(tmp_path) / "result.json"
    path.write_text('{"schema": 2}')
    with pytest.raises(UserError, match="has schema 2, this version reads 1"):
        train(config(tmp_path))
    assert path.read_text() == '{"schema": 2}'


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is not the config of a run"),
        ("[1, 2]", "should be a valid dictionary"),
        ("a: [", "is not the config of a run"),
        ("seed: 0", "data is missing"),
        ("\x00", "is not the config of a run"),
    ],
)
def test_a_damaged_config_is_refused(done: Path, tmp_path: Path, content: str, reason: str) -> None:
    shutil.copytree(done, tmp_path, dirs_exist_ok=True)
    (folder_of(tmp_path) / "config.yaml").write_text(content)
    with pytest.raises(UserError, match=reason):
        evaluate(folder_of(tmp_path))


@pytest.mark.parametrize(
    "change",
    [{}, {"state_dict": None}, {"state_dict": []}, {"state_dict": {1: 2}},
     {"state_dict": {"net.x": 3}}, {"state_dict": {"net.hidden1.mu": torch.zeros(9)}}, [], 3],
)  # fmt: skip
def test_a_checkpoint_without_matching_weights_is_refused(
    done: Path, tmp_path: Path, change: Any
) -> None:
    shutil.copytree(done, tmp_path, dirs_exist_ok=True)
    path = folder_of(tmp_path) / "checkpoints" / "best.ckpt"
    content = load_checkpoint(path)
    if isinstance(change, dict) and "net.hidden1.mu" in (change.get("state_dict") or {}):
        change = {"state_dict": {**content["state_dict"], **change["state_dict"]}}
    path.write_bytes(encode(change))
    with pytest.raises(UserError, match=r"best\.ckpt"):
        evaluate(folder_of(tmp_path))
    path.write_bytes(path.read_bytes()[:99])
    with pytest.raises(
        UserError, match=r"best\.ckpt is damaged: .* force=true, writes it again\.$"
    ):
        evaluate(folder_of(tmp_path))
