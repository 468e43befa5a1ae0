"""Parts that figures share."""

import io
import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure

from focusing.reports.figures.chart_layout import (
    LINE,
    MOST,
    above,
    apart,
    end_labels,
    head,
    look,
    panels,
    whisker,
)
from focusing.results.stats import Interval


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
    assert apart(wanted, 10.0) == pytest.approx(places)


def test_labels_of_equal_lines_do_not_overlap() -> None:
    axes = Figure().subplots()
    axes.set_ylim(0, 1)
    end_labels(axes, [(1, 0.5, "a", "k"), (1, 0.5, "b", "k")], height=100)
    low, high = sorted(text.xyann[1] for text in axes.texts)
    assert high - low == pytest.approx(LINE)


@pytest.mark.parametrize(("count", "rows", "columns"), [(1, 1, 1), (4, 1, 4), (5, 2, 3), (6, 2, 3)])
def test_panels_fill_rows_of_equal_length(count: int, rows: int, columns: int) -> None:
    figure, grid, beside = panels(count, 1.0)
    assert (len(grid), beside) == (count, columns)
    assert figure.get_size_inches().tolist() == [7.0 if columns > 2 else 3.4, rows]
    assert sum(axes.get_visible() for axes in figure.axes) == count


def test_whiskers_end_at_the_interval() -> None:
    axes = Figure().subplots()
    whisker(axes, 2.0, 5.0, Interval(4.0, 7.0, "t"), color="k", marker="o")
    [bar] = axes.collections
    np.testing.assert_allclose(bar.get_segments(), [[[2, 4], [2, 7]]])
    whisker(axes, 2.0, 5.0, None, color="k", marker="o")
    assert len(axes.collections) == 1


def test_a_focused_network_looks_the_same_in_every_family() -> None:
    assert look("cnn_focus") == look("vgg_focus") == look("focus_s") != look("dense")
    assert look("fasttext_dense") == look("dense")
    assert len({look(name) for name in ("dense", "focus_s", "focus_c", "fixed_s", "mine")}) == 5


def test_panels_grow_with_what_is_said_above_them() -> None:
    few, many = (above("official", [f"optim.option{n}={n}" for n in range(count)])
                 for count in (1, 30))  # fmt: skip
    assert few == ["official", "optim.option0=0"]
    assert (len(many), many[-1]) == (MOST, "… (all in the table)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a layout that does not fit
        figure, grid, _ = panels(2, 1.65, [few, many])
        for axes, lines in zip(grid, (few, many), strict=True):
            head(axes, "MNIST", *lines)
        figure.savefig(io.BytesIO())
    assert figure.get_figheight() == pytest.approx(1.65 + MOST * LINE / 72)
    assert grid[1].get_position().height > 0.3
