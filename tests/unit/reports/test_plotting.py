"""Parts that figures share."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from focusing.reports.figures.plotting import (
    LINE_HEIGHT,
    MAX_HEADER_LINES,
    draw_point,
    end_labels,
    header_lines,
    model_style,
    panel_title,
    small_multiples,
    spread_apart,
)


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ([], []),
        ([3.0], [3.0]),
        ([0.0, 20.0], [0.0, 20.0]),
        ([10.0, 10.0], [5.0, 15.0]),  # both give way
        ([0.0, 8.0, 9.0], [-13 / 3, 17 / 3, 47 / 3]),  # a new neighbour touches the next one
        ([0.0, 10.0, 20.0], [0.0, 10.0, 20.0]),  # touching is not overlapping
    ],
)
def test_labels_move_apart_as_little_as_needed(wanted: list[float], places: list[float]) -> None:
    assert spread_apart(wanted, 10.0) == pytest.approx(places)


def test_labels_of_equal_lines_do_not_overlap() -> None:
    axes = Figure().subplots()
    axes.set_ylim(0, 1)
    end_labels(axes, [(1, 0.5, "a", "k"), (1, 0.5, "b", "k")], height=100)
    low, high = sorted(text.xyann[1] for text in axes.texts)
    assert high - low == pytest.approx(LINE_HEIGHT)


@pytest.mark.parametrize(("count", "rows", "columns"), [(1, 1, 1), (4, 1, 4), (5, 2, 3), (6, 2, 3)])
def test_panels_fill_rows_of_equal_length(count: int, rows: int, columns: int) -> None:
    panels = small_multiples(count, 1.0)
    assert (len(panels.axes), panels.columns) == (count, columns)
    assert panels.figure.get_size_inches().tolist() == [7.0 if columns > 2 else 3.4, rows]
    assert sum(axes.get_visible() for axes in panels.figure.axes) == count
    panels.label("x", "y")
    assert sum(axes.get_xlabel() == "x" for axes in panels.axes) == columns
    assert sum(axes.get_ylabel() == "y" for axes in panels.axes) == rows


def test_whiskers_end_at_the_interval() -> None:
    axes = Figure().subplots()
    draw_point(axes, 2.0, 5.0, 4.0, 7.0, style=("k", "o"))
    [bar] = axes.collections
    np.testing.assert_allclose(bar.get_segments(), [[[2, 4], [2, 7]]])
    draw_point(axes, 2.0, 5.0, None, None, style=("k", "o"))
    assert len(axes.collections) == 1


def test_a_focused_network_looks_the_same_in_every_family() -> None:
    assert model_style("cnn_focus") == model_style("vgg_focus") == model_style("focus_s")
    assert model_style("fasttext_dense") == model_style("dense")
    models = ("dense", "focus_s", "focus_c", "fixed_s", "mine")
    assert len({model_style(name) for name in models}) == 5


def test_panels_grow_with_their_headers() -> None:
    few, many = (
        header_lines("official", [f"optim.option{n}={n}" for n in range(count)])
        for count in (1, 30)
    )
    assert few == ["official", "optim.option0=0"]
    assert (len(many), many[-1]) == (MAX_HEADER_LINES, "… (all in the table)")
    panels = small_multiples(2, 1.65, [few, many])
    for axes, lines in zip(panels.axes, (few, many), strict=True):
        panel_title(axes, "MNIST", *lines)
    panels.figure.draw_without_rendering()  # a layout that does not fit is a warning, thus an error
    height = panels.figure.get_figheight()
    assert height == pytest.approx(1.65 + MAX_HEADER_LINES * LINE_HEIGHT / 72)
    assert panels.axes[1].get_position().height > 0.3
