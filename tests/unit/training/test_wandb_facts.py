"""What W&B is told about a run."""

from typing import Any

import pytest

from focusing.training.wandb_run import curves_of, facts, summary_of, tags

CONFIG: dict[str, Any] = {
    "name": "mine",
    "seed": 3,
    "size": "quick",
    "variant": "paper",
    "data": {"name": "mnist", "fake": False, "on_missing": "sample"},
    "model": {"name": "focus_s"},
    "protocol": {"name": "holdout"},
    "paths": {"data_dir": "somewhere"},
}


def test_tags_are_typed_words() -> None:
    expected = ["data=mnist", "model=focus_s", "size=quick", "variant=paper", "protocol=holdout"]
    assert tags(CONFIG) == expected
    assert tags({"seed": 0}) == []


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({}, "focus_s, quick, holdout, sample (mine)"),
        ({"size": "paper", "protocol": {"name": "paper"}, "data": {}}, "focus_s (mine)"),
        (
            {"variant": "author", "data": {"fake": True}},
            "focus_s, quick, author, holdout, fake data (mine)",
        ),
    ],
)
def test_what_differs_has_another_label(changes: dict[str, Any], label: str) -> None:
    assert facts({**CONFIG, **changes})["label"] == label


def test_seeds_share_a_hash_and_folders_stay_here() -> None:
    one, other = facts(CONFIG), facts({**CONFIG, "seed": 4})
    assert one["config_hash"] == other["config_hash"]
    assert (one["seed"], other["seed"]) == (3, 4)
    assert "paths" not in one
    assert facts({}) == {}


def test_the_summary_has_scores_and_measurements() -> None:
    record = {
        "config": CONFIG,
        "data": {"name": "mnist"},
        "metric": "accuracy",
        "status": "done",
        "finished": "now",
        "scores": {
            "paper": {"value": 0.9, "epoch": 1},
            "holdout": {"value": 0.8, "epoch": 2},
            "last": None,
        },
        "network": {"parameters": 7},
        "focus": {"hidden1": {"moved": 0.5}},
        "measured": {"timing": {"ratio": {"train": 1.2, "test": None}, "device": "cpu"}},
        "wall_seconds": 2.0,
        "steps_per_second": None,
    }
    assert summary_of(record) == {
        "score/paper": 0.9,
        "score/holdout": 0.8,
        "accuracy/mnist": 0.8,  # under the protocol that was asked for
        "network/parameters": 7,
        "focus/hidden1/moved": 0.5,
        "timing/ratio/train": 1.2,
        "wall_seconds": 2.0,
        "status": "done",
        "finished": "now",
    }


def test_curves_against_sparsity() -> None:
    pruning = {
        "curve": [{"threshold": 0.5, "sparsity": 0.1, "acc": 0.9, "loss": 1.0}],
        "magnitude": [{"sparsity": 0.2, "mae": 3.0}],
    }
    assert list(curves_of({"measured": {"pruning": pruning}})) == [
        {"pruning/sparsity": 0.1, "pruning/threshold": 0.5, "pruning/focus_acc": 0.9},
        {"pruning/sparsity": 0.2, "pruning/magnitude_mae": 3.0},
    ]
    assert list(curves_of({})) == []
