"""The forest plot: the paper's differences beside ours, of the runs that are nearest to it."""

from pathlib import Path
from typing import Any

import pytest

from focusing.reports.figures.comparison_figures import forest_charts
from focusing.results.collect import collect
from tests.unit.reports.records import add_run, charts_of


def add_pair(folder: Path, data: str, gap: float, **more: Any) -> None:
    for seed in (0, 17, 34):
        for model, score in (("dense", 0.9), ("focus_s", 0.9 + gap)):
            add_run(folder, "table2_simple", data, model, seed, [score + seed / 1e5], **more)


def points(folder: Path, row: str) -> dict[str, Any]:
    [chart] = charts_of(forest_charts, collect([folder]))
    return {point["series"]: point for point in chart.rows if point["row"] == row}


def test_the_longest_runs_stand_beside_the_paper(tmp_path: Path) -> None:
    add_pair(tmp_path, "fashion", 0.01)
    add_pair(tmp_path, "fashion", 0.05, options={"trainer.max_epochs": 60})
    add_pair(tmp_path, "fashion", 0.02, variant="author")
    series = points(tmp_path, "Fashion, Focus-s")
    assert series["published"]["difference"] == pytest.approx(0.9)
    assert series["published"]["low"] == pytest.approx(
        0.9 - 2.306 * (0.3**2 + 0.07**2) ** 0.5 / 2, 1e-4
    )
    assert series["text"]["difference"] == pytest.approx(1)
    assert series["text"]["as_published"]
    assert series["author"]["difference"] == pytest.approx(2)
    [chart] = charts_of(forest_charts, collect([tmp_path]))
    labels = [label.get_text() for label in chart.draw().axes[0].get_yticklabels()]
    assert labels[:2] == ["Table 2, simple networks", "MNIST, Fixed-s"]


def test_more_runs_are_better_than_one(tmp_path: Path) -> None:
    add_pair(tmp_path, "fashion", 0.01, options={"optim.drop_last": False})
    for model, score in (("dense", 0.9), ("focus_s", 0.95)):
        add_run(tmp_path, "table2_simple", "fashion", model, 0, [score])
    point = points(tmp_path, "Fashion, Focus-s")["text"]
    assert (point["n"], point["difference"]) == (3, pytest.approx(1))


def test_smaller_runs_are_hollow(tmp_path: Path) -> None:
    add_pair(tmp_path, "mnist", 0.01, size="quick")
    assert not points(tmp_path, "MNIST, Focus-s")["text"]["as_published"]
    assert set(points(tmp_path, "CLT, Focus-s")) == {"published"}
    for model, score in (("dense", 0.6), ("focus_s", 0.7)):
        add_run(tmp_path, "table2_simple", "clt", model, 0, [score], val=[score])
    series = points(tmp_path, "CLT, Focus-s")
    assert not series["text"]["as_published"]  # trained on nine tenths of the data
    assert series["holdout"]["as_published"]


def test_beyond_the_paper_are_networks_as_their_experiments_have_them(tmp_path: Path) -> None:
    for seed in (0, 17, 34):
        for model, score, sigma in (
            ("dense", 0.5, None),
            ("focus_2d", 0.6, 0.1),
            ("focus_2d", 0.9, 0.05),
        ):
            series, options = [score + seed / 1e5], {"model.sigma": sigma} if sigma else {}
            add_run(tmp_path, "topology", "mnist", model, seed, series, val=series, options=options)
    [point] = points(tmp_path, "MNIST, Focus-2d").values()
    assert (point["group"], point["series"], point["n"]) == ("Beyond the paper", "holdout", 3)
    assert point["difference"] == pytest.approx(10)
    assert point["low"] < 10 < point["high"]


def test_synthetic_data_show_each_code_with_its_own_neuron(tmp_path: Path) -> None:
    about = tmp_path, "learning_to_focus", "synthetic"
    for seed in (0, 17, 34):
        for variant, own, other in (("author", "l2", "mean"), ("author2018", "mean", "l2")):
            for model, normalizer, score in (
                ("dense", own, 0.8),
                ("focus_s", own, 0.82),
                ("focus_s", other, 0.7),
            ):
                options = {"model.normalizer": normalizer}
                series = [score + seed / 1e5]
                add_run(*about, model, seed, series, variant=variant, options=options)
    shown = points(tmp_path, "noise left")
    assert set(shown) == {"published", "author", "author2018"}
    assert shown["author"]["difference"] == pytest.approx(2)
    assert shown["author2018"]["difference"] == pytest.approx(2)


def test_less_error_is_right_of_zero(tmp_path: Path) -> None:
    for fold in range(3):
        for model, error in (("dense", 2.0), ("focus_s", 1.8)):
            options = {"data.fold": fold}
            add_run(tmp_path, "table4_other", "boston", model, 0, [error + fold], options=options)
    assert points(tmp_path, "Boston, Focus-s")["text"]["difference"] == pytest.approx(0.2)


def test_without_runs_there_is_nothing_to_compare(tmp_path: Path) -> None:
    assert charts_of(forest_charts, collect([tmp_path])) == []
