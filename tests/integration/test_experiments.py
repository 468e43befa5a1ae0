"""Every experiment runs at size=smoke, and its records contain its measurements."""

from pathlib import Path

import pytest

from focusing.compose import compose_config
from focusing.experiments.listing import expand_command, experiments
from focusing.run import train
from tests.integration.commands import TRAIN, record, run_dirs, run_here
from tests.integration.forked import run_forked

MEASURED = {
    "sparsity": "pruning",
    "explain": "explanation",
    "timing": "timing",
    "redundancy": "dead_inputs",
}
STACKED = "table1"  # its trials train together, through the sweeper


@pytest.mark.parametrize("name", sorted(set(experiments()) - {STACKED}))
def test_experiment_runs(name: str, tmp_path: Path) -> None:
    runs = expand_command([f"experiment={name}", "size=smoke", f"paths.output_dir={tmp_path}"])
    for overrides in runs:
        train(compose_config(*overrides, "callbacks.progress=null"))
    records = [record(run_dir) for run_dir in tmp_path.glob("*/*/seed=*")]
    assert len(records) == len(runs)  # no two runs share a folder
    for run in records:
        assert run["status"] == "done"
        assert run["experiment"] == name
        assert run["config"]["size"] == "smoke"
        assert run["data"]["source"].startswith("fake")
        assert run["scores"]["best_test"]["value"] >= 0
        assert name not in MEASURED or MEASURED[name] in run["measured"]


def test_stacked_experiment_runs(tmp_path: Path) -> None:
    done = run_here("train", f"experiment={STACKED}", "size=smoke", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records = [record(run_dir) for run_dir in run_dirs(tmp_path)]
    names = sorted(run["config"]["model"]["name"] for run in records)
    assert names == ["dense"] * 4 + ["focus_s"] * 4
    assert {(run["status"], run["config"]["size"]) for run in records} == {("done", "smoke")}
    assert done.stdout.count("Table 1, random trials") == 1
    local = ["hydra/launcher=local", "hydra.launcher.workers=1"]
    again = run_forked(TRAIN, f"experiment={STACKED}", "size=smoke", *local, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "4/4 trials, 0 done, 4 skipped" in again.stdout
    assert again.stdout.count("Table 1, random trials") == 1


def test_command_runs_all_parts(tmp_path: Path) -> None:
    overrides = ["experiment=table4_other", "size=smoke", "data=dna,imdb"]
    done = run_here("train", *overrides, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = {
        (run["config"]["data"]["name"], run["config"]["model"]["name"])
        for run in map(record, run_dirs(tmp_path))
    }
    texts = {("imdb", "fasttext_dense"), ("imdb", "fasttext_focus")}
    assert runs == {("dna", "dense"), ("dna", "focus_s"), *texts}
