"""What a run on SLURM costs beside its training, alone and packed, and what a death costs.

python benchmarks/cluster.py [--runs 100] [--json benchmarks/cluster.json]

The real command on a real SLURM of two nodes with one processor each, which this script starts on
this machine (packages slurm-wlm and munge). Runs take about a second. Three sweeps: a few runs
with a job each, all runs in one job, and runs in two jobs of which one loses its node. CPU time
stands beside wall time, which other work on the machine makes longer.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.integration.slurm_cluster import Slurm, slurm_cluster  # noqa: E402
from tests.integration.step_counter import COUNTED  # noqa: E402

EPOCHS, SAMPLES, BATCH = 6, 2000, 8
EPOCH_STEPS = SAMPLES * 7 // 10 // BATCH
RUN = [f"data.n_samples={SAMPLES}", f"optim.batch_size={BATCH}", f"trainer.max_epochs={EPOCHS}"]
RUN += ["model.hidden=[8]", "figures=false", "name=cluster", *COUNTED]
# Without srun a job's processes are children of its script, which can tell their CPU time.
TIMED = "hydra.launcher.more={use_srun: false, teardown: ['times > times.$SLURM_JOB_ID']}"
GOAL_SECONDS = 0.3


def start(folder: Path, slurm: Slurm, runs: int, per_job: int) -> subprocess.Popen[str]:
    """Start a sweep."""
    launcher = ["hydra/launcher=slurm", "hydra.launcher.mem_gb=1", TIMED]
    swept = ["-m", f"seed=range({runs})", f"hydra.launcher.runs_per_job={per_job}"]
    path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, str(ROOT / "train.py"), *swept, *launcher, *RUN],
        cwd=folder,
        env={**os.environ, **slurm.env, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for a sweep; returns what it printed."""
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(output)
    return output


def sweep(folder: Path, slurm: Slurm, runs: int, per_job: int) -> dict[str, Any]:
    """Run a sweep, and compare what its jobs took with what its runs trained."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    finish(start(folder, slurm, runs, per_job))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    deadline = time.monotonic() + 60
    while len(list(folder.glob("times.*"))) < -(-runs // per_job):  # a job's last act
        assert time.monotonic() < deadline, "a job has not told its times"  # noqa: S101
        time.sleep(0.1)
    time.sleep(0.5)
    jobs_cpu = sum(child_seconds(path) for path in folder.glob("times.*"))
    records = [json.loads(p.read_text()) for p in folder.glob("outputs/cluster/*/*/result.json")]
    assert [record["status"] for record in records] == ["done"] * runs  # noqa: S101
    jobs_wall = 0.0
    for path in folder.glob("outputs/.multirun/.slurm/*/*_submission.sh"):
        listing = slurm("scontrol", "show", "job", path.name.partition("_")[0], "--oneliner")
        for line in listing.splitlines():
            fields = dict(word.partition("=")[::2] for word in line.split())
            jobs_wall += clock(fields["EndTime"]) - clock(fields["StartTime"])
    training_cpu = sum(record["cpu_seconds"] for record in records)
    training_wall = sum(record["wall_seconds"] for record in records)
    return {
        "runs": runs,
        "runs_per_job": per_job,
        "training_cpu_seconds_per_run": training_cpu / runs,
        "overhead_cpu_seconds_per_run": (jobs_cpu - training_cpu) / runs,
        "training_wall_seconds_per_run": training_wall / runs,
        "overhead_wall_seconds_per_run": (jobs_wall - training_wall) / runs,
        "sweep_process_cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime
        - before.ru_stime,
    }  # fmt: skip


def child_seconds(path: Path) -> float:
    """CPU time of a shell's children, from the second line of ``times``: 0m4.120s 0m0.480s."""
    [_, line] = path.read_text().splitlines()
    parts = (word.rstrip("s").split("m") for word in line.split())
    return sum(60 * int(minutes) + float(seconds) for minutes, seconds in parts)


def clock(text: str) -> float:
    """Seconds of a time as SLURM prints it."""
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def lose_a_node(folder: Path, slurm: Slurm, runs: int) -> dict[str, Any]:
    """Run a sweep in two jobs, kill the node of one in the middle, and count steps."""
    process = start(folder, slurm, runs, runs // 2)
    pattern = "outputs/cluster/*/*/result.json"
    while len(list(folder.glob(pattern))) < runs // 2 and process.poll() is None:
        time.sleep(0.05)
    finished = {path: path.stat().st_mtime_ns for path in folder.glob(pattern)}
    slurm.kill_node("node2")
    began = time.monotonic()
    finish(process)
    steps = (folder / "steps").stat().st_size
    return {
        "runs": runs,
        "finished_before": len(finished),
        "finished_runs_trained_again": sum(p.stat().st_mtime_ns != t for p, t in finished.items()),
        "steps_trained_twice": steps - runs * EPOCHS * EPOCH_STEPS,
        "steps_of_an_epoch": EPOCH_STEPS,
        "seconds_from_death_to_end": time.monotonic() - began,
    }


def main() -> None:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    measured: dict[str, Any] = {"goal_overhead_seconds_per_run": GOAL_SECONDS}
    with slurm_cluster(cpus=1) as slurm, tempfile.TemporaryDirectory() as name:
        for what in ("alone", "packed", "node_killed"):
            folder = Path(name, what)
            folder.mkdir()
            if what == "alone":
                measured[what] = sweep(folder, slurm, 4, 1)
            elif what == "packed":
                measured[what] = sweep(folder, slurm, arguments.runs, arguments.runs)
            else:
                measured[what] = lose_a_node(folder, slurm, 20)
            print(what)
            for key, value in measured[what].items():
                print(f"  {key.replace('_', ' '):32} {value:10.3f}")
    measured["load_average"] = os.getloadavg()[1]
    if arguments.json:
        arguments.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
