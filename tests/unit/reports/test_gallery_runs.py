"""Figures of real, tiny runs in which everything was measured."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from focusing.compose import compose_config
from focusing.drawing import LayerFoci
from focusing.reports.archive import write_archives
from focusing.reports.figures.chart import Chart
from focusing.reports.figures.gallery import all_figures
from focusing.reports.figures.weight_figures import (
    _draw_weight_pictures,
    image_shape,
    three_neurons,
)
from focusing.reports.foci import read_foci
from focusing.reports.tables.files import all_tables, markdown
from focusing.results.collect import Collection, collect
from focusing.run import train
from tests.unit.reports.test_gallery import drawn

MEASURED = [
    "data=mnist", "size=smoke", "callbacks=[default,measure]", "data.pad=4", "trainer.max_epochs=2",
    "model.hidden=[12,12]", "callbacks.pruning.points=4", "callbacks.explanation.samples=2",
    "callbacks.explanation.background=8", "callbacks.timing.rounds=2", "name=everything",
]  # fmt: skip
SMALL = ["name=learning_to_focus", "figures=false", "data.n_samples=200", "trainer.max_epochs=3"]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    folder = tmp_path_factory.mktemp("outputs")
    runs = [[*MEASURED, "model=focus_s"], [*MEASURED, "model=dense"], SMALL]
    for options in runs:
        train(compose_config(*options, f"paths.output_dir={folder}"))
    return collect([folder])


@pytest.fixture(scope="module")
def charts(collection: Collection) -> dict[str, Chart]:
    return charts_of(collection)


def charts_of(collection: Collection) -> dict[str, Chart]:
    return {chart.name: chart for chart in all_figures(collection).charts}


def rows_where(chart: Chart, **columns: Any) -> list[Any]:
    return [row for row in chart.rows if columns.items() <= row.items()]


def focused(collection: Collection) -> Any:
    return next(run for run in collection.runs if (run.model, run.size) == ("focus_s", "smoke"))


def test_sparsity_has_both_rules_the_twin_and_thresholds(
    collection: Collection, charts: dict[str, Chart]
) -> None:
    chart = charts["sparsity_everything_smoke_text_focus_s"]
    told = focused(collection).measured["pruning"]
    curve = rows_where(chart, rule="focus")
    assert [row["threshold"] for row in curve] == [0, *np.linspace(1e-7, 1.5, 4)]
    assert [row["sparsity"] for row in curve] == [
        100 * point["sparsity"] for point in told["curve"]
    ]
    assert [row["score"] for row in curve] == [100 * point["acc"] for point in told["curve"]]
    rules = {(row["model"], row["rule"]) for row in chart.rows}
    assert rules == {("focus_s", "focus"), ("focus_s", "magnitude"), ("dense", "magnitude")}
    figure = drawn(chart)
    axes, above = figure.axes
    assert "not linear" in axes.get_xlabel()
    # A threshold stands above the sparsity that it leads to.
    figure.draw_without_rendering()
    for tick, label in zip(above.get_xticks(), above.get_xticklabels(), strict=True):
        shown = [row for row in curve if f"{row['threshold']:.2g}" == label.get_text()]
        assert tick == shown[0]["sparsity"]
        here = axes.transData.transform((tick, 0))[0]
        assert above.transData.transform((tick, 0))[0] == pytest.approx(here)


def test_connections_are_those_of_the_neurons(
    collection: Collection, charts: dict[str, Chart]
) -> None:
    chart = charts["connections_everything_smoke_text_focus_s"]
    base, strict = focused(collection).measured["pruning"]["connections"]
    for level in (base, strict):
        for layer, kept in level["layers"].items():
            rows = rows_where(chart, layer=layer, threshold=level["threshold"])
            assert sum(row["neurons"] for row in rows) == len(kept) == 12
            assert rows[0]["median"] == np.median(kept)
    titles = [axes.get_title(loc="left") for axes in drawn(chart).axes]
    assert titles == ["hidden1", "hidden2"]


def test_shap_pictures_add_up_as_far_as_the_caption_says(
    collection: Collection, charts: dict[str, Chart]
) -> None:
    chart = charts["shap_everything_smoke_text_mnist_focus_s"]
    gap = focused(collection).measured["explanation"]["gap"]
    assert f"by {gap['largest']:.2g} at most" in chart.caption
    one = rows_where(chart, **{name: chart.rows[0][name] for name in ("sample", "class")})
    assert len(one) == 36 * 36
    total = sum(float(row["shap"]) for row in one)
    expected = one[0]["output"] - one[0]["expected"]
    assert total == pytest.approx(expected, abs=gap["largest"] + 1e-3 * len(one) ** 0.5)
    assert len(drawn(chart).axes) == 2 * 4 + 1  # each the sample and three classes; a colour bar
    assert "A network with a test accuracy of" in chart.caption


def test_timing_shows_ratios_of_focused_networks_only(
    collection: Collection, charts: dict[str, Chart]
) -> None:
    chart = charts["timing_everything_smoke_text"]
    ratio = focused(collection).measured["timing"]["ratio"]
    assert [(row["kind"], row["ratio"]) for row in chart.rows] == list(ratio.items())
    assert {row["model"] for row in chart.rows} == {"focus_s"}
    axes = drawn(chart).axes[0]
    numbers = [text.get_text() for text in axes.texts if text.get_text() != "dense"]
    assert numbers == [f"{ratio['train']:.2f}", f"{ratio['test']:.2f}"]


def test_dead_inputs_before_and_after(collection: Collection, charts: dict[str, Chart]) -> None:
    chart = charts["redundancy_everything_smoke_text"]
    told = focused(collection).measured["dead_inputs"]
    rows = rows_where(chart, model="focus_s", when="after", inputs="dead")
    assert [row["weights"] for row in rows] == told["histogram"]["after_dead"]
    assert rows[0]["mean_abs"] == told["after"]["dead"]["mean_abs"]
    assert f"{told['dead']} of 1296 inputs never change" in chart.caption
    panels = drawn(chart).axes
    assert [axes.get_ylabel() for axes in panels[::3]] == ["Dense", "Focus-s"]


def test_weights_in_the_picture_are_those_of_the_record(
    collection: Collection, charts: dict[str, Chart]
) -> None:
    chart = charts["weights_everything_smoke_text_mnist_focus_s"]
    run = focused(collection)
    foci = read_foci(run.path, run.sizes)[0]
    assert image_shape(run.sizes, len(foci.tau)) == (36, 36, 1)
    assert "12 of 12 neurons" in chart.caption
    assert len(chart.rows) == 12
    assert float(chart.rows[3]["w700"]) == pytest.approx(foci.last[3, 700], rel=1e-3, abs=1e-12)
    _, lines, axes, *_ = drawn(chart).axes
    three = three_neurons(foci)
    for k, label in zip(three, lines.get_yticklabels(), strict=True):
        assert f"= {foci.sigma[-1, foci.shown[k], 0]:.2g}" in label.get_text()
    crosses = [line for line in axes.lines if line.get_marker() == "+"]
    at = float(foci.mu[-1, foci.shown[three[0]], 0]) * (36 * 36 - 1)
    assert crosses[0].get_ydata()[0] == at // 36
    assert crosses[0].get_xdata()[0] == pytest.approx(at % 36)


def test_weights_of_foci_in_the_plane_are_pictures() -> None:
    rows, columns = np.mgrid[0:1:6j, 0:1:8j]
    foci = LayerFoci(
        "hidden1",
        epochs=np.array([5]),
        tau=np.column_stack([rows.ravel(), columns.ravel()]),
        mu=np.array([[[0.2, 0.4], [0.6, 0.7], [0.8, 0.2]]]),
        sigma=np.full((1, 3, 2), 0.1),
        focus="gaussian",
        normalizer="l2",
        shown=np.arange(3),
        last=np.random.default_rng(0).normal(size=(3, 48)),
    )
    _, *pictures, bar = _draw_weight_pictures(foci, (6, 8, 1)).axes
    for neuron, axes in enumerate(pictures):
        picture = np.asarray(axes.images[0].get_array())
        assert np.array_equal(picture, foci.last[neuron].reshape(6, 8))
        assert f"neuron {neuron}" in axes.get_title("left")
        (cross,) = axes.lines
        centre = [cross.get_ydata()[0] / 5, cross.get_xdata()[0] / 7]
        assert centre == pytest.approx(foci.mu[0, neuron])
    assert bar.get_ylim()[1] == pytest.approx(np.abs(foci.last).max())


@pytest.mark.parametrize(
    ("data", "inputs", "shape"),
    [
        ({"shape": [50, 37, 1]}, 1850, (50, 37, 1)),
        ({"shape": [32, 32, 3]}, 3072, (32, 32, 3)),
        ({"shape": [40]}, 40, None),
        ({"shape": [28, 28]}, 784, (28, 28, 1)),
        ({}, 784, None),  # an old record
        ({"shape": [28, 28, 1]}, 256, None),  # a layer behind others
    ],
)
def test_shapes_of_pictures(data: Any, inputs: int, shape: Any) -> None:
    assert image_shape(data, inputs) == shape


def test_small_networks_show_foci_paths_and_weights(charts: dict[str, Chart]) -> None:
    names = [f"{what}_learning_to_focus_full_text_hidden1" for what in ("foci", "weights")]
    path = charts["trajectory_learning_to_focus_full_text_hidden1"]
    assert set(names) <= charts.keys()
    assert {(row["epoch"], row["neuron"]) for row in path.rows} == {
        (epoch, neuron) for epoch in range(4) for neuron in range(4)
    }
    assert drawn(path).axes[0].get_xlabel() == r"centre $\mu$"


def test_an_archive_makes_the_same_report(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, enough in {
        "MAX_NEURONS": 64,
        "MAX_NEURONS_OF_MANY": 64,
        "SMALL_BYTES": 2**20,
    }.items():
        monkeypatch.setattr(f"focusing.reports.archive.{name}", enough)  # of less, captions say so
    write_archives(collection, tmp_path)
    kept = collect([tmp_path])
    assert [*map(markdown, all_tables(kept))] == [*map(markdown, all_tables(collection))]
    before, after = (
        {name: (chart.caption, len(chart.rows)) for name, chart in charts_of(runs).items()}
        for runs in (collection, kept)
    )
    assert after == before
    assert any(name.startswith("shap") for name in after)


def test_all_foci_are_seen_at_both_ends(collection: Collection, charts: dict[str, Chart]) -> None:
    chart = charts["moves_learning_to_focus_full_text"]
    run = next(run for run in collection.runs if run.experiment == "learning_to_focus")
    [foci] = read_foci(run.path, run.sizes)
    assert [row["first"] for row in chart.rows] == pytest.approx(foci.mu[0, :, 0].tolist())
    assert [row["last"] for row in chart.rows] == pytest.approx(foci.mu[-1, :, 0].tolist())
    [told] = run.focus.values()
    for name in ("inside_first", "inside_last"):
        assert np.mean([row[name] for row in chart.rows]) == pytest.approx(told[name])
    axes = drawn(chart).axes[0]
    first, last = (100 * told[name] for name in ("inside_first", "inside_last"))
    assert f"inside: {first:.0f} % → {last:.0f} %, n = 1" in [
        text.get_text() for text in axes.texts
    ]
