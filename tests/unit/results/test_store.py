"""Atomic writes, safe paths, records, scores and claims."""

import errno
import json
import platform
from pathlib import Path
from typing import Any

import pytest

from focusing.errors import UserError
from focusing.results import record as record_module
from focusing.results.record import best_epoch, git_state, machine, scores, versions
from focusing.results.store import (
    atomic_write,
    claim,
    finished_record,
    read_record,
    safe_join,
    write_record,
)
from focusing.validation import is_name
from tests.unit.reports.records import SMALLEST

NO_NAMES = ["", ".", "..", "/", "/etc/passwd", "../x", "a/b", "a\\b", "a\0b", "a\nb", "x" * 256]
NO_NAMES += ["\ud800", None, 3, ["a"], {"a": 1}]  # type: ignore[list-item]


@pytest.mark.parametrize("name", NO_NAMES)
def test_safe_join_rejects_paths(tmp_path: Path, name: Any) -> None:
    assert not is_name(name)
    with pytest.raises(UserError, match="cannot be the name of a file"):
        safe_join(tmp_path, "fine", name)


@pytest.mark.parametrize("name", ["a", ".a", "a..b", "ä b", "seed=3", "x" * 255])
def test_safe_join_accepts_names(tmp_path: Path, name: str) -> None:
    assert safe_join(tmp_path, name, "b") == tmp_path / name / "b"


def test_safe_join_rejects_links_to_other_folders(tmp_path: Path) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (folder / "link").symlink_to(other)
    (folder / "near").symlink_to(folder / "real")
    assert safe_join(folder, "near", "a") == folder / "near" / "a"
    for names in (["link"], ["link", "a"]):
        with pytest.raises(UserError, match=r"is a link that leads out of .*folder: remove it"):
            safe_join(folder, *names)


@pytest.mark.parametrize("link", ["new", ".new.part"])
def test_atomic_write_follows_no_link(tmp_path: Path, link: str) -> None:
    kept = tmp_path / "kept"
    kept.write_text("x")
    (tmp_path / link).symlink_to(kept)
    atomic_write(tmp_path / "new", b"y")
    assert (tmp_path / "new").read_text() == "y"
    assert not (tmp_path / "new").is_symlink()
    assert kept.read_text() == "x"


def test_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"old")

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_scores_of_all_protocols() -> None:
    series = {"test/acc": [0.5, 0.9, 0.8, 0.9], "val/acc": [0.1, 0.2, 0.4, 0.4]}
    assert scores(series, "accuracy") == {
        "best_test": {"value": 0.9, "epoch": 1},  # the first of the best
        "holdout": {"value": 0.8, "epoch": 2},
        "last": {"value": 0.9, "epoch": 3},
    }
    assert scores({"test/acc": [0.5]}, "accuracy")["holdout"] is None  # no validation split
    assert set(scores({}, "accuracy").values()) == {None}
    assert best_epoch([3.0, 1.0, 2.0], "mae") == 1  # of errors the least is best


class TestRecord:
    def test_round_trip(self, tmp_path: Path) -> None:
        assert read_record(tmp_path) is None
        written = {**SMALLEST, "series": {"test/acc": [0.1]}}
        write_record(tmp_path, written)
        assert read_record(tmp_path) == {"schema": 1, "error": None, **written}
        write_record(tmp_path, {**SMALLEST, "status": "failed"})
        assert finished_record(tmp_path) is None

    def test_invalid_records_are_not_written(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="cannot be written: value is nan: it must be finite"):
            write_record(tmp_path, {**SMALLEST, "value": float("nan")})
        with pytest.raises(UserError, match="cannot be written: Object of type set"):
            write_record(tmp_path, {**SMALLEST, "value": {1, 2}})
        assert not list(tmp_path.iterdir())

    def test_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        facts = machine()
        assert min(facts["cores"], facts["threads"]) >= 1
        assert facts["processor"]
        assert facts["system"].startswith(platform.system())

        def no_such_file(_: Path) -> str:
            raise FileNotFoundError

        monkeypatch.setattr(Path, "read_text", no_such_file)  # as without /proc
        assert machine()["processor"] == (platform.processor() or platform.machine())

    def test_versions_and_git(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        assert {"python", "torch"} <= versions().keys()
        state = git_state()
        assert state is None or len(state["commit"]) == 40
        monkeypatch.setattr(record_module, "__file__", str(tmp_path / "record.py"))
        assert git_state() is None
        monkeypatch.setenv("PATH", "")
        assert git_state() is None


class TestClaim:
    def test_unfinished_run_is_resumed_or_restarted(self, tmp_path: Path) -> None:
        folder = tmp_path / "a" / "seed=0"
        with claim(folder, resume=True) as checkpoint:
            assert checkpoint is None
            (folder / "checkpoints" / "last.ckpt").touch()
        with claim(folder, resume=True) as checkpoint:
            assert checkpoint == folder / "checkpoints" / "last.ckpt"
        with claim(folder, resume=False) as checkpoint:
            assert checkpoint is None

    def test_finished_run_is_kept_until_the_new_one_is_done(self, tmp_path: Path) -> None:
        folder = tmp_path / "seed=0"
        folder.mkdir()
        write_record(folder, {**SMALLEST, "n": 1})
        with pytest.raises(RuntimeError), claim(folder, resume=True):
            raise RuntimeError
        assert (finished_record(folder) or {})["n"] == 1  # a failed run does not replace it
        assert (tmp_path / ".seed=0.failed").is_dir()
        with pytest.raises(SystemExit), claim(folder, resume=True):
            raise SystemExit(143)
        kept = json.loads((tmp_path / ".seed=0.previous" / "result.json").read_text())
        assert kept["n"] == 1  # an interrupted run is resumed later
        with claim(folder, resume=True):
            write_record(folder, {**SMALLEST, "n": 2})
        assert not (tmp_path / ".seed=0.previous").exists()
        assert (finished_record(folder) or {})["n"] == 2

    def test_folder_is_claimed_by_one_process_only(self, tmp_path: Path) -> None:
        first, second = (claim(tmp_path / "a", resume=True) for _ in range(2))
        with first, pytest.raises(UserError, match="Another process"), second:
            pass
