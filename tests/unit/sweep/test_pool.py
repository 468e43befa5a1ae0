"""The pool of processes: lives and deaths of workers and pool."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.processes import state, wait_until

ROOT = Path(__file__).parents[3]
VISIBLE = {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5"}
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the pool forks")


def start_pools(folder: Path, *pools: tuple[dict[str, Any], list[str]]) -> "subprocess.Popen[str]":
    """Run pools one after the other in a process without torch."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.sweep.pool_jobs", json.dumps(pools)],
        cwd=folder,
        env={**os.environ, **VISIBLE, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes(result: dict[str, Any]) -> list[int]:
    return [json.loads(text)[0] for status, text in result["outcomes"] if status == "done"]


def test_life_of_workers(tmp_path: Path) -> None:
    pools: dict[str, tuple[dict[str, Any], list[str]]] = {
        "dying": ({"workers": 2}, ["a", "die", "b", "leave", "c", "d"]),
        "kept": ({"workers": 2}, list("abcdefgh")),
        "replaced": ({"workers": 2, "jobs": 1}, list("abcdefgh")),
        "grown": ({"workers": 1, "growth_mb": 20}, ["a", "b", "grow", "c"]),
        "gpus": ({"gpus": [3, 5], "per_gpu": 2, "threads": 7, "jobs": 1}, list("abcdef")),
        "idle": ({"workers": 4}, ["slow", "slow"]),
    }
    process = start_pools(tmp_path, *pools.values())
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    results: dict[str, Any] = dict(zip(pools, json.loads(output), strict=True))

    outcomes = results["dying"]["outcomes"]
    expected = ["done", "failed", "done", "failed", "done", "done"]
    assert [status for status, _ in outcomes] == expected
    assert "killed by SIGKILL" in outcomes[1][1]
    assert "exit code 3" in outcomes[3][1]
    assert {"hello from a", "hello from d"} <= set(results["dying"]["printed"])  # workers print
    assert results["dying"]["started"] == [1]  # the only job that notifies

    assert len(set(processes(results["kept"]))) <= 2
    assert len(set(processes(results["replaced"]))) == 8  # one per job
    assert results["replaced"]["files"] <= results["kept"]["files"]
    first, second, third, fourth = processes(results["grown"])
    assert first == second == third != fourth
    places = {tuple(json.loads(text)[1:]) for _, text in results["gpus"]["outcomes"]}
    assert places == {("3", "7"), ("5", "7")}
    assert {json.loads(text)[1] for _, text in results["idle"]["outcomes"]} == {""}
    assert results["idle"]["most"] == 2  # no process starts without a job


def test_workers_do_not_survive_a_killed_pool(tmp_path: Path) -> None:
    process = start_pools(tmp_path, ({"workers": 1}, ["wait"]))
    wait_until((tmp_path / "waiting").exists)
    process.kill()
    wait_until((tmp_path / "saved").exists)  # the worker notices and saves
    process.communicate()


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads the states of processes")
def test_pause_file_suspends_workers_which_still_save_when_stopped(tmp_path: Path) -> None:
    (tmp_path / "pause").touch()
    process = start_pools(tmp_path, ({"workers": 1}, ["wait"]))
    time.sleep(0.3)
    waiting = tmp_path / "waiting"
    assert not waiting.exists()  # no job starts
    (tmp_path / "pause").unlink()
    wait_until(lambda: waiting.exists() and bool(waiting.read_text()))
    pids = [int(pid) for pid in waiting.read_text().split()]  # of the worker and its child
    (tmp_path / "pause").touch()
    wait_until(lambda: all(state(pid) == "T" for pid in pids))
    time.sleep(0.5)
    (tmp_path / "pause").unlink()
    wait_until(lambda: all(state(pid) != "T" for pid in pids))
    (tmp_path / "pause").touch()
    wait_until(lambda: all(state(pid) == "T" for pid in pids))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert float((tmp_path / "saved").read_text()) > 0.5  # the run's clock stood still
