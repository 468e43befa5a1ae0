import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from omegaconf import OmegaConf

from focusing.errors import UserError
from focusing.sweep.jobs import Job, Outcome, numbered
from focusing.sweep.task import check_sweep, conclude, settle

JOBS = numbered([["seed=0", "a=1"], ["seed=1", "a=1"]])


def test_jobs_of_others_are_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [tmp_path / f"seed={index}" for index in range(2)]
    lock = FileLock(tmp_path / ".seed=1.lock", thread_local=False)
    lock.acquire()
    calls: list[list[int]] = []

    def launch(jobs: Sequence[Job]) -> list[Outcome]:
        calls.append([job.index for job in jobs])
        if len(calls) == 1:
            threading.Timer(0.2, lock.release).start()
            return [Outcome("done"), Outcome("busy", run_dir=str(folders[1]))]
        return [Outcome("done", earlier=True)]

    results = settle(JOBS, launch)
    assert calls == [[0, 1], [1]]
    assert [outcome.status for _, outcome in results] == ["done", "done"]
    assert "Waiting for 1 jobs" in capsys.readouterr().err


@pytest.mark.parametrize("devices", [2, -1, "auto", [0, 1], True])
def test_more_than_one_device_is_refused(devices: Any) -> None:
    with pytest.raises(UserError, match="a run uses one device"):
        check_sweep(OmegaConf.create({"trainer": {"devices": devices}}))
    check_sweep(OmegaConf.create({"trainer": {"devices": [3]}}))


def test_the_end_tells_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    fine = Outcome("done")
    conclude([(JOBS[0], fine), (JOBS[1], fine)])
    assert capsys.readouterr().err == ""
    failed = Outcome("failed", run_dir="/somewhere", error="It [broke], " + "at length " * 20)
    with pytest.raises(UserError, match=r"1 of 2 jobs failed\.$"):  # it left no record
        conclude([(JOBS[0], fine), (JOBS[1], failed)])
    shown = capsys.readouterr().err
    [row] = [line for line in shown.splitlines() if "seed=1" in line]
    assert "It [broke]" in row
    assert "/somewhere" in row
    assert "a=1" not in row  # all jobs have it


def test_the_runs_of_a_stack_are_told_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "result.json").touch()
    run = Job(3, ("sweep.trial=3", "model=dense"))
    failed = Outcome("failed", earlier=True, run_dir=str(tmp_path), error="It diverged.")
    stack = Outcome("failed", error="1 of 8 runs failed", runs=((run, failed),))
    with pytest.raises(UserError, match=r"1 of 8 runs failed; sweep.retry_failed=true runs them"):
        conclude([(JOBS[0], stack)])
    [row] = [line for line in capsys.readouterr().err.splitlines() if "sweep.trial=3" in line]
    assert "It diverged. (in an earlier sweep)" in row
