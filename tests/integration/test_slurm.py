"""Sweeps on a real SLURM: time limits, preemption, deaths, packing."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.commands import ROOT, TRAIN, needs_cluster, record, run_dirs
from tests.integration.forked import Forked, run_forked
from tests.integration.slurm_cluster import Slurm, slurm_cluster
from tests.integration.step_counter import COUNTED
from tests.processes import wait_until

pytestmark = [
    pytest.mark.slow,
    needs_cluster,
]

JOBS = ["-m", "hydra/launcher=slurm", "hydra.launcher.mem_gb=1", "hydra.launcher.runs_per_job=2"]
JOBS += ["figures=false", "name=slurm", "model.hidden=[8]", *COUNTED]
RUNS = ["seed=range(6)", "data.n_samples=1200", "optim.batch_size=8", "trainer.max_epochs=6"]
STEPS = 1200 * 7 // 10 // 8 * 6  # per run; 70 % of the samples are for training


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    pytest.importorskip("submitit")
    with slurm_cluster(cpus=2) as cluster:
        yield cluster


def begun(folder: Path) -> int:
    """Count the jobs that have started a run."""
    return len(list(folder.glob("outputs/.multirun/.slurm/*/*.jsonl")))


def end_by_time(slurm: Slurm, job: str, folder: Path) -> None:
    """End a job by its time limit, which SLURM checks every 30 s."""
    pause = folder / "outputs" / ".pause"
    pause.touch()
    slurm("scontrol", "update", f"JobId={job}", "TimeLimit=1")
    [log] = folder.glob(f"outputs/.multirun/.slurm/*/{job}_0_log.out")
    wait_until(lambda: "Requeued job" in log.read_text(), seconds=90)
    slurm("scontrol", "update", f"JobId={job}", "TimeLimit=240")  # as it was submitted
    pause.unlink()


def test_sweep_survives_time_limit_preemption_and_cancellation(
    slurm: Slurm, tmp_path: Path
) -> None:
    env = {**slurm.env, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    process = Forked(TRAIN, *JOBS, *RUNS, cwd=tmp_path, **env)
    # Two on the first node, one on the second.
    wait_until(lambda: begun(tmp_path) == 3, seconds=200, process=process)
    expires, cancelled = slurm("squeue", "-hr", "-w", "node1", "-o", "%i").split()
    slurm("scancel", cancelled)
    slurm("sbatch", "-p", "urgent", "-w", "node2", "-c", "2", "-o", "/dev/null", "--wrap", "true")
    end_by_time(slurm, expires, tmp_path)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 1, out + err
    assert "Submitting 6 runs to slurm in 3 jobs." in out
    assert re.search(r"The job died \(state: CANCELLED\). Its log is .*\.err", err)
    assert "Error: 2 of 6 jobs failed." in err  # they left no record to retry
    logs = [path.read_text() for path in tmp_path.glob("outputs/.multirun/.slurm/*/*_log.*")]
    assert sum("Requeued job" in log for log in logs) == 2  # by time and by preemption
    assert any(re.search(r"slurm/\w+/seed=\d  epoch 6/6  loss", log) for log in logs)

    again = run_forked(TRAIN, *JOBS, *RUNS, cwd=tmp_path, **env)
    assert again.returncode == 0, again.stderr
    assert "Submitting 2 runs to slurm in a job." in again.stdout  # no finished ones
    assert "6/6 jobs, 2 done, 4 skipped" in again.stdout
    records = [record(run_dir) for run_dir in run_dirs(tmp_path)]
    assert [len(run["series"]["test/acc"]) for run in records] == [6] * 6
    assert (tmp_path / "steps").stat().st_size == 6 * STEPS  # none was repeated


def test_reports_why_jobs_wait_and_which_stay_queued(slurm: Slurm, tmp_path: Path) -> None:
    slurm("scontrol", "update", "PartitionName=urgent", "MaxTime=1")
    never = ["hydra.launcher.partition=urgent"]
    process = Forked(TRAIN, *JOBS, *RUNS, *never, cwd=tmp_path, **slurm.env)
    wait_until(lambda: "PartitionTimeLimit" in process.output, process=process)
    process.send_signal(2)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "jobs wait in the queue of slurm: PartitionTimeLimit." in out
    [job] = re.findall(r"stay in the queue of slurm: (\d+); scancel (?:\d+) ends them", out)
    slurm("scancel", job)
