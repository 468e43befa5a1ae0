"""Records, scores, identities and folders."""

import errno
import json
import platform
from pathlib import Path

import pytest

from focusing.errors import UserError
from focusing.results import record as record_module
from focusing.results.record import best_epoch, git_state, machine, scores, versions
from focusing.results.store import atomic_write, claim, finished, read_record, write_record
from tests.unit.reports.records import SMALLEST


class TestScores:
    series = {"test/acc": [0.5, 0.9, 0.8, 0.9], "val/acc": [0.1, 0.2, 0.4, 0.4]}

    def test_all_protocols_from_one_run(self) -> None:
        assert scores(self.series, "accuracy") == {
            "paper": {"value": 0.9, "epoch": 1},  # the first of the best
            "holdout": {"value": 0.8, "epoch": 2},
            "last": {"value": 0.9, "epoch": 3},
        }

    def test_without_a_split_there_is_no_holdout_score(self) -> None:
        assert scores({"test/acc": [0.5]}, "accuracy")["holdout"] is None

    def test_of_errors_the_least_is_best(self) -> None:
        assert best_epoch([3.0, 1.0, 2.0], "mae") == 1

    def test_nothing_yet(self) -> None:
        assert set(scores({}, "accuracy").values()) == {None}


class TestFiles:
    def test_a_file_is_replaced_whole_or_not_at_all(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "file"
        atomic_write(path, b"old")

        def full(*args: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            atomic_write(path, b"new")
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]


class TestRecord:
    def test_round_trip(self, tmp_path: Path) -> None:
        assert read_record(tmp_path) is None
        written = {**SMALLEST, "series": {"test/acc": [0.1]}}
        write_record(tmp_path, written)
        assert read_record(tmp_path) == {"schema": 1, "error": None, **written}

    def test_nan_is_no_json(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="cannot be written: value is nan: it must be finite"):
            write_record(tmp_path, {**SMALLEST, "value": float("nan")})
        with pytest.raises(UserError, match="cannot be written: Object of type set"):
            write_record(tmp_path, {**SMALLEST, "value": {1, 2}})
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("text", ["{", '{"schema": 99}'])
    def test_what_is_no_record_is_refused(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "result.json").write_text(text)
        with pytest.raises(UserError, match=r"result\.json"):
            read_record(tmp_path)

    def test_the_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = machine()
        assert found["cores"] >= 1
        assert found["threads"] >= 1
        assert found["processor"]
        assert found["system"].startswith(platform.system())

        def no_such_file(_: Path) -> str:
            raise FileNotFoundError

        monkeypatch.setattr(Path, "read_text", no_such_file)  # as where there is no /proc
        assert machine()["processor"] == (platform.processor() or platform.machine())

    def test_versions_and_git(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        assert {"python", "torch"} <= versions().keys()
        state = git_state()
        assert state is None or len(state["commit"]) == 40
        monkeypatch.setattr(record_module, "__file__", str(tmp_path / "record.py"))
        assert git_state() is None
        monkeypatch.setenv("PATH", "")
        assert git_state() is None


class TestFolder:
    def test_a_new_folder_has_nothing_to_continue(self, tmp_path: Path) -> None:
        with claim(tmp_path / "a" / "seed=0", resume=True) as checkpoint:
            assert checkpoint is None
        assert (tmp_path / "a" / "seed=0" / "checkpoints").is_dir()

    def test_an_unfinished_one_is_continued_or_begun_again(self, tmp_path: Path) -> None:
        folder = tmp_path / "seed=0"
        with claim(folder, resume=True):
            (folder / "checkpoints" / "last.ckpt").touch()
        with claim(folder, resume=True) as checkpoint:
            assert checkpoint == folder / "checkpoints" / "last.ckpt"
        with claim(folder, resume=False) as checkpoint:
            assert checkpoint is None

    def test_a_finished_one_is_kept_until_the_new_one_is_done(self, tmp_path: Path) -> None:
        folder = tmp_path / "seed=0"
        folder.mkdir()
        write_record(folder, {**SMALLEST, "n": 1})
        with pytest.raises(RuntimeError), claim(folder, resume=True):
            raise RuntimeError
        assert (finished(folder) or {})["n"] == 1  # a run that fails replaces nothing
        assert (tmp_path / ".seed=0.failed").is_dir()
        with pytest.raises(SystemExit), claim(folder, resume=True):
            raise SystemExit(143)
        kept = json.loads((tmp_path / ".seed=0.previous" / "result.json").read_text())
        assert kept["n"] == 1  # one that is interrupted goes on later
        with claim(folder, resume=True):
            write_record(folder, {**SMALLEST, "n": 2})
        assert not (tmp_path / ".seed=0.previous").exists()
        assert (finished(folder) or {})["n"] == 2

    def test_a_failed_one_is_not_finished(self, tmp_path: Path) -> None:
        write_record(tmp_path, {**SMALLEST, "status": "failed"})
        assert finished(tmp_path) is None

    def test_two_processes_cannot_have_it_at_once(self, tmp_path: Path) -> None:
        with claim(tmp_path / "a", resume=True):  # noqa: SIM117 - the order matters
            with (
                pytest.raises(UserError, match="Another process"),
                claim(tmp_path / "a", resume=True),
            ):
                pass
