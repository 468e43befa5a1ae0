from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hydra.types import HydraContext, RunMode

from focusing.errors import UserError
from focusing.results.store import read_record
from focusing.sweep.launch import ray_cluster
from focusing.sweep.launch.cluster import ClusterSweep, reason
from focusing.sweep.outcome import Job, Outcome, outcome_of

TRACE = "Traceback (most recent call last):"


class Here:
    """A cluster that is this process: seed 1 dies, and seed 3 is never over."""

    batch = jobs_at_once = 2

    def __init__(self) -> None:
        self.most, self.cancelled, self.running = 0, [], 0

    def submit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        self.running += len(jobs)
        self.most = max(self.most, self.running)
        return list(jobs)

    def finished(self, tickets: Sequence[Any]) -> Sequence[Any]:
        found = [each for each in tickets if "seed=3" not in each.overrides]
        if not found:
            raise KeyboardInterrupt
        self.running -= len(found)
        return found

    def result(self, ticket: Any) -> Outcome:
        if "seed=1" in ticket.overrides:
            raise RuntimeError("The node died.\nMore about it.")
        return Outcome("done", score=0.5)

    def log(self, ticket: Any) -> str | None:
        return "the.log"

    def cancel(self, tickets: Sequence[Any]) -> None:
        self.cancelled = list(tickets)


@pytest.fixture
def cluster() -> Here:
    return Here()


@pytest.fixture
def swept(context: HydraContext, cluster: Here, tmp_path: Path) -> ClusterSweep:
    config = context.config_loader.load_configuration("train", [], run_mode=RunMode.MULTIRUN)
    return ClusterSweep(context, config, cluster)


def jobs(folder: Path, *seeds: int) -> list[list[str]]:
    return [[f"seed={seed}", f"paths.output_dir={folder}", "name=far"] for seed in seeds]


def test_a_job_that_dies_elsewhere_fails_alone(
    swept: ClusterSweep, cluster: Here, tmp_path: Path
) -> None:
    found = [outcome_of(each) for each in swept.launch(jobs(tmp_path, 0, 1, 2), 0)]
    assert [each.status for each in found] == ["done", "failed", "done"]
    assert found[1].error == "The job died: The node died. Its log is the.log"
    record = read_record(Path(found[1].run_dir or ""))
    assert record is not None
    assert (record["seed"], record["status"], record["error"]) == (1, "failed", found[1].error)
    assert cluster.most == 2


def test_a_sweep_that_stops_tells_the_cluster(
    swept: ClusterSweep, cluster: Here, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        swept.launch(jobs(tmp_path, 2, 3), 0)
    assert [each.overrides[0] for each in cluster.cancelled] == ["seed=3"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The node died.\nMore about it.", "The node died."),
        (
            f"Job (task=0) failed during processing with trace:\n-----\n{TRACE}\n  File x\n"
            "ValueError: too big\n\n-----\nYou can check full logs with\n  - /x/err",
            "ValueError: too big",
        ),
        (
            "ray::_run_job()\nTraceback (most recent call last):\n  File y\nKeyError: 3\n",
            "KeyError: 3",
        ),
        ("", "RuntimeError('')"),
    ],
)
def test_the_reason_of_a_death_is_a_line(text: str, found: str) -> None:
    assert reason(RuntimeError(text)) == found


def test_ray_refuses_what_no_machine_here_has(
    context: HydraContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = Mock()
    ray.cluster_resources.return_value = {"CPU": 1}
    monkeypatch.setattr(ray_cluster, "import_module", lambda _: ray)
    config = context.config_loader.load_configuration("train", [], run_mode=RunMode.MULTIRUN)
    needs = {"num_cpus": 2, "num_gpus": 0}
    with pytest.raises(UserError, match=r"hydra.launcher.cpus=2, but the cluster has 1\."):
        ray_cluster.Ray(context, config, Mock(), address="local", init={}, remote=needs)
    ray.shutdown.assert_called_once()
    with pytest.warns(UserWarning, match="jobs wait until it grows"):
        ray_cluster.Ray(context, config, Mock(), address="auto", init={}, remote=needs)
