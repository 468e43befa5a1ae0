"""Results and failures of an analysis in the record."""

import logging
import math
from pathlib import Path
from typing import Any

import pytest

from focusing.callbacks.analysis import Analysis
from tests.unit.training.fitting import measured, same_weights, trained


class Finding(Analysis):
    name = "finding"

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    def analyse(self, module: Any, folder: Path) -> dict[str, Any]:
        if isinstance(self.value, Exception):
            raise self.value
        return {"value": self.value, "folder": str(folder), "tests": len(module.batches["test"])}


def test_the_result_is_there_only_after_training(tmp_path: Path) -> None:
    callback = Finding(3)
    assert callback.measurements({}) == {}
    trained(tmp_path, callbacks=[callback], epochs=1)
    expected = {"value": 3, "folder": str(tmp_path), "tests": 1}
    assert callback.measurements({}) == {"measured": {"finding": expected}}


@pytest.mark.parametrize("value", [KeyError("lost"), math.nan, object()])
def test_a_failure_causes_a_warning_and_is_recorded(
    tmp_path: Path, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    callback = Finding(value)
    with caplog.at_level(logging.WARNING):
        module = trained(tmp_path / "a", callbacks=[callback], epochs=1)
    assert list(measured(callback, "finding")) == ["error"]
    assert caplog.text.count("callbacks.finding failed, the run goes on without it") == 1
    assert same_weights(module, trained(tmp_path / "b", epochs=1))


def test_a_run_that_resumes_after_its_last_epoch_is_analysed(tmp_path: Path) -> None:
    trained(tmp_path, epochs=2)
    callback = Finding(1)
    trained(tmp_path, callbacks=[callback], epochs=2)
    assert measured(callback, "finding")["value"] == 1
