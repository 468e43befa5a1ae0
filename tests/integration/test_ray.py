"""Sweeps on Ray clusters, with one node and with three, one of which is killed."""

from pathlib import Path

import pytest

from tests.integration.commands import ROOT, SMALL, TRAIN, needs_cluster, record, run_dirs
from tests.integration.forked import Forked, run_forked
from tests.integration.step_counter import COUNTED
from tests.processes import wait_until

pytestmark = [
    pytest.mark.slow,
    needs_cluster,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]

RUNS = ["seed=range(4)", "data.n_samples=2000", "optim.batch_size=8", "trainer.max_epochs=6"]
STEPS = 2000 * 7 // 10 // 8 * 6  # per run; 70 % of the samples are for training


def test_runs_of_a_killed_node_continue_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "180")  # of a busy machine
    path = f"{ROOT / 'src'}:{ROOT}"
    monkeypatch.setenv("PYTHONPATH", path)  # of the nodes
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    try:
        launcher = ["hydra/launcher=ray", f"hydra.launcher.address={cluster.address}"]
        launcher += ["hydra.launcher.runs_per_job=2", "figures=false", "name=ray", *COUNTED]
        process = Forked(
            TRAIN, "-m", *launcher, "model.hidden=[8]", *RUNS, cwd=tmp_path, PYTHONPATH=path
        )
        journals = "outputs/.multirun/.ray/*/*.jsonl"
        wait_until(lambda: len(list(tmp_path.glob(journals))) == 2, seconds=400, process=process)
        cluster.remove_node(nodes[0], allow_graceful=False)
        out, err = process.communicate(timeout=400)
    finally:
        cluster.shutdown()
    assert process.returncode == 0, out + err
    assert "4/4 jobs, " in out
    records = [record(run_dir) for run_dir in run_dirs(tmp_path)]
    assert [len(run["series"]["test/acc"]) for run in records] == [6] * 4
    steps = (tmp_path / "steps").stat().st_size
    assert 4 * STEPS <= steps <= 4 * STEPS + STEPS // 6  # at most an epoch of one run twice


def test_ray_reports_failures(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    jobs = ["-m", "hydra/launcher=ray", "hydra.launcher.init={num_cpus: 1}", "name=ray"]
    jobs += ["optim.lr=0.1,1e12,abc", "model=dense", "model.batch_norm=false", *SMALL]
    done = run_forked(TRAIN, *jobs, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "3/3 jobs, 1 done, 2 failed" in done.stdout
    assert "optim.lr: Value 'abc'" in done.stderr
    assert "Error: 2 of 3 jobs failed" in done.stderr
    assert sorted(record(run_dir)["status"] for run_dir in run_dirs(tmp_path)) == ["done", "failed"]
