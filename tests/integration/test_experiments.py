"""Every experiment runs at size=smoke; what its callbacks measure is in the records."""

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from focusing.compose import config_dir
from focusing.experiments.listing import experiments, jobs_of
from focusing.run import train
from tests.integration.commands import record, run_dirs, run_here

MEASURED = {
    "sparsity": "pruning",
    "explain": "explanation",
    "timing": "timing",
    "redundancy": "dead_inputs",
}
STACKED = "table1"  # its trials train together, which Hydra's sweeper starts


def records(folder: Path) -> list[dict[str, Any]]:
    return [record(each) for each in sorted(folder.glob("*/*/seed=*"))]


@pytest.mark.parametrize("name", sorted(set(experiments()) - {STACKED}))
def test_every_experiment_runs(name: str, tmp_path: Path) -> None:
    runs = jobs_of([f"experiment={name}", "size=smoke", f"paths.output_dir={tmp_path}"])
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        for each in runs:
            train(compose("train", [*each, "callbacks.progress=null"]))
    found = records(tmp_path)
    assert len(found) == len(runs)  # no two runs share a folder
    for each in found:
        assert each["status"] == "done"
        assert each["experiment"] == name
        assert each["config"]["size"] == "smoke"
        assert each["data"]["source"].startswith("fake")
        assert each["scores"]["paper"]["value"] >= 0
        assert name not in MEASURED or MEASURED[name] in each["measured"]


def test_the_stacked_experiment_runs(tmp_path: Path) -> None:
    done = run_here("train", f"experiment={STACKED}", "size=smoke", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [record(each) for each in run_dirs(tmp_path)]
    names = sorted(each["config"]["model"]["name"] for each in found)
    assert names == ["dense"] * 4 + ["focus_s"] * 4
    assert {(each["status"], each["config"]["size"]) for each in found} == {("done", "smoke")}


def test_the_command_runs_all_parts(tmp_path: Path) -> None:
    overrides = ["experiment=table4_other", "size=smoke", "data=dna,imdb"]
    done = run_here("train", *overrides, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {
        (each["config"]["data"]["name"], each["config"]["model"]["name"])
        for each in map(record, run_dirs(tmp_path))
    }
    texts = {("imdb", "fasttext_dense"), ("imdb", "fasttext_focus")}
    assert found == {("dna", "dense"), ("dna", "focus_s"), *texts}


def test_the_command_runs_a_table(tmp_path: Path) -> None:
    arguments = ["experiment=table3_transfer", "size=smoke", "variant=author", "data=cifar10"]
    done = run_here("train", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [record(each)["config"] for each in run_dirs(tmp_path)]
    assert {each["model"]["name"] for each in found} == {"vgg_dense", "vgg_focus"}
    assert {(each["variant"], each["model"]["pad"]) for each in found} == {("author", 3)}


def test_the_list_comes_before_anything_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = run_here("experiments", "rescue", "size=smoke", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "rescue" in done.stdout
    assert "Beyond the paper" in done.stdout
    assert not run_dirs(tmp_path)
    wrong = run_here("experiments", "rescu", cwd=tmp_path)
    assert wrong.returncode == 1
    assert wrong.stderr == "Error: experiment=rescu does not exist, did you mean rescue?\n"
