"""Trials of a search report their scores, and stop when they are pruned."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("optuna")

import optuna

from focusing.callbacks import SearchTrial
from focusing.errors import PrunedError
from focusing.results.store import open_study

LIMITS = {"after_trials": 1, "after_epochs": 0}


def report(callback: SearchTrial, values: list[float], split: str = "test") -> None:
    """Call the hooks of a run with these scores."""
    module: Any = SimpleNamespace(series={})
    callback.on_train_start(None, module)  # type: ignore[arg-type]
    for epoch in range(len(values) + 1):
        module.series = {f"{split}/acc": values[:epoch]}
        callback.on_train_epoch_start(None, module)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["notes.txt", "missing.journal", "."])
def test_other_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("precious")
    with pytest.raises(ValueError, match="is not the study of a search"):
        SearchTrial(str(tmp_path / name), 0, **LIMITS)


def test_a_trial_reports_and_is_pruned(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    study = open_study(path, direction="maximize", **LIMITS)
    first, second = study.ask(), study.ask()
    report(SearchTrial(str(path), first.number, **LIMITS), [0.5, 0.6, 0.7])
    study.tell(first, 0.7)
    report(SearchTrial(str(path), second.number, **LIMITS), [0.55], split="val")
    with pytest.raises(PrunedError, match="after epoch 1"):  # resumed, and fell behind
        report(SearchTrial(str(path), second.number, **LIMITS), [0.55, 0.58, 0.9], split="val")
    [one, two] = open_study(path, **LIMITS).trials
    assert one.intermediate_values == {0: 0.5, 1: 0.6, 2: 0.7}
    assert two.intermediate_values == {0: 0.55, 1: 0.58}
    assert two.state == optuna.trial.TrialState.RUNNING  # the search tells what became of it
