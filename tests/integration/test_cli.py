"""The installed command in a process of its own; tests/unit/test_cli.py has the rest."""

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
    lines = (line.removesuffix(" %").split() for line in output.splitlines())
    return {name: float(value) for name, value in lines}


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    assert "train a network" in run(FOCUSING, "--help", cwd=tmp_path).stdout
    script = (
        "import sys; from focusing.cli import build_parser; build_parser()\n"
        "print({'torch', 'hydra', 'omegaconf', 'pydantic', 'numpy', 'rich'} & set(sys.modules))"
    )
    assert run([sys.executable], "-c", script, cwd=tmp_path).stdout.strip() == "set()"


def test_eval_gives_the_score_of_the_protocol(finished: Path, tmp_path: Path) -> None:
    done = run_here("eval", str(finished), cwd=tmp_path)
    printed, expected = scores(done.stdout), record(finished)
    epoch = expected["scores"]["holdout"]["epoch"]
    assert printed["test/acc"] == pytest.approx(
        100 * expected["scores"]["holdout"]["value"], abs=0.005
    )
    assert printed["test/loss"] == pytest.approx(expected["series"]["test/loss"][epoch])
    done = run_here("show", str(finished), cwd=tmp_path)
    assert "accuracy (holdout)" in done.stdout
    assert "learning_to_focus" in done.stdout


def test_eval_on_other_data(finished: Path, tmp_path: Path) -> None:
    done = run_here("eval", str(finished), "data.noise_position=right", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert scores(done.stdout)["test/acc"] < 75
    fresh = run_here("eval", str(finished), "data=synthetic", cwd=tmp_path)
    assert fresh.returncode == 0, fresh.stderr
    for override, expected in {
        "data.noise=5": "data with 25 inputs and 2 outputs does not fit",
        "data.nois=5": "did you mean data.noise?",
        "model.sigma=1": "only the data can be changed",
    }.items():
        done = run_here("eval", str(finished), override, cwd=tmp_path)
        assert done.returncode == 1
        assert expected in done.stderr


def test_an_error_is_one_sentence_unless_all_of_it_is_wanted(tmp_path: Path) -> None:
    done = run(FOCUSING, "fly", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "invalid choice: 'fly'" in done.stderr
    assert "Traceback" in run(FOCUSING, "fly", cwd=tmp_path, HYDRA_FULL_ERROR="1").stderr
