"""WindowTrajectory: its file, record, figures and warnings."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from focusing.callbacks import WindowTrajectory, window_trajectory
from focusing.compose import compose_config
from focusing.reports.page.run_page import windows_of
from focusing.reports.run_figures import draw_run
from focusing.results.store import read_record
from focusing.run import train
from focusing.window_drawing import frame_indices
from tests.unit.models.test_dynamic_network import DENSE, build

SMALL = [
    "data=mnist",
    "data.fake=true",
    "data.limit_train=64",
    "data.limit_test=40",
    "optim.batch_size=32",
    "trainer.max_epochs=2",
    "model.hidden=[8,8]",
    "model.dynamic.grid=[6,6]",
    "model.dynamic.pool=2",
    "figures=false",
]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("windows")
    train(compose_config("model=dynamic_2d", *SMALL, f"paths.output_dir={folder}"))
    [run] = folder.glob("*/*/seed=0")
    return run


def test_content_of_the_file(run_dir: Path) -> None:
    with np.load(run_dir / "windows.npz") as arrays:
        assert arrays["images"].shape == (24, 28, 28, 1)
        assert arrays["images"].dtype == np.uint8
        assert arrays["epoch"].tolist() == [0, 1, 2]
        assert arrays["centre"].shape == arrays["extent"].shape == (3, 24, 1, 2)
        assert ((arrays["centre"] >= 0) & (arrays["centre"] <= 1)).all()
        assert np.allclose(arrays["extent"][0], 0.55)


def test_content_of_the_record(run_dir: Path) -> None:
    measured = (read_record(run_dir) or {})["measured"]["windows"]
    assert measured["spread"] > 0
    assert measured["extent_first"] == pytest.approx(0.55)


def test_figure_and_animation(run_dir: Path) -> None:
    names = {path.name for path in draw_run(run_dir)}
    assert names >= {"windows.png", "windows.svg", "windows.gif"}
    assert (run_dir / "figures" / "windows.gif").read_bytes().startswith(b"GIF8")


def test_the_page_shows_a_sample_and_its_windows(run_dir: Path) -> None:
    view = windows_of(run_dir)
    assert view is not None
    assert view["picture"].startswith("data:image/png;base64,")
    assert (view["size"], view["epochs"]) == ([28, 28], [0, 1, 2])
    with np.load(run_dir / "windows.npz") as arrays:
        assert np.shape(view["boxes"]) == (3, 24, 1, 4)
        corner = arrays["centre"] - arrays["extent"] / 2
        np.testing.assert_allclose(np.array(view["boxes"])[..., :2], corner, atol=6e-4)


def test_the_figure_is_logged(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with np.load(run_dir / "windows.npz") as stored:
        arrays = dict(stored)
    logged: list[tuple[Any, ...]] = []
    monkeypatch.setattr(window_trajectory, "picture_loggers", lambda trainer: ["one"])
    monkeypatch.setattr(window_trajectory, "log_picture", lambda *words: logged.append(words))
    trainer: Any = SimpleNamespace(current_epoch=2)
    WindowTrajectory()._log_figure(trainer, arrays)
    assert [words[1:4] for words in logged] == [(2, "figure", "windows")]
    flat = {**arrays, "centre": arrays["centre"][..., :1]}  # on a line: nothing to draw
    WindowTrajectory()._log_figure(trainer, flat)
    assert len(logged) == 1


def test_a_damaged_file_only_costs_its_figure(
    run_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = run_dir / "windows.npz"
    content = path.read_bytes()
    try:
        path.write_bytes(content[:100])
        names = {drawn.name for drawn in draw_run(run_dir)}
        assert "losses.png" in names
        assert "windows.png" not in names
        assert "Its windows are not drawn" in caplog.text
        assert windows_of(run_dir) is None
    finally:
        path.write_bytes(content)


class Module(torch.nn.Module):
    """The parts of a module that the callback needs."""

    def __init__(self, losses: list[float]) -> None:
        super().__init__()
        self.net, self.series = build(DENSE), {"train/loss": losses}


def recorded(centres: torch.Tensor) -> WindowTrajectory:
    callback = WindowTrajectory()
    windows = [torch.stack([centres, torch.full_like(centres, 0.5)])] * 6
    callback.load_state_dict({"epochs": list(range(6)), "windows": windows})
    return callback


FALLING = [1.4, 0.9, 0.6, 0.4, 0.3, 0.2]
COINCIDE = "windows of all samples coincide"


@pytest.mark.parametrize(
    ("spread", "losses", "warning"),
    [
        ([[0, 0], [0, 0]], FALLING, f"{COINCIDE}: dynamic"),
        ([[1, 1], [0, 0]], FALLING, f"{COINCIDE} (window 2 along axis 0, window 2 along axis 1)"),
        ([[1, 1], [1, 0]], FALLING, f"{COINCIDE} (window 2 along axis 1)"),
        ([[1, 1], [1, 1]], [1.5, 1.38], "loss is at chance"),
        ([[1, 1], [1, 1]], [*FALLING, *[1.39] * 5], "loss is at chance"),  # it learnt, then fell
        ([[1, 1], [1, 1]], [*[1.39] * 5, *FALLING], ""),
    ],
)
def test_warnings(
    spread: list[list[float]], losses: list[float], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    callback = recorded(torch.tensor(spread) * torch.rand(24, 2, 2))
    with caplog.at_level(logging.WARNING):
        callback._warn(Module(losses))
    assert warning in caplog.text
    assert bool(caplog.text) == bool(warning)


@pytest.mark.parametrize(
    ("dynamic", "advice"),
    [
        ({}, "lr_dynamic, or model.dynamic.start=blob"),
        ({"kind": "stn"}, "lr_dynamic."),
        ({"centre": "static"}, ""),  # its windows are meant to coincide
    ],
    ids=["saliency", "stn", "static"],
)
def test_advice_depends_on_the_windows(
    dynamic: dict[str, Any], advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    callback = recorded(torch.full((24, 1, 2), 0.5))
    callback._focus = build(DENSE, **dynamic)
    callback._warn(Module(FALLING))
    assert advice in caplog.text
    assert bool(caplog.text) == bool(advice)


def test_windows_need_not_move_along_all_axes(caplog: pytest.LogCaptureFixture) -> None:
    callback = recorded(torch.tensor([0.0, 1.0]) * torch.rand(24, 1, 2))
    callback._focus = build(DENSE, axes=[1], grid=[8])
    callback._warn(Module(FALLING))
    assert not caplog.text


def test_a_warning_comes_once_during_training_and_again_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    callback, module = WindowTrajectory(), Module([])
    callback._focus, callback._inputs = module.net, torch.zeros(3, 20, 20, 1)  # nothing to see
    counts = []
    for epoch in range(7):
        trainer: Any = SimpleNamespace(
            current_epoch=epoch, is_global_zero=True, default_root_dir=tmp_path, loggers=[]
        )
        callback.on_train_epoch_end(trainer, module)  # type: ignore[arg-type]
        counts.append(caplog.text.count(COINCIDE))
    assert counts == [0, 0, 0, 0, 1, 1, 1]
    for _ in range(2):
        callback.on_fit_end(trainer, module)  # type: ignore[arg-type]
        assert caplog.text.count(COINCIDE) == 2


@pytest.mark.parametrize(
    ("early", "epochs"), [(0, []), (2, [0.4, 0.8]), (99, [0.1 * batch for batch in range(1, 10)])]
)
def test_the_first_epoch_is_recorded_several_times(early: int, epochs: list[float]) -> None:
    callback, module = WindowTrajectory(early=early), Module([])
    callback._focus, callback._inputs = module.net, torch.rand(3, 20, 20, 1)
    for epoch in (0, 1):
        trainer: Any = SimpleNamespace(current_epoch=epoch, num_training_batches=10)
        for batch in range(10):
            callback.on_train_batch_end(trainer, module, None, None, batch)  # type: ignore[arg-type]
    assert callback.state_dict()["epochs"] == pytest.approx(epochs)


def test_an_animation_has_all_early_records_and_some_later_ones() -> None:
    assert frame_indices(5) == [0, 1, 2, 3, 4]
    times = frame_indices(112)
    assert len(times) == 36
    assert times[:13] == list(range(13))
    assert times[-1] == 111
