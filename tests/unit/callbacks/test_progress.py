"""The progress bar in a terminal, and its silence elsewhere."""

import io
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from focusing.callbacks import Progress
from focusing.callbacks.progress import describe
from focusing.training import trainer
from tests.unit.training.fitting import Raise, trained


def shown(folder: Path, terminal: bool = True, **options: Any) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    shutil.rmtree(folder)  # do not resume
    trained(folder, callbacks=[Progress(console=console, **options)], epochs=2)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal outside CI, and a chance to draw after every batch."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(trainer, "MAX_BUNDLE", 1)


def test_the_bar_shows_loss_accuracy_and_sigma(tmp_path: Path) -> None:
    text = shown(tmp_path)
    last = text.split("epoch")[-1]
    assert "2/2" in last
    assert "loss 0." in last
    assert " %  sigma" in last
    assert "sigma " in last


def test_refreshes_depend_on_time_not_on_steps(tmp_path: Path) -> None:
    assert shown(tmp_path, interval=60.0).count("epoch") <= 6
    assert shown(tmp_path, interval=0.0).count("epoch") > 10


def test_silent_without_a_terminal_and_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(tmp_path, terminal=False) == ""
    assert shown(tmp_path, enabled=False) == ""
    monkeypatch.setenv("CI", "true")
    assert shown(tmp_path) == ""
    assert shown(tmp_path, enabled=True) != ""


def test_silent_in_a_multirun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    for mode, quiet in ((RunMode.MULTIRUN, True), (RunMode.RUN, False)):
        config = OmegaConf.create({"hydra": {"mode": mode}})
        monkeypatch.setattr(HydraConfig.instance(), "cfg", config)
        assert (shown(tmp_path) == "") == quiet
    monkeypatch.setitem(sys.modules, "hydra.core.hydra_config", None)  # type: ignore[arg-type]
    assert shown(tmp_path) != ""


def test_cluster_jobs_print_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seconds, least in (("1e-9", 5), ("60", 1)):
        monkeypatch.setenv("FOCUSING_LOG_EPOCHS", seconds)
        assert shown(tmp_path, terminal=False) == ""
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) >= least
        assert lines[-1].startswith("/".join(tmp_path.parts[-3:]) + "  epoch 2/2  loss 0.")


def test_the_terminal_is_restored_after_an_error(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    bar = Progress(console=console)
    with pytest.raises(RuntimeError, match="broken"):
        trained(tmp_path, callbacks=[bar, Raise(RuntimeError("broken"), epoch=1)])
    assert console.file.getvalue().rstrip().endswith("\x1b[?25h")  # type: ignore[attr-defined]
    assert bar._bar is None


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ({}, ""),
        ({"train/loss": 0.5, "test/acc": torch.tensor(0.75)}, "loss 0.5000  test acc 75.00 %"),
        ({"train/acc": 0.5, "val/acc": 0.25}, "val acc 25.00 %"),
        ({"test/mae": 2.0, "focus/sigma_mean": 0.1}, "test mae 2.0000  sigma 0.100"),
    ],
)
def test_describe(metrics: dict[str, Any], text: str) -> None:
    assert describe(metrics) == text
