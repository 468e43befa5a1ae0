"""Figures of every kind of run, from its record and trajectory alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from focusing import FocusedLinear
from focusing.callbacks.focus_trajectory import Trajectory
from focusing.drawing import LayerFoci, edges, foci_figure, save_figure
from focusing.reports.foci import informative_columns, read_foci
from focusing.reports.run_figures import (
    draw_run,
    layer_figures,
    record_figures,
    series_figure,
    trajectory_figure,
)
from focusing.results.store import FIGURES_COMPLETE, write_record
from tests.unit.reports.records import SMALLEST

SERIES = {"train/loss": [1.0, 0.5, 0.4], "test/loss": [1.1, 0.7, 0.6], "test/acc": [0.5, 0.7, 0.8]}
SCATTERED = torch.rand(7, 2, generator=torch.Generator().manual_seed(0))
LAYER_FIGURES = {"foci", "trajectory", "weights"}


def make_run(folder: Path, layer: FocusedLinear | None, **record: Any) -> Path:
    """What a short run leaves, with foci that walk at random."""
    folder.mkdir(exist_ok=True)
    generator, trajectory = torch.Generator().manual_seed(0), Trajectory()
    if layer is not None:
        for epoch in range(4):
            trajectory.record(epoch, {"hidden": layer})
            with torch.no_grad():
                layer.mu += 0.1 * torch.randn(layer.mu.shape, generator=generator)
                layer.sigma *= 1.2
                layer.constrain_()
        trajectory.save(folder / "focus.npz", {"hidden": layer})
    write_record(folder, {**SMALLEST, "series": SERIES, **record})
    return folder


def figure_names(paths: list[Path]) -> set[str]:
    return {path.stem.removesuffix("_hidden") for path in paths}


@pytest.mark.parametrize(
    ("options", "figures"),
    [
        ({"in_features": 40, "out_features": 1}, LAYER_FIGURES),
        ({"in_features": 1, "out_features": 2}, LAYER_FIGURES),
        ({"in_features": 40, "out_features": 300}, LAYER_FIGURES),
        ({"in_features": 30, "out_features": 4, "topology": ((15,), 2)}, LAYER_FIGURES),
        ({"in_features": 40, "out_features": 4, "focus": "gaussian_derivative"}, LAYER_FIGURES),
        ({"in_features": 20, "out_features": 3, "topology": (4, 5)}, LAYER_FIGURES),
        ({"in_features": 48, "out_features": 90, "topology": (4, 4, 3)}, LAYER_FIGURES),
        ({"in_features": 27, "out_features": 5, "topology": (3, 3, 3)}, {"foci", "trajectory"}),
        ({"in_features": 7, "out_features": 5, "topology": SCATTERED}, {"foci", "trajectory"}),
    ],
)  # fmt: skip
def test_every_kind_of_layer(tmp_path: Path, options: dict[str, Any], figures: set[str]) -> None:
    torch.manual_seed(0)
    [foci] = read_foci(make_run(tmp_path, FocusedLinear(sigma=0.1, **options)), {})
    drawn = layer_figures(foci)
    assert drawn.keys() == figures
    for figure in drawn.values():
        figure.draw_without_rendering()  # a layout that does not fit is a warning, thus an error
        assert figure.get_figwidth() == 3.4


def test_files_of_a_run_are_complete_and_reproducible(tmp_path: Path) -> None:
    def draw() -> dict[Path, bytes]:
        torch.manual_seed(0)
        run = make_run(tmp_path, FocusedLinear(40, 4, sigma=0.1))
        return {path: path.read_bytes() for path in draw_run(run)}

    with mpl.rc_context({"font.size": 17, "lines.linewidth": 5}):
        settings = dict(mpl.rcParams)
        files = draw()
        assert dict(mpl.rcParams) == settings  # the user's own
    assert figure_names([*files]) == LAYER_FIGURES | {"losses"}
    assert {*files, tmp_path / FIGURES_COMPLETE} == {*(tmp_path / "figures").iterdir()}
    for path in files:
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert image.width == 680  # a column of 3.4 inches at 200 dpi
        else:
            ElementTree.parse(path)  # noqa: S314 - our own file
    assert draw() == files


def test_runs_without_foci(tmp_path: Path) -> None:
    assert figure_names(draw_run(make_run(tmp_path / "dense", None))) == {"losses"}
    failed = make_run(tmp_path / "failed", None, status="failed", series={}, scores={})
    assert draw_run(failed) == []


def test_a_run_that_diverged_is_drawn_until_then(tmp_path: Path) -> None:
    make_run(tmp_path, FocusedLinear(40, 4))
    with np.load(tmp_path / "focus.npz") as stored:
        arrays = dict(stored)
    arrays["hidden/mu"][2:] = np.nan
    np.savez(tmp_path / "focus.npz", **arrays)
    [foci] = read_foci(tmp_path, {})
    assert foci.epochs.tolist() == [0, 1]
    assert layer_figures(foci).keys() == LAYER_FIGURES


def test_few_colours_where_that_is_not_seen(tmp_path: Path) -> None:
    lines, picture = Figure((2, 2)), Figure((2, 2))
    lines.subplots().plot([0, 1])
    picture.subplots().imshow(np.random.default_rng(0).random((40, 40, 3)))
    for name, figure, mode in (("lines", lines, "P"), ("picture", picture, "RGB")):
        path = save_figure(figure, tmp_path, name)[0]
        with Image.open(path) as image:
            assert image.mode == mode
            assert image.info["dpi"] == pytest.approx((200, 200), rel=0.01)


def walk(layer: FocusedLinear, informative: Sequence[int] | None = None) -> LayerFoci:
    """Foci that move by 0.1 and double their apertures."""
    mu, sigma = (values.detach().numpy() for values in (layer.mu, layer.sigma))
    foci = np.stack([mu, mu + 0.1]), np.stack([sigma, sigma * 2])
    names = layer.focus, layer.normalizer
    return LayerFoci("h", np.arange(2), layer.tau.numpy(), *foci, *names, informative=informative)


def test_foci_are_those_of_the_layer() -> None:
    layer = FocusedLinear(40, 3, sigma=0.1, dtype=torch.float64)
    foci = walk(layer)
    phi = foci.phi(0)
    np.testing.assert_allclose(phi, layer.phi().detach(), atol=1e-12)
    axes = foci_figure(foci).axes[0]
    assert [line.get_linestyle() for line in axes.lines] == [":"] * 3 + ["-"] * 3
    x, y = axes.lines[0].get_data()
    assert len(x) == 400  # a smooth curve through phi, not a polygon
    np.testing.assert_allclose(np.interp(foci.tau[:, 0], x, y), phi[0], atol=1e-3)
    np.testing.assert_allclose(axes.xaxis.get_minor_locator().locs, foci.tau[:, 0])


@pytest.mark.parametrize(("informative", "labels"), [((20, 40), 1), ((10, 30), 2), ((0, 40), 0)])
def test_noise_is_shaded(informative: tuple[int, int], labels: int) -> None:
    foci = walk(FocusedLinear(40, 4), informative)
    for figure in (foci_figure(foci), trajectory_figure(foci)):
        assert [text.get_text() for text in figure.axes[0].texts] == ["noise"] * labels
        assert len(figure.axes[0].patches) == labels
    many = foci_figure(walk(FocusedLinear(40, 20), informative)).axes[0]  # a heat map has lines
    assert (len(many.texts), len(many.lines)) == (0, 2)


def test_noise_is_shaded_only_where_the_inputs_are_the_columns() -> None:
    assert edges((20, 40), np.linspace(0, 1, 40)) == (19.5 / 39, 39.5 / 39)
    assert edges((20, 40), np.arange(40) / 40) == pytest.approx((19.5 / 40, 39.5 / 40))
    tau, region = np.zeros((40, 1)), [20, 40]
    assert informative_columns({"inputs": 40, "informative": region}, tau) == region
    assert informative_columns({"inputs": 99, "informative": region}, tau) is None
    assert informative_columns({"inputs": 40, "informative": region}, np.zeros((40, 2))) is None


def test_the_start_is_a_square_and_the_end_a_triangle() -> None:
    lines = trajectory_figure(walk(FocusedLinear(40, 2, mu=0.5, sigma=0.1))).axes[0].lines
    start, end = ([line for line in lines if line.get_marker() == mark] for mark in "s^")
    assert [line.get_ydata()[0] for line in start] == pytest.approx([0.1, 0.1])
    assert [line.get_xdata()[0] for line in end] == pytest.approx([0.6, 0.6])


@pytest.mark.parametrize(
    ("series", "labels"),
    [
        ({"train/loss": [1.0, 0.5]}, ["loss"]),
        ({"train/loss": [1.0], "test/acc": [0.5]}, ["loss", "accuracy"]),
        ({"train/loss": [1.0, 2.0], "val/acc": [None, 0.5]}, ["loss", "accuracy"]),
        ({"train/loss": [1.0], "test/mae": [2.0]}, ["loss", "mean absolute error"]),
    ],
)
def test_series(series: dict[str, Any], labels: list[str]) -> None:
    figure = series_figure(series, {})
    assert figure is not None
    assert [axes.get_ylabel() for axes in figure.axes] == labels
    assert len(figure.axes[0].lines[0].get_xdata()) == len(series["train/loss"])


def test_the_scores_are_marked() -> None:
    scores = {"best_test": {"value": 0.8, "epoch": 2}, "holdout": {"value": 0.7, "epoch": 1}}
    figure = series_figure(SERIES, {**scores, "last": None})
    assert figure is not None
    assert [text.get_text() for text in figure.axes[1].texts] == ["best_test", "holdout"]
    assert [line.get_xdata()[0] for line in figure.axes[1].lines[-2:]] == [3, 2]


@pytest.mark.parametrize("classes", [2, 30])
def test_the_confusion_matrix_shows_shares_of_the_true_class(classes: int) -> None:
    counts = np.diag(np.full(classes, 3))
    counts[0, 1], counts[1] = 1, 0  # one of four taken for class 1, which has no samples
    figure = record_figures({"test_metrics": {"confusion_matrix": counts.tolist()}})["confusion"]
    axes = figure.axes[0]
    shares = np.asarray(axes.images[0].get_array())
    assert shares[0, :2].tolist() == [0.75, 0.25]
    assert shares[1].tolist() == [0] * classes
    assert axes.images[0].get_clim() == (0, 1)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted class", "true class")
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    few = {(0, 0): "3", (1, 0): "1", (0, 1): "0", (1, 1): "0"}  # column, row
    assert cells == (few if classes == 2 else {})  # of many the numbers would not fit
    assert "confusion" not in record_figures({"test_metrics": {"mae": 1.0}})


@pytest.mark.parametrize(("classes", "count"), [(10, 1135), (10, 99), (10, 12500), (2, 600)])
def test_counts_of_the_confusion_matrix_fit_their_cells(classes: int, count: int) -> None:
    counts = np.full((classes, classes), count).tolist()
    figure = record_figures({"test_metrics": {"confusion_matrix": counts}})["confusion"]
    figure.draw_without_rendering()
    axes = figure.axes[0]
    cell = axes.get_window_extent().width / classes
    assert axes.texts
    assert max(text.get_window_extent().width for text in axes.texts) < cell


def test_png_has_a_palette_where_that_is_not_visible(tmp_path: Path) -> None:
    lines, gradient = Figure(), Figure()
    lines.add_subplot().plot([0, 1, 0])
    ramp = np.linspace(0, 1, 64)
    colours = np.stack([*np.meshgrid(ramp, ramp), np.full((64, 64), 0.5)], axis=2)
    gradient.add_axes((0, 0, 1, 1)).imshow(colours, interpolation="bilinear", aspect="auto")
    for figure, mode in ((lines, "P"), (gradient, "RGB")):
        [path] = save_figure(figure, tmp_path, mode, [".png"])
        with Image.open(path) as image:
            assert image.mode == mode
