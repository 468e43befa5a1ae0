"""Sweeps through submitit's local executor and Optuna, and missing extras."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.integration.commands import TRAIN, record, run_dirs, run_here
from tests.integration.forked import Forked, run_forked
from tests.processes import children, wait_until

pytestmark = pytest.mark.slow

SMALL = ["data.n_samples=300", "trainer.max_epochs=3", "figures=false", "name=sweep"]
SLURM = ["hydra/launcher=slurm", "hydra.launcher.cluster=local"]


def statuses(folder: Path) -> list[str]:
    return sorted(record(run_dir)["status"] for run_dir in run_dirs(folder))


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the process of the job")
def test_job_out_of_time_is_requeued_and_continues(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    long = ["data.n_samples=3000", "optim.batch_size=8", "trainer.max_epochs=3", *SMALL[2:]]
    process = Forked(TRAIN, "-m", *SLURM, *long, cwd=tmp_path)
    checkpoint = "outputs/*/*/*/checkpoints/last.ckpt"
    wait_until(lambda: list(tmp_path.glob(checkpoint)), seconds=200, process=process)
    [log] = tmp_path.glob("outputs/.multirun/.local/*/*_log.out")
    [job] = children(int(log.name.partition("_")[0]))
    os.kill(job, signal.SIGUSR2)  # what SLURM sends before it ends a job
    output = "".join(process.communicate(timeout=200))
    assert process.returncode == 0, output
    assert "1/1 jobs, 1 done" in output
    assert statuses(tmp_path) == ["done"]
    assert "Requeued" in log.read_text() + log.with_suffix(".err").read_text()


def test_optuna_prunes_and_continues(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    search = ["-m", "hydra/sweeper=optuna", "hydra/launcher=local", "hydra.launcher.workers=2"]
    search += ["optim.lr=tag(log,interval(1e-4,0.5))", "model=dense,focus_s"]
    search += ["hydra.sweeper.prune_after_trials=2", "hydra.sweeper.prune_after_epochs=1"]
    search += ["hydra.sweeper.n_trials=7", "data.n_samples=300", "trainer.max_epochs=6", *SMALL[2:]]
    done = run_forked(TRAIN, *search, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Best of 7 trials" in done.stdout
    assert len(statuses(tmp_path)) == 7
    assert set(statuses(tmp_path)) == {"done", "pruned"}
    pruned = next(r for r in map(record, run_dirs(tmp_path)) if r["status"] == "pruned")
    assert 2 <= len(pruned["series"]["test/acc"]) < 6
    again = run_forked(TRAIN, *search, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "7 of 7 trials are finished already." in again.stdout
    assert "0/0 jobs" not in again.stdout
    assert len(run_dirs(tmp_path)) == 7


@pytest.mark.parametrize(
    ("package", "choice"),
    [
        ("ray", "hydra/launcher=ray"),
        ("submitit", "hydra/launcher=slurm"),
        ("optuna", "hydra/sweeper=optuna"),
    ],
)
def test_missing_extra_is_named(
    tmp_path: Path, package: str, choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # importing it fails
    done = run_here("train", "-m", choice, "seed=0,1", cwd=tmp_path)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    extra = {"submitit": "slurm"}.get(package, package)
    assert line == f"Error: {choice} needs: pip install 'focusing[{extra}]'"


def test_wrong_option_stops_a_sweep_before_it_starts(tmp_path: Path) -> None:
    done = run_here("train", "-m", "model.sgima=0.1,0.2", "seed=range(100)", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "Error: model.sgima is not an option, did you mean model.sigma?\n"
    done = run_here("train", "-m", "seed=range(3,0)", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "Error: seed=range(3,0) makes no jobs: an option has no values.\n"
    assert list(tmp_path.iterdir()) == []
