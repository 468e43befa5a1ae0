"""The installed command: focusing train, eval, show, --help."""

import sys
from pathlib import Path

import pytest

from tests.integration.commands import FOCUSING, SMALL, record, run, run_dirs, run_here

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    done = run_here("train", *SMALL, "protocol=holdout", cwd=folder)
    assert done.returncode == 0, done.stderr
    [run_dir] = run_dirs(folder)
    return run_dir


def scores(output: str) -> dict[str, float]:
    return {name: float(value) for name, value in map(str.split, output.splitlines())}


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    assert "train a network" in run(FOCUSING, "--help", cwd=tmp_path).stdout
    script = "import focusing.cli, sys; print({'torch', 'hydra', 'omegaconf'} & set(sys.modules))"
    assert run([sys.executable], "-c", script, cwd=tmp_path).stdout.strip() == "set()"


def test_train_is_train_py(finished: Path) -> None:
    assert record(finished)["status"] == "done"


def test_eval_gives_the_score_of_the_protocol(finished: Path, tmp_path: Path) -> None:
    done = run_here("eval", str(finished), cwd=tmp_path)
    found, expected = scores(done.stdout), record(finished)
    epoch = expected["scores"]["holdout"]["epoch"]
    assert found["test/acc"] == expected["scores"]["holdout"]["value"]
    assert found["test/loss"] == pytest.approx(expected["series"]["test/loss"][epoch])


def test_eval_on_other_data(finished: Path, tmp_path: Path) -> None:
    done = run_here("eval", str(finished), "data.noise_position=right", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert scores(done.stdout)["test/acc"] < 0.75
    fresh = run_here("eval", str(finished), "data=synthetic", cwd=tmp_path)
    assert fresh.returncode == 0, fresh.stderr


def test_show(finished: Path, tmp_path: Path) -> None:
    done = run_here("show", str(finished), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "accuracy (holdout)" in done.stdout
    assert "learning_to_focus" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["fly"], "invalid choice: 'fly'"),
        (["show"], "required: RUN_DIR"),
        (["show", "nowhere"], "nowhere is not a folder"),
        (["show", "."], ". has no result.json: not a run folder"),
        (["eval", "."], ". is not a run folder: it has no config.yaml"),
        (["show", ".", "x"], "unrecognized arguments: x"),
        (["train", "modle=dense"], "did you mean model?"),
    ],
)
def test_errors_are_sentences(tmp_path: Path, arguments: list[str], expected: str) -> None:
    done = run_here(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_eval_says_what_does_not_fit(finished: Path, tmp_path: Path) -> None:
    for override, expected in {
        "data.noise=5": "data with 25 inputs and 2 outputs does not fit",
        "data.nois=5": "did you mean data.noise?",
        "model.sigma=1": "only the data can be changed",
    }.items():
        done = run_here("eval", str(finished), override, cwd=tmp_path)
        assert done.returncode == 1
        assert expected in done.stderr


def test_the_rest(tmp_path: Path) -> None:
    assert run(FOCUSING, "--version", cwd=tmp_path).stdout.strip() == "0.1.0"
    assert "RUN_DIR" in run(FOCUSING, "eval", "--help", cwd=tmp_path).stdout
    assert "Traceback" in run(FOCUSING, "fly", cwd=tmp_path, HYDRA_FULL_ERROR="1").stderr
