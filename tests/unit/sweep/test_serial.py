"""Sweeps without a launcher, from the command line's words to what is told at the end."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig

from focusing.errors import UserError
from hydra_plugins.focusing_sweeps.grid_sweeper import GridSweeper
from hydra_plugins.focusing_sweeps.optuna_sweeper import OptunaSweeper

OPTIONS: dict[str, Any] = {
    "parallel": 1,
    "n_trials": 9,
    "direction": "maximize",
    "sampler": "grid",
    "seed": 0,
    "prune": False,
    "prune_after_trials": 5,
    "prune_after_epochs": 5,
}


def sweep(
    sweeper: GridSweeper, context: HydraContext, folder: Path, *swept: str
) -> tuple[list[float], Any]:
    """Sweep with a job that only notes its learning rate."""
    seen: list[float] = []

    def task(cfg: DictConfig) -> float:
        seen.append(cfg.optim.lr)
        return float(cfg.optim.lr)

    given = [f"paths.output_dir={folder}", "name=serial", *swept]
    fixed = [each for each in given if "," not in each]
    config = context.config_loader.load_configuration("train", fixed, run_mode=RunMode.MULTIRUN)
    sweeper.setup(hydra_context=context, task_function=task, config=config)
    found: Any = None
    try:
        found = sweeper.sweep(given)
    except UserError as error:
        found = str(error)
    return seen, found


def lines(text: str, *words: str) -> Sequence[str]:
    return [line for line in text.splitlines() if all(word in line for word in words)]


def test_a_value_that_cannot_be_composed_fails_alone(
    context: HydraContext, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen, found = sweep(GridSweeper(), context, tmp_path, "optim.lr=0.1,abc,0.3")
    assert seen == [0.1, 0.3]
    assert found == "1 of 3 jobs failed."
    shown = capsys.readouterr()
    assert lines(shown.out, "3/3 jobs, 2 done, 1 failed, best 0.3 (optim.lr=0.3)")
    assert lines(shown.err, "optim.lr=abc", "'abc'")


def test_one_job_alone_tells_its_score(
    context: HydraContext, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep(GridSweeper(), context, tmp_path, "optim.lr=0.25")
    assert "1/1 jobs, 1 done, best 0.25" in capsys.readouterr().out


def test_a_search_tells_the_study_what_failed_and_tells_it_again(
    context: HydraContext, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    for tried in ([0.1], []):
        sweeper = OptunaSweeper(None, None, **OPTIONS)
        seen, found = sweep(sweeper, context, tmp_path, "optim.lr=0.1,abc")
        assert seen == tried
        assert found == "1 of 2 jobs failed; sweep.retry_failed=true runs them again."
        [row] = lines(capsys.readouterr().err, "optim.lr=abc")
        assert ("in an earlier sweep" in row) == (not tried)


@pytest.mark.parametrize("data", ["data=boston", "data=synthetic,boston"])
def test_a_search_for_the_worst_is_refused_before_it_begins(
    context: HydraContext, tmp_path: Path, data: str
) -> None:
    pytest.importorskip("optuna")
    sweeper = OptunaSweeper(None, None, **OPTIONS)
    seen, found = sweep(sweeper, context, tmp_path, data, "optim.lr=0.1,0.2")
    assert seen == []
    assert found == "The score is mae: use hydra.sweeper.direction=minimize."
