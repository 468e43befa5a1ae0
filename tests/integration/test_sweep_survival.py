"""A sweep that is killed several times ends with the results of an undisturbed one."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.commands import COUNTED_TRAIN, TRAIN, record, run_dirs, steps
from tests.integration.forked import Forked, run_forked
from tests.processes import children, wait_for_end

pytestmark = pytest.mark.slow

JOBS = [
    "-m",
    "seed=0,1,2",
    "model=dense,focus_s",
    "data.n_samples=2400",
    "trainer.max_epochs=4",
    "optim.batch_size=8",
    "model.hidden=[8]",
    "figures=false",
    "name=survivors",
]
LOCAL = ["hydra/launcher=local", "hydra.launcher.workers=2", "hydra.launcher.threads=1"]


def stamps(folder: Path) -> dict[Path, int]:
    """Return when each run finished."""
    return {path: path.stat().st_mtime_ns for path in folder.glob("outputs/*/*/*/result.json")}


def table(folder: Path) -> dict[str, Any]:
    """Return the results of every run."""
    rows = {}
    for run_dir in run_dirs(folder):
        run = record(run_dir)
        assert run["status"] == "done"
        rows["/".join(run_dir.parts[-2:])] = (run["series"], run["scores"], run["config_hash"])
    return rows


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads the states of processes")
def test_killed_sweeps_continue_without_repeating_work(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir(), killed.mkdir()
    done = run_forked(COUNTED_TRAIN, *JOBS, cwd=whole)  # one after the other
    assert done.returncode == 0, done.stderr
    total = steps(whole)
    per_epoch = total // len(run_dirs(whole)) // 4
    # Twice during the first jobs and once during the second ones; never near the end of a job.
    moments = [(0.1, "group", -9), (0.22, "parent", 143), (0.45, "parent", -9)]
    before: dict[Path, int] = {}
    for share, whom, code in moments:
        process = Forked(COUNTED_TRAIN, *JOBS, *LOCAL, cwd=killed, group=True)
        while steps(killed) < share * total and process.poll() is None:
            time.sleep(0.002)
        workers = children(process.pid)
        assert len(workers) == 2
        signum = signal.SIGTERM if code == 143 else signal.SIGKILL
        if whom == "group":
            os.killpg(process.pid, signum)
        else:
            process.send_signal(signum)
        output = "".join(process.communicate(timeout=60))
        assert process.returncode == code, output
        assert "Traceback" not in output
        assert ("Stopped. The same command goes on from here." in output) == (code == 143)
        wait_for_end(workers)  # none outlives its sweep
        after = stamps(killed)
        assert {path: after[path] for path in before} == before
        before = after
        saved = list(killed.glob("outputs/*/*/*/checkpoints/interrupted.ckpt"))
        assert whom == "group" or saved  # a stopped run saves a mid-epoch checkpoint
    assert 0 < len(before) < 6
    # Two sweeps at once share what is left.
    pair = [Forked(COUNTED_TRAIN, *JOBS, *how, cwd=killed) for how in (LOCAL, [])]
    outputs = [sweep.communicate(timeout=120)[0] for sweep in pair]
    assert [sweep.returncode for sweep in pair] == [0, 0], outputs
    assert "6/6 jobs" in outputs[0]
    assert {path: stamps(killed)[path] for path in before} == before
    assert table(killed) == table(whole)
    assert total <= steps(killed) <= total + 2 * per_epoch  # the first kill -9 loses two


def test_dead_worker_fails_only_its_job(tmp_path: Path) -> None:
    (tmp_path / "poison").touch()
    jobs = ["-m", "optim.lr=0.1,0.05,1e12", "model=dense", "model.batch_norm=false", "name=mortals"]
    jobs += ["data.n_samples=500", "trainer.max_epochs=3", "figures=false"]
    one = ["hydra/launcher=local", "hydra.launcher.workers=1"]
    done = run_forked(COUNTED_TRAIN, *jobs, *one, cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    rates = {record(folder)["config"]["optim"]["lr"]: folder for folder in run_dirs(tmp_path)}
    dead, fine, diverged = rates[0.1], rates[0.05], rates[1e12]
    assert "SIGKILL" in record(dead)["error"]
    assert record(fine)["status"] == "done"
    assert "try a smaller optim.lr" in record(diverged)["error"]
    *rows, last = done.stderr.splitlines()
    for folder in (dead, diverged):  # the table lists both
        [row] = [row for row in rows if str(folder) in row]
        assert record(folder)["error"] in row
    assert last.startswith("Error: 2 of 3 jobs failed")

    before = stamps(tmp_path)
    retried = run_forked(TRAIN, *jobs, *one, "sweep.retry_failed=true", cwd=tmp_path)
    assert retried.returncode == 1
    assert "Error: 1 of 3 jobs failed" in retried.stderr
    assert record(dead)["status"] == "done"
    assert stamps(tmp_path)[fine / "result.json"] == before[fine / "result.json"]
