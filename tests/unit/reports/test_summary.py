"""The table at the end of a run."""

import io
from typing import Any

import pytest
from rich.console import Console

from focusing.reports.terminal import summary

RECORD: dict[str, Any] = {
    "status": "done",
    "experiment": "learning_to_focus",
    "seed": 0,
    "config": {"model": {"name": "focus_s"}},
    "data": {"name": "synthetic", "source": "generated", "train": 1600, "val": 400, "test": 857},
    "metric": "accuracy",
    "scores": {
        "paper": {"value": 0.8495, "epoch": 91},
        "holdout": {"value": 0.8401, "epoch": 80},
        "last": None,
    },
    "network": {"parameters": 1190},
    "wall_seconds": 12.34,
    "steps_per_second": 1534.2,
    "peak_memory_bytes": 512 * 2**20,
    "focus": {"hidden": {"moved": 0.24, "sigma_first": 0.08, "sigma_last": 0.19}},
}


def lines(record: dict[str, Any], folder: str | None = None) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    console.print(summary(record, folder))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return [" ".join(line.split()) for line in text.splitlines() if line.strip(" ─")]


def test_a_whole_record() -> None:
    assert lines(RECORD, "outputs/a") == [
        "learning_to_focus seed 0",
        "data synthetic from generated: 1600 train, 400 val, 857 test",
        "model focus_s, 1,190 parameters",
        "accuracy (paper) 84.95 % at epoch 92 best test epoch, as in the paper",
        "accuracy (holdout) 84.01 % at epoch 81 test at the best validation epoch",
        "optimism +0.94 points paper - holdout",
        "foci of hidden moved 0.240 on average, sigma 0.080 to 0.190",
        "cost 12.3 s, 1,534 steps/s, 512 MiB",
        "folder outputs/a",
    ]


def test_an_empty_record() -> None:
    assert lines({}) == ["run done"]


def test_a_failed_run_says_why_as_written() -> None:
    record = {"status": "failed", "experiment": "e", "seed": 1, "error": "Loss [of step 3] is NaN"}
    assert lines(record) == ["e seed 1 failed", "error Loss [of step 3] is NaN"]


def test_regression_scores_are_no_percentages() -> None:
    scores = {"paper": {"value": 5.25}, "holdout": {"value": 6.5}}
    assert lines({"metric": "mse", "scores": scores})[1:] == [
        "mse (paper) 5.25 best test epoch, as in the paper",
        "mse (holdout) 6.5 test at the best validation epoch",
        "optimism -1.25 paper - holdout",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (99, "99.0 s"), (150, "2 min 30 s"), (7260, "2 h 01 min")],
)
def test_times(seconds: float, text: str) -> None:
    assert lines({"wall_seconds": seconds})[1] == f"cost {text}"


def test_epochs_count_from_one() -> None:
    assert "at epoch 1 " in lines({"scores": {"last": {"value": 0.5, "epoch": 0}}})[1]
