from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra.types import HydraContext, RunMode

from focusing.results.record import read_record
from focusing.sweep.jobs import Reporting
from focusing.sweep.launch.cluster import ClusterSweep
from focusing.sweep.outcome import Job, Outcome, outcome_of, returned


class Here:
    """A cluster that is this process: seed 1 dies, and seed 3 is never over."""

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

    def result(self, ticket: Any) -> Any:
        if "seed=1" in ticket.overrides:
            raise RuntimeError("The node died.\nMore about it.")
        return returned(ticket, Outcome("done", score=0.5))

    def cancel(self, tickets: Sequence[Any]) -> None:
        self.cancelled = list(tickets)


@pytest.fixture
def cluster() -> Here:
    return Here()


@pytest.fixture
def swept(context: HydraContext, cluster: Here, tmp_path: Path) -> ClusterSweep:
    config = context.config_loader.load_configuration("train", [], run_mode=RunMode.MULTIRUN)
    task = Reporting(lambda _: None)
    return ClusterSweep(context, config, task, cluster, at_once=2, batch=2)


def jobs(folder: Path, *seeds: int) -> list[list[str]]:
    return [[f"seed={seed}", f"paths.output_dir={folder}", "name=far"] for seed in seeds]


def test_a_job_that_dies_elsewhere_fails_alone(
    swept: ClusterSweep, cluster: Here, tmp_path: Path
) -> None:
    found = [outcome_of(each) for each in swept.launch(jobs(tmp_path, 0, 1, 2), 0)]
    assert [each.status for each in found] == ["done", "failed", "done"]
    assert found[1].error == "The job died: The node died."
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
