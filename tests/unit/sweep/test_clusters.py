"""Sweeps on clusters: stand-ins for SLURM and Ray."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hydra.types import HydraContext

from focusing.errors import UserError
from focusing.experiments.table1_trials import sweep_task
from focusing.results.store import read_record
from focusing.sweep import ray_cluster
from focusing.sweep.clusters import ClusterSweep, cause_of
from focusing.sweep.jobs import Job, Outcome, number_jobs
from focusing.sweep.slurm import Slurm, SubmittedJob
from focusing.sweep.status import SweepStatus
from tests.unit.sweep.conftest import Load

TRACE = "Traceback (most recent call last):"


class FakeCluster(ClusterSweep):
    """A cluster that is this process: seed 1 dies, and seed 3 never ends."""

    max_batch = 2
    most = running = 0
    cancelled: Sequence[Job] = ()

    def _capacity(self) -> int:
        return 2

    def _submit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        self.running += len(jobs)
        self.most = max(self.most, self.running)
        return list(jobs)

    def _finished(self, handles: Sequence[Any]) -> Sequence[Any]:
        over = [job for job in handles if "seed=3" not in job.overrides]
        if not over:
            raise KeyboardInterrupt
        self.running -= len(over)
        return over

    def _result(self, handle: Any) -> Outcome:
        if "seed=1" in handle.overrides:
            raise RuntimeError("The node died.\nMore about it.")
        return Outcome("done", score=0.5)

    def _log(self, handle: Any) -> str | None:
        return "the.log"

    def _cancel(self, handles: Sequence[Any]) -> None:
        self.cancelled = list(handles)


def test_a_job_that_dies_fails_alone_and_a_stop_reaches_the_cluster(
    context: HydraContext, load: Load, tmp_path: Path
) -> None:
    cluster = FakeCluster(context, load(), sweep_task(print))

    def run(*seeds: int) -> list[Outcome]:
        fixed, outcomes = (f"paths.output_dir={tmp_path}", "name=far"), dict[int, Outcome]()
        jobs = number_jobs([(f"seed={seed}", *fixed) for seed in seeds])
        cluster.run(iter(jobs), SweepStatus(), lambda job, out: outcomes.update({job.index: out}))
        return [outcomes[job.index] for job in jobs]

    outcomes = run(0, 1, 2)
    assert [outcome.status for outcome in outcomes] == ["done", "failed", "done"]
    assert outcomes[1].error == "The job died: The node died. Its log is the.log"
    record = read_record(Path(outcomes[1].run_dir or ""))
    assert record is not None
    assert (record["seed"], record["status"], record["error"]) == (1, "failed", outcomes[1].error)
    assert cluster.most == 2
    with pytest.raises(KeyboardInterrupt):
        run(2, 3)
    assert [job.overrides[0] for job in cluster.cancelled] == ["seed=3"]


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
def test_the_cause_of_a_death_is_a_line(text: str, cause: str) -> None:
    assert cause_of(RuntimeError(text)) == cause


def test_ray_refuses_what_no_machine_has(
    context: HydraContext, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = Mock()
    ray.cluster_resources.return_value = {"CPU": 1}
    monkeypatch.setattr(ray_cluster, "import_module", lambda _: ray)
    config, needs = load(), {"num_cpus": 2, "num_gpus": 0}
    with pytest.raises(UserError, match=r"hydra.launcher.cpus=2, but the cluster has 1\."):
        ray_cluster.Ray(context, config, Mock(), address="local", init={}, remote=needs)
    ray.shutdown.assert_called_once()
    with pytest.warns(UserWarning, match="jobs wait until it grows"):
        ray_cluster.Ray(context, config, Mock(), address="auto", init={}, remote=needs)


def test_an_error_in_a_slurm_job_is_reported_as_it_is() -> None:
    pytest.importorskip("submitit")

    def refuse(*arguments: Any) -> Any:
        raise UserError(f"{arguments[0]} is wrong.")

    job = SubmittedJob(refuse)
    assert job("a value") == Outcome("failed", error="a value is wrong.")
    again = job.checkpoint("a value")  # what submitit queues when time is up
    assert again.result().error == "a value is wrong."


def test_options_of_sbatch_are_accepted_and_typos_refused(
    context: HydraContext, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # the launcher sets them for its jobs
    more = ["hydra/launcher=slurm", "hydra.launcher.more={account: me}"]
    config = load(*more, f"paths.output_dir={tmp_path}")
    launcher = {str(key): value for key, value in config.hydra.launcher.items()}
    options = {k: v for k, v in launcher.items() if k not in ("_target_", "cluster", "more")}

    def slurm(**changes: Any) -> Slurm:
        settings = {**options, **changes}
        return Slurm(context, config, sweep_task(print), cluster="local", options=settings)

    assert launcher["more"] == {"account": "me"}
    assert slurm(account="me")._capacity() >= 1
    with pytest.raises(UserError, match="Unknown argument 'accuont'"):
        slurm(accuont="me")
    with pytest.raises(UserError, match="cpus_per_task=0 must be at least 1"):
        slurm(cpus_per_task=0)
