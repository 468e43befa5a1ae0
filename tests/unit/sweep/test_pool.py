import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from focusing.results.store import read_record

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the pool forks")


VISIBLE = {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5"}


def begin(folder: Path, options: dict[str, Any], *jobs: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.sweep.pool_jobs", json.dumps(options), *jobs],
        cwd=folder,
        env={**os.environ, **VISIBLE, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def pool(folder: Path, options: dict[str, Any], *jobs: str) -> dict[str, Any]:
    process = begin(folder, options, *jobs)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return json.loads(output)  # type: ignore[no-any-return]


def processes(result: dict[str, Any]) -> list[int]:
    return [json.loads(text)[0] for status, text in result["found"] if status == "done"]


def test_a_job_that_dies_fails_alone(tmp_path: Path) -> None:
    result = pool(tmp_path, {"workers": 2}, "a", "die", "b", "leave", "c", "d")
    statuses = [status for status, _ in result["found"]]
    assert statuses == ["done", "failed", "done", "failed", "done", "done"]
    assert "ended by SIGKILL" in result["found"][1][1]
    assert "exit code 3" in result["found"][3][1]
    record = read_record(tmp_path / "runs" / "seed=0")
    assert record is not None
    assert (record["status"], record["experiment"]) == ("failed", "mortal")
    assert "SIGKILL" in record["error"]
    assert {"hello from a", "hello from d"} <= set(result["said"])  # what workers print


def test_workers_are_kept_and_their_files_closed(tmp_path: Path) -> None:
    few = pool(tmp_path, {"workers": 2}, *"abcdefgh")
    assert len(set(processes(few))) <= 2
    many = pool(tmp_path, {"workers": 2, "jobs": 1}, *"abcdefgh")
    assert len(set(processes(many))) == 8  # one each
    assert many["files"] <= few["files"]


def test_a_worker_that_grows_is_replaced(tmp_path: Path) -> None:
    result = pool(tmp_path, {"workers": 1, "growth_mb": 20}, "a", "b", "grow", "c")
    first, second, third, fourth = processes(result)
    assert first == second == third != fourth


def test_slots_have_their_gpu_and_their_threads(tmp_path: Path) -> None:
    jobs = [str(index) for index in range(6)]
    result = pool(tmp_path, {"gpus": [3, 5], "per_gpu": 2, "threads": 7, "jobs": 1}, *jobs)
    places = {tuple(json.loads(text)[1:]) for _, text in result["found"]}
    assert places == {("3", "7"), ("5", "7")}
    [cpu] = {tuple(json.loads(t)[1:]) for _, t in pool(tmp_path, {"workers": 1}, "a")["found"]}
    assert cpu[0] == ""


def test_no_process_is_started_without_a_job(tmp_path: Path) -> None:
    assert pool(tmp_path, {"workers": 4}, "slow", "slow")["most"] == 2


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_workers_stop_with_the_pool(tmp_path: Path, signum: int) -> None:
    process = begin(tmp_path, {"workers": 1}, "wait")
    wait_until((tmp_path / "waiting").exists)
    process.send_signal(signum)
    process.wait(timeout=30)
    wait_until((tmp_path / "saved").exists)  # it was told, and could save
    process.communicate()


@pytest.mark.skipif(not Path("/proc").exists(), reason="asks Linux what a process does")
def test_a_pause_file_stops_workers_until_it_is_gone(tmp_path: Path) -> None:
    (tmp_path / "pause").touch()
    process = begin(tmp_path, {"workers": 1}, "wait")
    time.sleep(0.5)
    assert not (tmp_path / "waiting").exists()  # no job begins
    (tmp_path / "pause").unlink()
    waiting = tmp_path / "waiting"
    wait_until(lambda: waiting.exists() and bool(waiting.read_text()))
    stat = Path("/proc", waiting.read_text(), "stat")

    def state() -> str:
        return stat.read_text().rpartition(")")[2].split()[0]

    (tmp_path / "pause").touch()
    wait_until(lambda: state() == "T")
    (tmp_path / "pause").unlink()
    wait_until(lambda: state() != "T")
    (tmp_path / "pause").touch()
    wait_until(lambda: state() == "T")
    process.send_signal(signal.SIGTERM)  # also a paused one saves before it goes
    process.wait(timeout=60)
    wait_until((tmp_path / "saved").exists)
    process.communicate()
