"""Cluster jobs: signals, requeueing, and the death of their owner."""

import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hydra.core.singleton import Singleton
from hydra.types import HydraContext

from focusing.experiments.table1_trials import sweep_task
from focusing.instantiate import trusted
from focusing.sweep.allocation import (
    ALL_STOPPED,
    SHARED_FILE,
    Allocation,
    Journal,
    Workload,
    requeue_on_signal,
)
from focusing.sweep.jobs import Job, Outcome
from tests.unit.sweep.conftest import Load


@pytest.mark.parametrize(
    ("sent", "state", "requeued"),
    [
        (signal.SIGUSR2, "RUNNING", True),  # time is up
        (signal.SIGTERM, "RUNNING", True),  # preempted by another job
        (signal.SIGTERM, "CANCELLED", False),
    ],
)
def test_time_limit_and_preemption_requeue_a_job(
    sent: signal.Signals,
    state: str,
    requeued: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho JobId=$5 JobState={state} Reason=None\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    order: list[str] = []

    def requeue(signum: int, frame: object) -> None:
        order.append("requeued")
        raise SystemExit(-1)

    @requeue_on_signal()
    def train() -> None:
        try:
            os.kill(os.getpid(), sent)
        finally:
            os.kill(os.getpid(), sent)  # must not interrupt the saving
            order.append("saved")

    earlier = signal.signal(signal.SIGUSR2, requeue)  # as submitit does
    try:
        with pytest.raises(SystemExit) as leave:
            train()
        assert signal.getsignal(signal.SIGUSR2) is requeue
    finally:
        signal.signal(signal.SIGUSR2, earlier)
    assert order == ["saved", *(["requeued"] if requeued else [])]
    assert leave.value.code == (-1 if requeued else 143)


@dataclass
class Sleeper:
    """A stand-in for Workload."""

    def run(self, jobs: list[Job], journal: Journal) -> None:
        for job in jobs:
            journal.write(job.index)
            try:
                time.sleep(60)
            except SystemExit:
                journal.write(job.index, Outcome("pruned"))
                raise


def test_process_stops_with_its_owner_and_the_next_skips_finished_runs(
    tmp_path: Path,
) -> None:
    (tmp_path / SHARED_FILE).write_bytes(pickle.dumps(Sleeper()))
    Journal(tmp_path / "0.jsonl").write(3, Outcome("done"))
    description = pickle.dumps(Allocation(tmp_path, 0, (Job(3), Job(4))))
    command = [sys.executable, "-m", "focusing.sweep.allocation"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"%d\n%b" % (len(description), description))
        process.stdin.flush()
        reader, lines = Journal(tmp_path / "0.jsonl"), [*Journal(tmp_path / "0.jsonl").read()]
        while len(lines := [*lines, *reader.read()]) < 3:
            assert process.poll() is None
            time.sleep(0.05)
        process.stdin.close()
        assert process.wait(30) == 143
    assert list(reader.read()) == [(4, Outcome("pruned")), (ALL_STOPPED, None)]


def test_workload_restores_trust_and_working_dir(
    context: HydraContext, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("focusing.instantiate._trusted", set())
    monkeypatch.chdir(tmp_path.parent)
    singletons, allowed = Singleton.get_state(), frozenset({"own_code.Watch"})
    workload = Workload(context, load(), sweep_task(print), {}, tmp_path, allowed, singletons)
    workload.run([], Journal(tmp_path / "0.jsonl"))
    assert trusted() == allowed
    assert Path.cwd() == tmp_path
