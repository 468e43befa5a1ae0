"""The command line, in this process; the integration tests run it in its own."""

import signal
import sys
from pathlib import Path

import pytest

import focusing
from focusing import cli
from focusing.errors import UserError
from focusing.results.store import write_record
from tests.unit.reports.records import SMALLEST


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["focusing", *arguments])
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "test a trained network again"),
        (["--help"], "test a trained network again"),
        (["--version"], focusing.__version__),
        (["completion", "bash"], "--keep-accuracy"),
        (["completion", "zsh"], "--keep-accuracy"),
    ],
)
def test_help_version_and_completion(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
) -> None:
    assert call(monkeypatch, *arguments) == 0
    assert expected in capsys.readouterr().out


def test_train_eval_and_show(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["data.n_samples=100", "trainer.max_epochs=1", "figures=false"]
    assert call(monkeypatch, "train", *small) == 0
    [folder] = tmp_path.glob("outputs/*/*/seed=0")
    assert call(monkeypatch, "eval", str(folder)) == 0
    assert "test/acc" in capsys.readouterr().out
    (folder / "figures").mkdir()
    (folder / "figures" / "x.png").touch()
    assert call(monkeypatch, "show", str(folder)) == 0
    assert "x.png" in capsys.readouterr().out
    assert call(monkeypatch, "train", "-m", *small, "seed=1,2") == 0
    assert len(list(tmp_path.glob("outputs/*/*/seed=*/result.json"))) == 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["fly"], "invalid choice: 'fly'"),
        (["show"], "required: RUN_DIR"),
        (["eval", "nowhere"], "nowhere is not a folder"),
        (["eval", "."], ". is not a run folder: it has no config.yaml"),
        (["show", ".", "more"], "unrecognized arguments: more"),
        (["train", "modle=dense"], "did you mean model?"),
        (["train", "seed=-1"], "seed=-1 must be at least 0"),
        (["train", "--experimental-rerun", "x.pickle"], "would run code from a pickle"),
        (["train", "--config-dir", "nowhere"], "nowhere' not found"),
        (["train", "-m", "seed=1,2", "--cfg", "job"], "-m, --cfg, --info and --shell-completion"),
        (["report", "--port", "99999999"], "99999999 is not a number from 0 to 65535"),
    ],
)
def test_sentences(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *arguments) == 1
    error = capsys.readouterr().err
    assert expected in error
    assert len(error.splitlines()) == 1


def test_show_tells_unfinished_from_foreign(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call(monkeypatch, "show", str(tmp_path)) == 1
    assert "not a run folder" in capsys.readouterr().err
    (tmp_path / "config.yaml").touch()
    assert call(monkeypatch, "show", str(tmp_path)) == 1
    assert "not finished" in capsys.readouterr().err
    write_record(tmp_path, {**SMALLEST, "status": "failed", "error": "diverged"})
    assert call(monkeypatch, "show", str(tmp_path)) == 0
    assert "diverged" in capsys.readouterr().out


@pytest.mark.parametrize("name", [*cli.build_parser()[1], "wandb", "data"])
def test_every_command_has_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert call(monkeypatch, *name.split(), "--help") == 0
    printed = capsys.readouterr().out
    assert f"usage: focusing {name}" in printed or name == "train"
    assert len(printed.splitlines()) > 3


def test_options_may_stand_anywhere(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        cli.run_command(["eval", str(tmp_path), "--trust-target", "my.net", "data.fold=1"])


def test_signals_have_their_codes() -> None:
    with pytest.raises(SystemExit) as stop, cli.reporting_errors():
        raise KeyboardInterrupt
    assert stop.value.code == 130
    with pytest.raises(SystemExit) as stop, cli.reporting_errors():
        signal.raise_signal(signal.SIGTERM)
    assert stop.value.code == 143


def test_a_file_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), cli.reporting_errors():
        Path("/proc/nowhere").write_text("")
    assert capsys.readouterr().err == "Error: /proc/nowhere: No such file or directory.\n"


@pytest.mark.parametrize(("error", "full"), [(RuntimeError, False), (UserError, True)])
def test_a_bug_keeps_its_traceback_and_any_error_if_asked(
    error: type[Exception], full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "FULL_ERRORS", full)
    with pytest.raises(error), cli.reporting_errors():
        raise error
