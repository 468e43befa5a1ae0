"""Parts that figures share."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from focusing.reports.figures.plotting import (
    LINE_HEIGHT,
    MAX_HEADER_LINES,
    MODEL_STYLES,
    Dot,
    draw_dots,
    header_lines,
    model_style,
    panel_title,
    small_multiples,
    spaced_ticks,
    spread_apart,
)
from focusing.reports.names import MODELS, class_name, label_words, option_words


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


@pytest.mark.parametrize(("count", "rows", "columns"), [(1, 1, 1), (4, 1, 4), (5, 2, 3), (6, 2, 3)])
def test_panels_fill_rows_of_equal_length(count: int, rows: int, columns: int) -> None:
    panels = small_multiples(count, 1.0)
    assert (len(panels.axes), panels.columns) == (count, columns)
    assert panels.figure.get_size_inches().tolist() == [7.0 if columns > 2 else 3.4, rows]
    assert sum(axes.get_visible() for axes in panels.figure.axes) == count
    panels.label("x", "y")
    assert sum(axes.get_xlabel() == "x" for axes in panels.axes) == columns
    assert sum(axes.get_ylabel() == "y" for axes in panels.axes) == rows


def test_whiskers_end_at_the_interval_and_few_runs_have_none() -> None:
    axes = Figure().subplots()
    draw_dots(axes, [Dot(1, 5.0, ("k", "o"), 4.0, 7.0, runs=(4.5, 5.5))], ["a", "b"])
    [bar] = axes.collections
    np.testing.assert_allclose(bar.get_segments(), [[[4, 1], [7, 1]]])
    assert [list(line.get_xdata()) for line in axes.lines][:2] == [[4.5, 5.5], [5.0]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    axes = Figure().subplots()
    draw_dots(axes, [Dot(0, 5.0, ("k", "o"), runs=(4.5, 5.5), note="n=2")])
    assert not axes.collections
    assert list(axes.lines[0].get_xdata()) == [4.5, 5.5]  # the runs, and not their mean
    assert [text.get_text() for text in axes.texts] == ["n=2"]


def test_the_bar_of_the_paper_is_on_no_note_and_in_its_own_half_of_the_row() -> None:
    axes = Figure().subplots()
    dots = [Dot(0, 5.0, ("k", "o"), 4.0, 6.0, published=8.0, shift=-0.18, note="5")]
    draw_dots(axes, dots)
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[8, -0.36], [8, 0]], atol=1e-12)
    assert [text.xy for text in axes.texts] == [(8.0, -0.18)]


def test_no_two_models_look_alike() -> None:
    assert MODEL_STYLES.keys() == MODELS.keys()
    assert len({colour for colour, _ in MODEL_STYLES.values()}) == len(MODELS)
    assert model_style("mine") not in MODEL_STYLES.values()


@pytest.mark.parametrize(
    ("values", "labelled"),
    [
        ([64, 128, 256, 512, 800, 1024], [64, 256, 1024]),
        ([1e-10, 1e-3, 1e-1], [1e-10, 1e-1]),
        ([1, 10], [1, 10]),
    ],
)
def test_ticks_keep_apart(values: list[float], labelled: list[float]) -> None:
    assert spaced_ticks(values) == labelled


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("trainer.max_epochs=60", "60 epochs"),
        ("optim.drop_last=false", "last batch kept"),
        ("+optim.own_rate=3", "own rate 3"),
        ("data.seed=2", "data seed 2"),
        ("data.seed=varied", "new data in each run"),
        ("gaussian", "gaussian"),
        ("Dense, max_epochs=3", "Dense, 3 epochs"),
    ],
)
def test_options_in_words(option: str, words: str) -> None:
    assert label_words(option) == words
    assert option_words(option) == words or "," in option


def test_classes_have_names() -> None:
    assert [class_name(data, 3) for data in ("cifar10", "fashion", "mnist")] == [
        "cat",
        "dress",
        "3",
    ]


def test_panels_grow_with_their_headers() -> None:
    few, many = (
        header_lines(["official", *(f"option {n}" for n in range(count))]) for count in (1, 30)
    )
    assert few == ["official, option\xa00"]
    assert header_lines(["x" * 20, "", "60 epochs"]) == ["x" * 20 + ",", "60\xa0epochs"]
    assert (len(many), many[-1]) == (MAX_HEADER_LINES, "… (all in the table)")
    panels = small_multiples(2, 1.65, [few, many])
    for axes, lines in zip(panels.axes, (few, many), strict=True):
        panel_title(axes, "MNIST", *lines)
    panels.figure.draw_without_rendering()  # a layout that does not fit is a warning, thus an error
    height = panels.figure.get_figheight()
    assert height == pytest.approx(1.65 + MAX_HEADER_LINES * LINE_HEIGHT / 72)
    assert panels.axes[1].get_position().height > 0.3
