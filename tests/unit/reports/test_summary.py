"""The table at the end of a run."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from focusing.models import focused_mlp
from focusing.reports.terminal import closing, opening, summary

RECORD: dict[str, Any] = {
    "status": "done",
    "experiment": "learning_to_focus",
    "seed": 0,
    "config": {"model": {"name": "focus_s"}},
    "data": {"name": "synthetic", "source": "generated", "train": 1600, "val": 400, "test": 857},
    "metric": "accuracy",
    "scores": {
        "best_test": {"value": 0.8495, "epoch": 91},
        "holdout": {"value": 0.8401, "epoch": 80},
        "last": None,
    },
    "network": {"parameters": 1190},
    "wall_seconds": 12.34,
    "steps_per_second": 1534.2,
    "peak_memory_bytes": 512 * 2**20,
    "focus": {"hidden": {"moved": 0.24, "sigma_first": 0.08, "sigma_last": 0.19}},
}


def lines(record: dict[str, Any]) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    console.print(summary(record, Path("outputs/a")))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return [" ".join(line.split()) for line in text.splitlines() if line.strip(" ─")]


def test_a_whole_record() -> None:
    assert lines(RECORD) == [
        "learning_to_focus seed 0",
        "data synthetic from generated: 1600 train, 400 val, 857 test",
        "model focus_s, 1,190 parameters",
        "accuracy (best_test) 84.95 % at epoch 92 best test epoch, as in the paper",
        "accuracy (holdout) 84.01 % at epoch 81 test at the best validation epoch",
        "optimism +0.94 points best_test - holdout",
        "foci of hidden moved 0.240 on average, sigma 0.080 to 0.190",
        "cost 12.3 s, 1,534 steps/s, 512 MiB",
        "folder outputs/a",
    ]


def test_the_folder_is_not_broken() -> None:
    console = Console(file=io.StringIO(), width=40, soft_wrap=True)
    console.print(summary(RECORD, Path("outputs") / ("a" * 60)))
    assert f"folder   outputs/{'a' * 60}\n" in console.file.getvalue()  # type: ignore[attr-defined]


SMALL = {key: RECORD[key] for key in ("status", "experiment", "seed", "config", "scores")}
SMALL |= {"metric": "accuracy", "scores": {}}
FAILED = {"status": "failed", "error": "Loss [of step 3] is NaN", "metric": None}
ERRORS = {"best_test": {"value": 5.25, "epoch": 0}, "holdout": {"value": 6.5, "epoch": 1}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (FAILED, ["seed 0 failed", "error Loss [of step 3] is NaN", "model focus_s"]),
        (
            {"metric": "mae", "scores": ERRORS},  # no percentages
            [
                "mae (best_test) 5.25 at epoch 1 best test epoch, as in the paper",
                "mae (holdout) 6.5 at epoch 2 test at the best validation epoch",
                "optimism -1.25 best_test - holdout",
            ],
        ),
        ({"wall_seconds": 0.04}, ["cost 0.0 s"]),
        ({"wall_seconds": 99}, ["cost 99.0 s"]),
        ({"wall_seconds": 150}, ["cost 2 min 30 s"]),
        ({"wall_seconds": 7260}, ["cost 2 h 01 min"]),
    ],
)
def test_parts_of_a_record(changes: dict[str, Any], expected: list[str]) -> None:
    text = "\n".join(lines({**SMALL, **changes}))
    assert all(line in text for line in expected)


def test_a_run_begins_with_its_layers_and_ends_with_what_is_next(tmp_path: Path) -> None:
    net = focused_mlp((4, 4), 3, [5], sigma=0.1, mu="spread", topology="image")
    config = {"name": "mine", "model": {"name": "focus_2d"}, "paths": {"output_dir": "out"}}
    console = Console(file=io.StringIO(), width=120)
    for part in opening(config, ["data=mnist", "model.mu=[a b]"], "mnist", net):
        console.print(part)
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/foci.png").touch()
    typed = ["model=focus_2d", "seed=1", "dynamic=static"]  # the dense baseline has no windows
    for part in closing({**RECORD, "config": config}, tmp_path, typed, "run"):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "changed: data=mnist 'model.mu=[a b]'" in text
    assert re.search(r"hidden1 +FocusedLinear +5 +105 +44 +5 in 2-d, mu 0.2 to 0.8, sig", text)
    assert re.search(r"total +133 +59 ", text)
    assert "84.95 %" in text
    assert "figures  " in text
    assert "next     run model=dense seed=1\n         focusing report out\n" in text
