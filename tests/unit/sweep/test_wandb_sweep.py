"""Conversion of multiruns into W&B sweeps."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from focusing.errors import UserError
from focusing.experiments.listing import expand_command
from focusing.sweep.wandb_sweep import describe_size, sweeps
from tests.command_line import write_sweep


def only(*overrides: str) -> dict[str, Any]:
    (sweep,) = sweeps(overrides, {"project": "p"}).values()
    return sweep


def test_grid() -> None:
    sweep = only("model=dense,focus_s", "seed=range(3)", "optim.lr=0.1", "model.hidden=[4],[8,8]")
    assert sweep["method"] == "grid"
    assert sweep["parameters"] == {
        "model": {"values": ["dense", "focus_s"]},
        "seed": {"values": [0, 1, 2]},
        "model.hidden": {"values": ["[4]", "[8,8]"]},
    }
    assert sweep["project"] == "p"
    assert sweep["command"] == [
        "${env}",
        "${program}",
        "train",
        "hydra.mode=RUN",
        "logger=wandb",
        "logger.wandb.project=p",
        "optim.lr=0.1",
        "${args_no_hyphens}",
    ]
    assert describe_size(sweep) == "12 runs"


def test_parts_become_several_sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "my.yaml"
    words = ["experiment=table4_other", "data=boston,imdb"]
    write_sweep([*words, "--out", str(out), "--entity", "team"])
    files = sorted(tmp_path.iterdir())
    assert len(files) == len(capsys.readouterr().out.splitlines()) == 2
    sweeps_by_file = {path.stem: yaml.safe_load(path.read_text()) for path in files}
    assert all("experiment=table4_other" in part["command"] for part in sweeps_by_file.values())
    assert sweeps_by_file["my_housing"]["metric"] == {"name": "score/best_test", "goal": "minimize"}
    assert sweeps_by_file["my_reviews"]["metric"]["goal"] == "maximize"
    assert {sweep["entity"] for sweep in sweeps_by_file.values()} == {"team"}
    write_sweep([*words, "--dry-run"])
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [sweep["name"] for sweep in printed] == ["table4_other housing", "table4_other reviews"]
    runs = sum(int(describe_size(sweep).split()[0]) for sweep in sweeps_by_file.values())
    assert runs == len(expand_command(words))


def test_search() -> None:
    sweep = only(
        "hydra/sweeper=optuna",
        "hydra.sweeper.n_trials=7",
        "optim.lr=tag(log,interval(0.001,1))",
        "model.sigma=interval(0.1,0.5)",
        "optim.batch_size=int(interval(8,64))",
    )
    assert sweep["method"] == "bayes"
    assert sweep["run_cap"] == 7
    assert sweep["parameters"] == {
        "optim.lr": {"distribution": "log_uniform_values", "min": 0.001, "max": 1},
        "model.sigma": {"distribution": "uniform", "min": 0.1, "max": 0.5},
        "optim.batch_size": {"distribution": "int_uniform", "min": 8, "max": 64},
    }
    assert not any("hydra/" in word for word in sweep["command"])
    chosen = only("hydra/sweeper=optuna", "model=dense,focus_s", "optim.lr=interval(0.1,1)")
    assert chosen["method"] == "random"  # bayes cannot search over groups


def test_dry_run_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_sweep(["seed=0,1", "logger=[wandb,tensorboard]", "--dry-run"])
    sweep = yaml.safe_load(capsys.readouterr().out)
    assert "logger=[wandb,tensorboard]" in sweep["command"]
    assert "logger=wandb" not in sweep["command"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "goal"), [("choice(boston)", "minimize"), ("boston,dna", "maximize")]
)
def test_goal_follows_the_metric(data: str, goal: str) -> None:
    assert only(f"data={data}", "seed=0,1")["metric"]["goal"] == goal


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["model=dense"], "There is nothing to sweep"),
        (["optim.lr=interval(0.1,1)"], "optim.lr is an interval: use hydra/sweeper=optuna"),
        (["hydra/sweeper=optuna", "optim.lr=tag(log,interval(0,1))"], "is not an interval"),
    ],
)
def test_invalid_sweeps_are_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        sweeps(overrides, {})
