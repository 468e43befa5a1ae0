"""Sweeps on clusters: packing of runs into jobs, and the runs of dead jobs."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hydra.types import HydraContext
from omegaconf import OmegaConf

from focusing.errors import UserError
from focusing.experiments.table1_trials import sweep_task
from focusing.results.store import read_record, write_record
from focusing.sweep import clusters, ray_cluster
from focusing.sweep.allocation import ALL_STOPPED, Allocation, Journal
from focusing.sweep.clusters import ClusterSweep, State, SubmittedJob, cause_of
from focusing.sweep.jobs import Job, Outcome, number_jobs
from focusing.sweep.slurm import Slurm
from focusing.sweep.status import SweepStatus
from focusing.sweep.task import JobRunner
from tests.unit.reports.records import SMALLEST
from tests.unit.sweep.conftest import Load

TRACE = "Traceback (most recent call last):"


class FakeCluster(ClusterSweep):
    """A cluster whose jobs end at once, in the states of ``ends`` or else as COMPLETED.

    A job that does not complete has finished its first run and started its second.
    """

    cluster, max_batch, poll_seconds = "fake", 2, 0.0
    room = 100

    def begin(self, ends: dict[int, str]) -> None:
        self.ends, self.jobs, self.most = ends, list[list[int]](), 0
        self.cancelled: Sequence[Any] = ()

    def _capacity(self, search: bool) -> int:
        return self.room

    def _submit(self, allocations: Sequence[Allocation]) -> Sequence[Any]:
        for allocation in allocations:
            journal, end = Journal(allocation.journal_path), self.ends.get(allocation.number)
            self.jobs.append([job.index for job in allocation.jobs])
            for job in allocation.jobs[: 1 if end else None]:
                journal.write(job.index)
                journal.write(job.index, Outcome("done", score=0.5, runs=((job, Outcome("done")),)))
            for job in allocation.jobs[1:2] if end else ():
                journal.write(job.index)
        return allocations

    def _query_states(self, submitted: Sequence[SubmittedJob]) -> Sequence[State]:
        self.most = max(self.most, len(submitted))
        if any(self.ends.get(job.allocation.number) == "Ctrl-C" for job in submitted):
            raise KeyboardInterrupt
        ends = (self.ends.get(job.allocation.number, "COMPLETED") for job in submitted)
        return [State(end, "The node died." if end == "NODE_FAIL" else "") for end in ends]

    def _log(self, submitted: SubmittedJob) -> str:
        return "the.log"

    def _cancel(self, handles: Sequence[Any]) -> None:
        self.cancelled = list(handles)


Run = Callable[..., list[Outcome]]


@pytest.fixture
def cluster(context: HydraContext, load: Load, tmp_path: Path) -> FakeCluster:
    config = load(f"paths.output_dir={tmp_path}")
    return FakeCluster(JobRunner(context, config, sweep_task(print)), 3, 1, None, 1)


@pytest.fixture
def run(cluster: FakeCluster, tmp_path: Path) -> Run:
    def run(count: int, ends: dict[int, str] | None = None) -> list[Outcome]:
        fixed = (f"paths.output_dir={tmp_path}", "name=far", "figures=false")
        jobs = number_jobs([(f"seed={seed}", *fixed) for seed in range(count)])
        cluster.begin(ends or {})
        status = SweepStatus([job.overrides for job in jobs])
        return [outcome for _, outcome in cluster.run_until_finished(iter(jobs), status)]

    return run


def statuses(outcomes: Sequence[Outcome]) -> str:
    return "".join(outcome.status[0] for outcome in outcomes)


def test_packing_of_runs_into_jobs(
    cluster: FakeCluster, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = run(7)
    assert statuses(outcomes) == "d" * 7
    assert outcomes[0].runs[0][0].overrides[0] == "seed=0"  # from the journal
    assert cluster.jobs == [[0, 3, 6], [1, 4], [2, 5]]
    assert cluster.most == 3
    assert "Submitting 7 runs to fake in 3 jobs." in capsys.readouterr().out
    cluster.max_parallel = 3
    run(7)
    assert cluster.jobs == [[0, 1, 2], [3, 4, 5], [6]]
    assert cluster.most == 1


def test_unfinished_runs_are_resubmitted_unless_to_blame(
    cluster: FakeCluster, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = run(3, {0: "NODE_FAIL", 1: "TIMEOUT"})
    assert statuses(outcomes) == "ddd"
    assert cluster.jobs == [[0, 1, 2], [1, 2], [2]]
    assert "The job died: The node died. (state: NODE_FAIL). Its log is" in capsys.readouterr().out
    outcomes = run(3, {3: "OUT_OF_MEMORY"})  # jobs are numbered across sweeps
    assert statuses(outcomes) == "dfd"
    assert outcomes[1].error == "The job died (state: OUT_OF_MEMORY). Its log is the.log"
    record = read_record(Path(outcomes[1].run_dir or ""))
    assert record is not None
    assert (record["seed"], record["status"], record["error"]) == (1, "failed", outcomes[1].error)


def test_cancelled_jobs_leave_no_record_and_losses_are_limited(
    cluster: FakeCluster, run: Run
) -> None:
    outcomes = run(3, {0: "CANCELLED"})
    assert statuses(outcomes) == "dff"
    assert outcomes[2].error == "The job died (state: CANCELLED). Its log is the.log"
    assert not Path(outcomes[2].run_dir or "").exists()
    outcomes = run(12, dict.fromkeys(range(1, 30), "NODE_FAIL"))
    assert set(statuses(outcomes)) == {"d", "f"}
    assert max(cluster._losses.values()) == clusters.MAX_LOSSES + 1
    with pytest.raises(KeyboardInterrupt):
        run(4, {cluster._count: "Ctrl-C"})
    assert len(cluster.cancelled) == 2


def test_finished_runs_are_not_submitted(cluster: FakeCluster, run: Run) -> None:
    output_dir = cluster._runner.config.paths.output_dir
    job = Job(1, ("seed=1", f"paths.output_dir={output_dir}", "name=far", "figures=false"))
    _, run_dir = cluster._runner.task.locate(cluster._runner.compose(job))
    run_dir.mkdir(parents=True)
    write_record(run_dir, {**SMALLEST, "status": "failed", "error": "It diverged."})
    outcomes = run(3)
    assert cluster.jobs == [[0, 2]]
    assert (outcomes[1].earlier, outcomes[1].error) == (True, "It diverged.")


def test_requeued_job_that_dies_early_blames_no_run(tmp_path: Path) -> None:
    allocation = Allocation(tmp_path, 0, (Job(0), Job(1)))
    submitted, journal = SubmittedJob(allocation, None), Journal(allocation.journal_path)
    journal.write(0)
    assert list(submitted.new_outcomes()) == []
    assert submitted.started == {0}
    journal.write(ALL_STOPPED)  # all runs have saved
    assert list(submitted.new_outcomes()) == []
    assert submitted.started == set()


def test_a_journal_survives_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "0.jsonl"
    writer, reader = Journal(path), Journal(path)
    assert list(reader.read()) == []
    writer.write(3)
    with path.open("ab") as file:
        file.write(b'[3, {"stat')  # killed here
    assert list(reader.read()) == [(3, None)]
    writer.write(4)  # the next process appends to the same line
    writer.write(5, Outcome("pruned"))
    assert list(reader.read()) == [(5, Outcome("pruned"))]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("The node died.\nMore about it.", "The node died."),
        (
            f"Job (task=0) failed during processing with trace:\n-----\n{TRACE}\n  File x\n"
            "ValueError: too big\n\n-----\nYou can check full logs with\n  - /x/err",
            "ValueError: too big",
        ),
        (f"ray::_run_job()\n{TRACE}\n  File y\nKeyError: 3\n", "KeyError: 3"),
        ("", "RuntimeError('')"),
    ],
)
def test_cause_of_is_one_line(text: str, cause: str) -> None:
    assert cause_of(RuntimeError(text)) == cause


RAY: dict[str, Any] = {"runs_per_job": 1, "per_gpu": 1, "cpus": 2, "gpus": 0, "init": {}}


def test_ray_refuses_more_resources_than_the_cluster_has(
    context: HydraContext, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = Mock()
    ray.cluster_resources.return_value = {"CPU": 1}
    monkeypatch.setattr(ray_cluster, "import_module", lambda _: ray)
    runner = JobRunner(context, load(), Mock())
    with pytest.raises(UserError, match=r"hydra.launcher.cpus=2, but the cluster has 1\."):
        ray_cluster.Ray(runner, address="local", remote={}, **RAY)
    ray.shutdown.assert_called_once()
    with pytest.warns(UserWarning, match="jobs wait until it grows"):
        ray_cluster.Ray(runner, address="auto", remote={}, **RAY)
    with pytest.raises(UserError, match=r"127.0.0.1:9 cannot be reached: Connection refused\."):
        ray_cluster.Ray(runner, address="127.0.0.1:9", remote={}, **RAY)


@pytest.fixture
def slurm(
    context: HydraContext, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Slurm]:
    """Return a function that makes a sweep; ``tmp_path`` holds the SLURM commands."""
    pytest.importorskip("submitit")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # the launcher sets them for its jobs
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    command(tmp_path / "srun", "")
    more = ["hydra/launcher=slurm", "hydra.launcher.more={account: me}"]
    config = load(*more, f"paths.output_dir={tmp_path}")
    options: Any = OmegaConf.to_container(config.hydra.launcher)

    def make(**changes: Any) -> Slurm:
        return Slurm(JobRunner(context, config, sweep_task(print)), **{**options, **changes})

    return make


def command(path: Path, prints: str) -> None:
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)


def test_slurm_checks_its_options(slurm: Callable[..., Slurm]) -> None:
    assert slurm(cluster="local")._capacity(search=True) >= 1
    for wrong, sentence in (
        ({"accuont": "me"}, "Unknown argument 'accuont'"),
        ({"timeout_min": 3}, "timeout_min=3 is too short.* Use at least 4 minutes"),
    ):
        with pytest.raises(UserError, match=sentence):
            slurm(**wrong)
    slurm(timeout_min=3, signal_delay_s=60)


def test_slurm_states_from_squeue_and_sacct(
    slurm: Callable[..., Slurm], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = slurm()
    command(
        tmp_path / "squeue", "7_0|PENDING|PartitionTimeLimit\n7_1|SUSPENDED|None\n8|RUNNING|None"
    )
    command(tmp_path / "sacct", "7_2|CANCELLED by 0")
    command(tmp_path / "sinfo", "2|64+|gpu:a100:8(S:0-1)\n1|32|(null)")

    def submitted(job_id: str) -> SubmittedJob:
        handle = SimpleNamespace(job_id=job_id, paths=Mock())
        return SubmittedJob(Allocation(tmp_path, 0, (Job(0),)), handle)

    sweep._submitted = [submitted(name) for name in ("7_0", "7_1", "8", "7_2", "9")]
    status = SweepStatus()
    sweep._update_states(status)
    names = [job.state.name for job in sweep._submitted]
    assert names == ["PENDING", "SUSPENDED", "RUNNING", "CANCELLED", "GONE"]
    assert "1 suspended" in status.describe()
    assert "1 pending" in status.describe()
    assert "1 job waits in the queue of slurm: PartitionTimeLimit." in capsys.readouterr().out
    assert sweep._capacity(search=True) == 160
    assert slurm(gpus_per_node=2, cpus_per_task=4)._capacity(search=True) == 8
    (tmp_path / "squeue").write_text("#!/bin/sh\nexit 1\n")
    assert {state.name for state in sweep._query_states(sweep._submitted)} == {"UNKNOWN"}


def test_queries_become_less_frequent_after_a_submission(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(cluster, "poll_seconds", 1.0)
    cluster.begin({0: "RUNNING"})
    for age, pause in ((0, 1), (10, 5), (3600, clusters.MAX_QUERY_INTERVAL)):
        cluster._submitted = [SubmittedJob(Allocation(tmp_path, 0, (Job(0),)), None)]
        cluster._last_submission, cluster._next_query = 1000.0 - age, 0.0
        cluster._update_states(SweepStatus())
        assert cluster._submitted[0].state.name == "RUNNING"
        assert cluster._next_query == 1000.0 + pause
