"""The command line, mostly in this process."""

import shutil
import signal
import sys
from pathlib import Path

import pytest

import focusing
from focusing import cli
from focusing.errors import UserError
from focusing.results.store import write_record
from tests.integration.commands import FOCUSING, SMALL, record, run, run_dirs, run_here
from tests.unit.reports.records import SMALLEST


@pytest.fixture(autouse=True)
def restored() -> object:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


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
def test_help_version_and_completion(arguments: list[str], expected: str, tmp_path: Path) -> None:
    assert expected in run_here(*arguments, cwd=tmp_path).stdout


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys; from focusing.cli import build_parser; build_parser()\n"
        "print({'torch', 'hydra', 'omegaconf', 'pydantic', 'numpy', 'rich'} & set(sys.modules))"
    )
    assert run([sys.executable], "-c", script, cwd=tmp_path).stdout.strip() == "set()"


def test_eval_and_show_report_the_score_of_the_protocol(tmp_path: Path) -> None:
    mine = ["--config-dir", str(tmp_path)]
    done = run_here("train", *mine, *SMALL, "protocol=holdout", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"focusing train {' '.join(mine)} model=dense {SMALL[0]}" in done.stdout
    [folder] = run_dirs(tmp_path)
    expected, epoch = record(folder), record(folder)["scores"]["holdout"]["epoch"]
    lines = run_here("eval", str(folder), cwd=tmp_path).stdout.splitlines()
    scores = {line.split()[0]: float(line.split()[1]) for line in lines}
    accuracy = 100 * expected["scores"]["holdout"]["value"]
    assert scores["test/acc"] == pytest.approx(accuracy, abs=0.005)
    assert scores["test/loss"] == pytest.approx(expected["series"]["test/loss"][epoch])
    done = run_here("eval", str(folder), "data.nois=5", cwd=tmp_path)
    assert "did you mean data.noise?" in done.stderr
    (folder / "figures").mkdir()
    (folder / "figures" / "x.png").touch()
    shown = run_here("show", str(folder / "result.json"), cwd=tmp_path).stdout
    assert shown == run_here("show", str(folder), cwd=tmp_path).stdout
    for part in ("learning_to_focus", "accuracy (holdout)", "x.png"):
        assert part in shown
    begun = folder.with_name("seed=1")
    shutil.copytree(folder, begun)
    (begun / "result.json").unlink()
    (begun / "metrics.csv").write_text("epoch,a\n0,1\n1,")
    title, first, last = run_here("show", "outputs", cwd=tmp_path).stdout.splitlines()
    assert title.split() == ["folder", "experiment", "data", "model", "seed", "score"]
    name = folder.relative_to(tmp_path)
    assert first.split()[:5] == [str(name), "learning_to_focus", "synthetic", "focus_s", "0"]
    assert first.endswith(f"{accuracy:.2f} %")
    assert last.startswith(f"{name.with_name('seed=1')} ")
    assert last.endswith("not finished: 1 of 3 epochs")
    done = run_here("show", str(begun), cwd=tmp_path)
    assert "1 of 3 epochs; the same command resumes it" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["fly"], "invalid choice: 'fly'"),
        (["show"], "required: RUN_DIR"),
        (["eval", "nowhere"], "nowhere is not a folder"),
        (["eval", "."], ". is not a run folder: it has no config.yaml"),
        (["show", ".", "more"], "unrecognized arguments: more"),
        (["train", "modle=dense"], "did you mean model?"),
        (["train", "epochs=3"], "epochs is not an option, did you mean trainer.max_epochs?"),
        (["train", "model=dense", "model.sigma=1"], "model.sigma is not an option of model=dense;"),
        (["train", "figures=false", "-m", "seed=1,2"], "seed=1,2: put -m and other flags first"),
        (["train", "--seed", "3"], "--seed is not a flag: options are written seed=VALUE."),
        (["train", "--cfg", "x"], "invalid choice: 'x'"),
        (["train", "seed=-1"], "seed=-1 must be at least 0"),
        (["train", "--experimental-rerun", "x.pickle"], "would run code from a pickle"),
        (["train", "--config-dir", "nowhere"], "nowhere' not found"),
        (["train", "-m", "seed=1,2", "--cfg", "job"], "-m, --cfg, --info and --shell-completion"),
        (
            ["train", "-m", "size=null,smoke"],
            "size=null is not a choice; size is one of full, quick",
        ),
        (["report", "--port", "99999999"], "99999999 is not a number from 0 to 65535"),
    ],
)
def test_errors_are_one_sentence(tmp_path: Path, arguments: list[str], expected: str) -> None:
    done = run_here(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert expected in line


def test_full_errors_on_request(tmp_path: Path) -> None:
    done = run(FOCUSING, "fly", cwd=tmp_path, HYDRA_FULL_ERROR="1")
    assert (done.returncode, "Traceback" in done.stderr) == (1, True)


def test_show_of_unfinished_and_foreign_folders(tmp_path: Path) -> None:
    assert "not a run folder" in run_here("show", ".", cwd=tmp_path).stderr
    (tmp_path / "config.yaml").touch()
    assert "not finished" in run_here("show", ".", cwd=tmp_path).stderr
    write_record(tmp_path, {**SMALLEST, "status": "failed", "error": "diverged"})
    assert "diverged" in run_here("show", ".", cwd=tmp_path).stdout


@pytest.mark.parametrize("name", [*cli.build_parser()[1], "wandb", "data"])
def test_every_command_has_help(name: str, tmp_path: Path) -> None:
    printed = run_here(*name.split(), "--help", cwd=tmp_path).stdout
    assert f"usage: focusing {name}" in printed or name == "train"
    assert len(printed.splitlines()) > 3


def test_options_may_be_anywhere(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        cli.run_command(["eval", str(tmp_path), "--trust-target", "my.net", "data.fold=1"])


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_exit_codes_of_signals(signum: int, code: int) -> None:
    # Shells make background jobs ignore Ctrl-C, and this test may run in one.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as stop, cli.reporting_errors():
            signal.raise_signal(signum)
    finally:
        signal.signal(signal.SIGINT, before)
    assert stop.value.code == code


def test_os_errors_name_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), cli.reporting_errors():
        Path("/proc/nowhere").write_text("")
    assert capsys.readouterr().err == "Error: /proc/nowhere: No such file or directory.\n"


def test_bugs_keep_their_traceback() -> None:
    with pytest.raises(RuntimeError), cli.reporting_errors():
        raise RuntimeError
