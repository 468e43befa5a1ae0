"""Sweeps on this machine: slots, launcher options, and whole sweeps without a launcher."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra.types import HydraContext
from omegaconf import DictConfig, open_dict

from focusing.errors import UserError
from focusing.sweep.local import cpu_count, make_slots
from hydra_plugins.focusing_sweeps.sweepers import GridSweeper, OptunaSweeper
from tests.unit.sweep.conftest import SEARCH_OPTIONS, Load

OPTUNA = {**SEARCH_OPTIONS, "parallel": 1, "n_trials": 9, "sampler": "grid"}


def slots(**options: Any) -> list[tuple[str, int]]:
    return [(slot.gpu, slot.threads) for slot in make_slots(**options)]


def test_slots_share_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert slots() == [("", 1)] * cpu_count()
    monkeypatch.setattr("focusing.sweep.local.cpu_count", lambda: 8)
    assert slots(workers=3) == [("", 2)] * 3
    assert slots(workers=20) == [("", 1)] * 20
    assert slots(jobs=1) == [("", 8)]  # few jobs get more threads each
    assert slots(workers=2, jobs=100) == [("", 4)] * 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert slots(gpus=2) == [("0", 4), ("1", 4)]
    assert slots(gpus=[1, 3], per_gpu=2, threads=1) == [("1", 1), ("3", 1), ("1", 1), ("3", 1)]
    assert slots(gpus=4, jobs=2) == [("0", 4), ("1", 4)]


def test_only_visible_gpus_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-a")
    assert [gpu for gpu, _ in slots(gpus="all")] == ["4", "GPU-a"]
    assert [gpu for gpu, _ in slots(gpus=1)] == ["4"]
    assert [gpu for gpu, _ in slots(gpus=[1])] == ["GPU-a"]
    for wrong in (3, [2]):
        with pytest.raises(UserError, match="CUDA_VISIBLE_DEVICES=4,GPU-a names 2"):
            slots(gpus=wrong)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UserError, match="CUDA_VISIBLE_DEVICES= names none"):
        slots(gpus=1)


def test_gpus_are_counted_without_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: A (UUID: x)'\necho 'GPU 1: A (UUID: y)'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert [gpu for gpu, _ in slots(gpus="all")] == ["0", "1"]
    tool.write_text("#!/bin/sh\nexit 9\n")
    for gpus in ("all", 2, [0]):  # never silently without a GPU
        with pytest.raises(UserError, match="finds none"):
            slots(gpus=gpus)


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpus": 1, "workers": 2},
        *({"gpus": gpus} for gpus in (-1, "two", True, None, [], [0, 0], [0, -3])),
    ],
)
def test_impossible_slots_are_refused(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(UserError, match=r"hydra\.launcher\."):
        slots(**wrong)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["local", "workers=0"], "workers=0 must be at least 1"),
        (["local", "growth_mb=0"], "growth_mb=0 must be at least 1"),
        (["slurm", "cpus_per_task=0"], "cpus_per_task=0 must be at least 1"),
        (["slurm", "runs_per_job=0"], "runs_per_job=0 must be at least 1"),
        (["slurm", "cluster=moon"], "cluster=moon is not one of slurm, local"),
        (["ray", "gpus=-1"], "gpus=-1.0 must be at least 0"),
    ],
)
def test_launcher_options_are_checked(
    context: HydraContext, load: Load, words: list[str], sentence: str
) -> None:
    config = load(f"hydra/launcher={words[0]}", *(f"hydra.launcher.{word}" for word in words[1:]))
    with pytest.raises(UserError, match=f"hydra.*{sentence}"):
        GridSweeper().setup(hydra_context=context, task_function=print, config=config)


def test_other_launchers_are_refused(context: HydraContext, load: Load) -> None:
    config = load("hydra/launcher=basic")
    with open_dict(config):
        config.hydra.runtime.choices["hydra/launcher"] = "joblib"  # as if its plugin were installed
    with pytest.raises(UserError, match="launcher=joblib is not one of basic, local, slurm, ray"):
        GridSweeper().setup(hydra_context=context, task_function=print, config=config)


class Sweep:
    """Runs a sweep whose jobs only record their learning rates."""

    def __init__(self, context: HydraContext, load: Load, folder: Path) -> None:
        self.context, self.load, self.folder = context, load, folder

    def __call__(self, sweeper: GridSweeper, *swept: str) -> tuple[list[float], Any]:
        rates: list[float] = []

        def task(cfg: DictConfig) -> float:
            rates.append(cfg.optim.lr)
            return float(cfg.optim.lr)

        words = [f"paths.output_dir={self.folder}", "name=serial", *swept]
        config = self.load(*(word for word in words if "," not in word))
        sweeper.setup(hydra_context=self.context, task_function=task, config=config)
        try:
            return rates, sweeper.sweep(words)
        except UserError as error:
            return rates, str(error)


@pytest.fixture
def sweep(context: HydraContext, load: Load, tmp_path: Path) -> Sweep:
    return Sweep(context, load, tmp_path)


def lines(text: str, *words: str) -> Sequence[str]:
    return [line for line in text.splitlines() if all(word in line for word in words)]


def test_invalid_value_fails_only_its_job(
    sweep: Sweep, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rates, error = sweep(GridSweeper(), "optim.lr=0.1,abc,0.3")
    assert rates == [0.1, 0.3]
    assert error == "1 of 3 jobs failed."
    shown = capsys.readouterr()
    assert lines(shown.out, "3/3 jobs, 2 done, 1 failed")
    assert lines(shown.err, "optim.lr=abc", "'abc'")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    sweep(GridSweeper(), "optim.lr=0.25")
    shown = capsys.readouterr()
    assert "━" in shown.out
    assert "1 running" in shown.out


def test_failed_trials_are_kept_in_the_study(
    sweep: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    for tried in ([0.1], []):
        rates, error = sweep(OptunaSweeper(None, None, **OPTUNA), "optim.lr=0.1,abc")
        assert rates == tried
        assert error == "1 of 2 jobs failed; sweep.retry_failed=true runs them again."
        [row] = lines(capsys.readouterr().err, "optim.lr=abc")
        assert ("in an earlier sweep" in row) == (not tried)


@pytest.mark.parametrize("data", ["data=boston", "data=synthetic,boston"])
def test_wrong_direction_is_refused_before_any_trial(sweep: Sweep, data: str) -> None:
    pytest.importorskip("optuna")
    rates, error = sweep(OptunaSweeper(None, None, **OPTUNA), data, "optim.lr=0.1,0.2")
    assert rates == []
    assert error == "The score is mae: use hydra.sweeper.direction=minimize."
