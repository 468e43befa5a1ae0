"""One job of a sweep: skipped, run, failed, stopped, or busy elsewhere."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from omegaconf import DictConfig, OmegaConf

from focusing.compose import compose_config
from focusing.errors import BusyError, PrunedError, UserError
from focusing.experiments.table1_trials import sweep_task
from focusing.results.store import read_record, write_record
from focusing.sweep import task as task_module
from focusing.sweep.jobs import Job, OnDone, Outcome, number_jobs
from focusing.sweep.status import SweepStatus
from focusing.sweep.task import Sweep, check_sweep
from tests.unit.reports.records import SMALLEST


@pytest.fixture(scope="module")
def base() -> DictConfig:
    return compose_config()


@pytest.fixture
def cfg(base: DictConfig, tmp_path: Path) -> Callable[..., DictConfig]:
    def make(*overrides: str) -> DictConfig:
        changes = OmegaConf.from_dotlist([f"paths.output_dir={tmp_path}", *overrides])
        return OmegaConf.merge(base, changes)  # type: ignore[return-value]

    return make


def raising(error: BaseException) -> Callable[[DictConfig], float]:
    def task(cfg: DictConfig) -> float:
        raise error

    return task


def leave(cfg: DictConfig, **record: Any) -> Path:
    _, run_dir = sweep_task(print).locate(cfg)
    run_dir.mkdir(parents=True)
    write_record(run_dir, {**SMALLEST, **record})
    return run_dir


def test_finished_job(cfg: Callable[..., DictConfig]) -> None:
    fresh = cfg()
    begun: list[str] = []
    task = sweep_task(lambda _: 0.5)
    task.on_start = lambda: begun.append("now")
    outcome = task(fresh)
    assert (outcome.status, outcome.earlier, outcome.score) == ("done", False, 0.5)
    assert begun == ["now"]
    leave(fresh, status="done", metric="accuracy")
    outcome = task(fresh)
    assert (outcome.earlier, outcome.metric) == (True, "accuracy")
    assert not task(cfg("force=true")).earlier
    assert sweep_task(lambda _: None)(cfg("sweep.stacked=true")) == Outcome("done")  # no folder


def test_warnings_are_prefixed_with_their_job(
    cfg: Callable[..., DictConfig], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def warn(_: DictConfig) -> float:
        logging.getLogger("focusing").warning("It is %s.", "stuck")
        return 0.5

    words = ["model=dense", "seed=17", "+callbacks.trial={number:1}"]
    job = OmegaConf.create({"overrides": {"task": words}})
    monkeypatch.setattr(task_module.HydraConfig, "initialized", lambda: True)
    monkeypatch.setattr(task_module.HydraConfig, "get", lambda: job)
    assert sweep_task(warn)(cfg("sweep.stacked=true")).status == "done"
    logging.getLogger("focusing").warning("Later.")
    assert caplog.messages == ["model=dense seed=17: It is stuck.", "Later."]


def test_archived_runs_are_skipped(cfg: Callable[..., DictConfig], tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    config, _ = sweep_task(print).locate(cfg())
    scores = {"best_test": {"value": 0.75, "epoch": 1}, "last": {"value": 0.5, "epoch": 2}}
    record = {
        "experiment": config["name"],
        "config": config,
        "config_hash": "of another version",
        "seed": 0,
        "metric": "accuracy",
        "status": "done",
        "scores": scores,
    }
    (archive / "run").mkdir(parents=True)
    write_record(archive / "run", record)
    never = sweep_task(raising(AssertionError("was run")))
    outcome = never(cfg(f"sweep.archive={archive}"))
    assert (outcome.status, outcome.earlier, outcome.score) == ("done", True, 0.75)
    assert outcome.run_dir == str(archive / "run")
    for other in ("seed=17", "optim.lr=0.5", "force=true"):
        assert not sweep_task(lambda _: 1.0)(cfg(f"sweep.archive={archive}", other)).earlier
    assert "is not a folder" in (never(cfg("sweep.archive=nowhere")).error or "")


def test_failed_runs_are_retried_on_request_only(cfg: Callable[..., DictConfig]) -> None:
    run_dir = leave(cfg(), status="failed", error="It diverged.")
    never = raising(AssertionError("was run"))
    outcome = sweep_task(never)(cfg())
    assert (outcome.status, outcome.earlier, outcome.error) == ("failed", True, "It diverged.")
    assert outcome.run_dir == str(run_dir)
    for again in ("sweep.retry_failed=true", "force=true", "resume=never"):
        assert sweep_task(lambda _: 1.0)(cfg(again)).status == "done"


def test_user_errors_leave_no_record(cfg: Callable[..., DictConfig]) -> None:
    outcome = sweep_task(raising(UserError("Wrong.")))(cfg())
    assert (outcome.status, outcome.error) == ("failed", "Wrong.")
    assert not Path(outcome.run_dir or "").exists()
    outcome = sweep_task(raising(AssertionError("was run")))(cfg("trainer.devices=2"))
    assert "a run uses one device" in (outcome.error or "")
    assert outcome.run_dir is None


@pytest.mark.parametrize("error", [ZeroDivisionError("oh"), SystemExit(3)])
def test_unexpected_errors_are_recorded(
    cfg: Callable[..., DictConfig], error: BaseException
) -> None:
    outcome = sweep_task(raising(error))(cfg("seed=7"))
    assert outcome.status == "failed"
    record = read_record(Path(outcome.run_dir or ""))
    assert record is not None
    assert (record["status"], record["seed"]) == ("failed", 7)
    if isinstance(error, Exception):
        assert "raise error" in Path(outcome.run_dir or "", "error.txt").read_text()


def test_busy_pruned_and_stopped_jobs(cfg: Callable[..., DictConfig]) -> None:
    assert sweep_task(raising(BusyError("Another.")))(cfg()).status == "busy"
    assert sweep_task(raising(PrunedError()))(cfg()).status == "pruned"
    with pytest.raises(SystemExit):
        sweep_task(raising(SystemExit(143)))(cfg())  # a signal stops the sweep


class TwoCalls(Sweep):
    """A sweep whose second job is busy in the first call."""

    def __init__(self, lock: FileLock, run_dir: Path) -> None:
        self.lock, self.run_dir, self.calls = lock, run_dir, list[list[int]]()

    def run(self, jobs: Iterator[Job], status: SweepStatus, on_done: OnDone) -> None:
        self.calls.append([])
        for job in jobs:
            self.calls[-1].append(job.index)
            busy = job.index == 1 and len(self.calls) == 1
            on_done(job, Outcome("busy", run_dir=str(self.run_dir)) if busy else Outcome("done"))
        threading.Timer(0.1, self.lock.release).start()


def test_waits_for_runs_of_other_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_module, "POLL_SECONDS", 0.02)
    lock = FileLock(tmp_path / ".seed=1.lock", thread_local=False)
    lock.acquire()
    sweep, jobs = TwoCalls(lock, tmp_path / "seed=1"), number_jobs([["seed=0"], ["seed=1"]])
    told: list[str] = []
    results = sweep.run_until_finished(
        iter(jobs),
        SweepStatus([job.overrides for job in jobs]),
        lambda job, outcome: told.append(outcome.status),
    )
    assert sweep.calls == [[0, 1], [1]]
    assert told == ["done", "busy", "done"]
    assert [(job.index, outcome.status) for job, outcome in results] == [(0, "done"), (1, "done")]
    shown = capsys.readouterr().out
    assert "Waiting for 1 jobs" in shown
    assert "2/2 jobs, 2 done" in shown


@pytest.mark.parametrize("devices", [2, -1, "auto", [0, 1], True])
def test_more_than_one_device_is_refused(devices: Any) -> None:
    with pytest.raises(UserError, match="a run uses one device"):
        check_sweep(OmegaConf.create({"trainer": {"devices": devices}}))
    check_sweep(OmegaConf.create({"trainer": {"devices": [3]}}))
