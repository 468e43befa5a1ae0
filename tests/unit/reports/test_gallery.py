"""Figures of a report: what is drawn, what is written beside it, and when it is drawn again."""

import csv
import json
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from focusing.reports.figures.chart import Chart, describe_run, median_run
from focusing.reports.figures.gallery import all_figures, write_figures
from focusing.reports.plans import labels
from focusing.reports.settings import settings_of
from focusing.results.collect import collect
from tests.unit.reports.records import add_run


def figures_of(folder: Path) -> dict[str, Chart]:
    return {chart.name: chart for chart in all_figures(collect([folder])).charts}


def drawn(chart: Chart) -> Any:
    figure = chart.draw()
    assert not isinstance(figure, bytes)
    return figure


def titles_of(figure: Any) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def add_widths(folder: Path) -> None:
    for model, base in (("dense", 0.90), ("focus_s", 0.91)):
        for hidden in (64, 256):
            for seed, more in ((0, 0.0), (17, 0.02)):
                options = {"model.hidden": [hidden, hidden]}
                test = [0.5, base + more]
                add_run(folder, "n_hidden", "mnist", model, seed, test, options=options)


def test_files_index_and_what_is_missing(tmp_path: Path) -> None:
    runs, folder = tmp_path / "runs", tmp_path / "out" / "figures"
    add_widths(runs)
    collection = collect([runs])
    paths = write_figures(collection, tmp_path / "out")
    png, svg, pdf, table = files = [
        folder / f"n_hidden_full_text_best_test.{end}" for end in ("png", "svg", "pdf", "csv")
    ]
    assert set(paths) == {*files, folder / "index.json", folder / "all.md"}
    assert pdf.read_bytes().startswith(b"%PDF")
    with Image.open(png) as image:
        assert image.width == 680  # a column of 3.4 inches at 200 dpi
    text = ElementTree.parse(svg)  # noqa: S314 - our own
    assert "hidden neurons in each layer" in "".join(text.getroot().itertext())
    index = json.loads((folder / "index.json").read_text())
    [entry] = index["figures"]
    assert (entry["tags"]["model"], entry["tags"]["protocol"]) == ("dense focus_s", "best_test")
    commands = {missing["command"] for missing in index["missing"]}
    experiments = ("table1", "sigma_reg", "sparsity", "learning_to_focus", "explain", "timing",
                   "redundancy", "table2_simple protocol=holdout")  # fmt: skip
    assert {f"python train.py experiment={name}" for name in experiments} <= commands
    assert not any("n_hidden" in command for command in commands)
    page = (folder / "all.md").read_text()
    assert "](n_hidden_full_text_best_test.png)" in page
    assert "experiment=explain" in page

    first = png.stat().st_mtime_ns
    assert write_figures(collect([runs]), tmp_path / "out") == paths
    assert png.stat().st_mtime_ns == first  # nothing changed, nothing is drawn
    shown: list[tuple[int, int]] = []
    add_run(runs, "n_hidden", "mnist", "dense", 34, [0.99], options={"model.hidden": [64, 64]})
    write_figures(collect([runs]), tmp_path / "out", lambda *ready: shown.append(ready))
    assert png.stat().st_mtime_ns > first
    assert shown == [(1, 1)]
    with table.open() as file:
        assert next(csv.DictReader(file))["n"] == "3"


def test_widths_have_means_intervals_and_the_authors_numbers(tmp_path: Path) -> None:
    add_widths(tmp_path)
    figures = figures_of(tmp_path)
    assert not any(name.startswith("losses") for name in figures)  # those of a sweep are not drawn
    chart = figures["n_hidden_full_text_best_test"]
    assert [(row["model"], row["x"], row["n"]) for row in chart.rows] == [
        ("dense", 64, 2), ("focus_s", 64, 2), ("dense", 256, 2), ("focus_s", 256, 2),
    ]  # fmt: skip
    first = chart.rows[0]
    assert first["mean"] == pytest.approx(91.0)
    assert first["low"] is None  # two runs have no interval
    assert first["author"] == 97.962
    assert "2 runs a point" in chart.caption
    axes = drawn(chart).axes[0]
    assert axes.get_xscale() == "linear"  # a factor of 4 is no reason for a logarithm
    assert axes.get_title(loc="left") == "MNIST"
    assert {"Dense", "Focus-s", "official, n = 2"} <= {text.get_text() for text in axes.texts}
    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    assert [line.get_ydata()[0] for line in crosses] == [97.962, 98.876, 97.944, 99.098]


def test_panels_of_a_sweep(tmp_path: Path) -> None:
    def run(data: str, model: str, score: float, **more: Any) -> None:
        for value in (1e-10, 1e-5, 1e-3):
            options = {"optim.sigma_l2": value}
            seed = int(100 * score)
            add_run(tmp_path, "sigma_reg", data, model, seed, [score], options=options, **more)

    run("mnist", "cnn_focus", 0.9)
    run("mnist", "focus_s", 0.5)
    run("clt", "focus_s", 0.6)
    run("clt", "focus_s", 0.7, source="other")
    run("clt", "focus_s", 0.1, size="quick")
    figures = figures_of(tmp_path)
    assert {name for name in figures if name.startswith("sigma_reg")} == {
        "sigma_reg_full_text_best_test", "sigma_reg_quick_text_best_test",
    }  # fmt: skip
    figure = drawn(figures["sigma_reg_full_text_best_test"])
    assert titles_of(figure) == ["MNIST, Focus-s", "CLT, Focus-s", "CLT, Focus-s", "MNIST, CNN+Fcs"]
    assert [axes.texts[0].get_text() for axes in figure.axes][1:3] == [
        "official, n = 1", "other, n = 1",
    ]  # fmt: skip
    for axes, score in zip(figure.axes, (50, 60, 70, 90), strict=True):
        assert list(axes.lines[0].get_ydata()) == pytest.approx([score] * 3)
        assert axes.get_xscale() == "log"


def test_trials_are_points_above_or_below_the_diagonal(tmp_path: Path) -> None:
    trials = [(0, 0.8, 0.7), (4, 0.5, 0.6), (4, 0.4, 0.6), (2, 0.1, 0.9), (2, 0.1, 0.2)]
    for number, (noise, dense, focused) in enumerate(trials):
        options = {"sweep.trial": number, "data.noise": noise, "data.informative": 4,
                   "data.noise_position": "left", "data.seed": number}  # fmt: skip
        for model, score in (("dense", dense), ("focus_s", focused)):
            add_run(tmp_path, "table1", "synthetic", model, 0, [score], options=options)
    add_run(
        tmp_path, "table1", "synthetic", "focus_s", 0, [0.9], options={"sweep.trial": 9}
    )  # alone
    chart = figures_of(tmp_path)["trials_table1_full_text_focus_s_best_test"]
    assert [(r["trial"], r["noise"], r["dense"], r["focused"]) for r in chart.rows] == [
        (0, "0", 80, 70), (1, "1", 50, 60), (2, "1", 40, 60),
        (3, "0.5", 10, 90), (4, "0.5", 10, 20),
    ]  # fmt: skip
    figure = drawn(chart)
    assert titles_of(figure) == ["no noise", "half as much noise as signal", "as much noise"]
    points = ([80], [70]), ([10, 10], [90, 20]), ([50, 40], [60, 60])
    for axes, (x, y) in zip(figure.axes, points, strict=True):
        diagonal, scatter = axes.lines
        assert list(diagonal.get_xdata()) == list(diagonal.get_ydata())
        assert (list(scatter.get_xdata()), list(scatter.get_ydata())) == (x, y)
        assert axes.get_xlabel() == "test accuracy of Dense (%)"
    [header] = [text.get_text() for text in figure.axes[2].texts]
    assert header == "+15.00, n=2"
    figure.draw_without_rendering()
    for axes, right in zip(figure.axes, figure.axes[1:], strict=False):  # no text in the next panel
        ends = [text.get_window_extent().x1 for text in (*axes.texts, axes.xaxis.label)]
        assert max(ends) < right.get_window_extent().x0
    assert min(axes.get_window_extent().width for axes in figure.axes) > 0.25 * figure.bbox.width


def test_panels_of_losses_say_which_split_they_show(tmp_path: Path) -> None:
    def run(data: str, model: str, seed: int, *, holdout: bool) -> None:
        series = {"train/loss": [1.0, 0.5], "test/loss": [2.0 + seed, 1.0]}
        series |= {"val/loss": [3.0 + seed, 2.0]} if holdout else {}
        add_run(tmp_path, "table2_simple", data, model, seed, [0.5, 0.6],
              val=[0.5, 0.6] if holdout else None, series=series)  # fmt: skip

    for model in ("dense", "focus_s"):
        run("mnist", model, 0, holdout=True)
        run("mnist", model, 17, holdout=True)
        run("fashion", model, 0, holdout=False)
    run("fashion", "focus_s", 17, holdout=True)  # has no dense twin: both show the test loss
    chart = figures_of(tmp_path)["losses_table2_simple_full_text"]
    splits = {
        (row["data"], row["split"], row["n"]) for row in chart.rows if row["split"] != "train"
    }
    assert splits == {("mnist", "val", 2), ("fashion", "test", 1)}
    first = next(r for r in chart.rows if (r["model"], r["split"]) == ("dense", "val"))
    assert (first["mean"], first["lowest"], first["highest"]) == (11.5, 3.0, 20.0)
    assert "solid: validation split or test data, which chose" in chart.caption
    assert "as each panel says" in chart.caption
    figure = drawn(chart)
    headers = {axes.get_title("left"): {t.get_text() for t in axes.texts} for axes in figure.axes}
    joined = {title: " ".join(texts).replace("\xa0", " ") for title, texts in headers.items()}
    assert "n = 2, solid: validation" in joined["MNIST"]
    assert "n = 1, solid: test" in joined["Fashion"]
    assert [text.get_text() for text in figure.legends[0].texts][-1] == "see panel"
    assert (len(figure.axes[0].lines), figure.axes[0].get_ylabel()) == (4, "loss")


def test_the_longest_training_is_drawn_and_others_are_named(tmp_path: Path) -> None:
    def run(data: str, epochs: int, **options: Any) -> None:
        series = {"train/loss": [1.0] * epochs, "test/loss": [2.0] * epochs}
        options = {"trainer.max_epochs": epochs, **options}
        for model in ("dense", "focus_s"):
            add_run(tmp_path, "table2_simple", data, model, 0, [0.5] * epochs, series=series,
                  options=options)  # fmt: skip

    run("fashion", 2)
    run("fashion", 4)
    run("mnist", 200)  # as the experiment has it; of equal lengths it is drawn
    run("mnist", 200, **{"optim.l2": 0.5})
    chart = figures_of(tmp_path)["losses_table2_simple_full_text"]
    lengths = {row["data"]: row["epoch"] for row in chart.rows}
    assert lengths == {"mnist": 200, "fashion": 4}
    assert titles_of(drawn(chart)) == ["MNIST", "Fashion"]
    assert "left out: MNIST of 200 epochs l2 0.5, Fashion of 2 epochs." in chart.caption


def test_losses_are_those_of_most_runs(tmp_path: Path) -> None:
    """A lone run with a validation split hid three runs on all data."""

    def run(data: str, seed: int, *, holdout: bool = False, **options: Any) -> None:
        series = {"train/loss": [1.0], "test/loss": [2.0]} | (
            {"val/loss": [3.0]} if holdout else {}
        )
        for model in ("dense", "focus_s"):
            add_run(tmp_path, "table2_simple", data, model, seed, [0.5],
                    val=[0.5] if holdout else None, series=series, options=options)  # fmt: skip

    for data in ("fashion", "clt"):
        run(data, 0, holdout=True)
        for seed in (0, 17, 34):
            run(data, seed, **({"optim.drop_last": False} if data == "fashion" else {}))
    run("mnist", 0, holdout=True)
    chart = figures_of(tmp_path)["losses_table2_simple_full_text"]
    drawn_runs = {(row["data"], row["options"] or "", row["split"], row["n"]) for row in chart.rows}
    assert drawn_runs == {
        *(("fashion", "optim.drop_last=false", split, 3) for split in ("train", "test")),
        *(("clt", "", split, 3) for split in ("train", "test")),
        *(("mnist", "", split, 1) for split in ("train", "val")),
    }


def test_the_optimism_of_errors_is_not_missing(tmp_path: Path) -> None:
    title = "How much the best test epoch flatters"
    add_run(tmp_path, "table4_other", "boston", "dense", 0, [3.0, 2.0])
    assert title in all_figures(collect([tmp_path])).missing
    add_run(tmp_path, "table4_other", "boston", "dense", 0, [3.0, 2.0], val=[2.0, 3.0])
    assert title not in all_figures(collect([tmp_path])).missing


def test_tables_and_optimism(tmp_path: Path) -> None:
    for seed, holdout in ((0, 0.88), (17, 0.86), (34, 0.87)):
        add_run(tmp_path, "table2_simple", "mnist", "focus_s", seed, [holdout, 0.9], val=[0.9, 0.8])
    figures = figures_of(tmp_path)
    [row] = figures["optimism_full_text"].rows
    assert row["optimism"] == pytest.approx(3.0)
    texts = [text.get_text() for text in drawn(figures["optimism_full_text"]).axes[0].texts]
    assert texts == ["n=3"]
    chart = figures["table2_simple_full_text_holdout"]
    assert [(r["model"], r["mean"], r["published_mean"]) for r in chart.rows] == [
        ("focus_s", pytest.approx(87.0), 99.25)
    ]
    published = drawn(chart).axes[0].lines[0]
    assert list(published.get_xdata()) == [99.25, 99.25]


def test_long_names_of_rows_leave_room_for_the_dots(tmp_path: Path) -> None:
    for extent in (0.5, 1.0):
        options = {"model.hidden": list(range(1, 40)), "optim.lr_mu": extent}
        for seed in (0, 17, 34):
            add_run(tmp_path, "mine", "mnist", "focus_s", seed, [0.8, 0.9 + seed / 1e3],
                  val=[0.9, 0.8], options=options)  # fmt: skip
    add_run(tmp_path, "mine", "mnist", "focus_s", 0, [0.8, 0.9], val=[0.9, 0.8])
    figure = drawn(figures_of(tmp_path)["optimism_full_text"])
    figure.draw_without_rendering()  # a layout without space is a warning, thus an error
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[0].startswith("mine: MNIST, Focus-s")
    assert max(map(len, names)) <= 80


def test_options_above_a_panel_do_not_overprint(tmp_path: Path) -> None:
    for epochs in (1, 2, 3):
        options = {"data.limit_train": 5000, "data.limit_test": 2000, "trainer.max_epochs": epochs}
        add_run(tmp_path, "table2_simple", "mnist", "dense", 0, [0.5], options=options)
    figure = drawn(figures_of(tmp_path)["table2_simple_full_text_best_test"])
    figure.canvas.draw()  # a layout without space is a warning, thus an error
    texts = [text.get_window_extent() for axes in figure.axes for text in axes.texts]
    assert len(texts) == 3 * 4  # the source, n and three options in four lines
    assert not any(one.overlaps(two) for one, two in combinations(texts, 2))
    assert all(len(axes.lines) < 4 for axes in figure.axes)  # no bar of the paper's


@pytest.mark.parametrize(
    ("option", "values", "names"),
    [
        ("model.focus", ["gaussian", "triangle"], ["gaussian", "triangle"]),
        ("data.noise", ["audio", "none"], ["sound is noise", "no noise"]),
    ],
)
def test_settings_are_rows_with_single_runs(
    tmp_path: Path, option: str, values: list[str], names: list[str]
) -> None:
    for value, base in zip(values, (0.9, 0.8), strict=True):
        for seed in (0, 17):
            add_run(tmp_path, "mine", "mnist", "focus_s", seed, [base + seed / 1000],
                  options={option: value})  # fmt: skip
    chart = figures_of(tmp_path)["mine_full_text_best_test"]
    assert [row["runs"] for row in chart.rows] == ["90 91.7", "80 81.7"]
    axes = drawn(chart).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    assert list(axes.lines[0].get_xdata()) == pytest.approx([90, 91.7])


def test_long_names_of_settings_leave_room_for_the_panel(tmp_path: Path) -> None:
    for name in ("short", "a value with a name that is as long as half a page is wide"):
        add_run(tmp_path, "mine", "mnist", "focus_s", 0, [0.5], options={"model.focus": name})
    figure = drawn(figures_of(tmp_path)["mine_full_text_best_test"])
    figure.draw_without_rendering()  # lays it out
    assert figure.axes[0].get_position().width * figure.get_figwidth() > 2  # inches


def test_many_data_sets_are_drawn_in_rows_of_panels(tmp_path: Path) -> None:
    data_sets = ("mnist", "clt", "cifar10", "fashion", "lfw")
    for data in data_sets:
        for number in range(9):  # 45 settings, but only 9 rows in each panel
            for model in ("focus_s", "dense"):
                options = {"model.x": number if model == "focus_s" else 0, "model.y": [number % 2]}
                add_run(tmp_path, "mine", data, model, 0, [0.5], options=options)
    figure = drawn(figures_of(tmp_path)["mine_full_text_best_test"])
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == len(data_sets)
    assert len({round(axes.get_position().y0, 2) for axes in shown}) == 2
    names = [label.get_text() for label in shown[0].get_yticklabels()]
    assert "Dense" in names[0]  # in the order of the models


def test_several_swept_options_are_rows_not_an_axis(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {}, {"optim.lr_mu": 0.1}, {"optim.anneal_from": 4.0, "optim.anneal_epochs": 125},
    ]  # fmt: skip
    for stuck, options in zip(([0, 1, 2], [1], []), changes, strict=True):
        measured = {"stuck": {"hidden1": {"neurons": 4, "stuck": stuck}}}
        add_run(tmp_path, "rescue", "synthetic", "focus_s", 0, [0.5], options=options,
              measured=measured)  # fmt: skip
    chart = figures_of(tmp_path)["rescue_full_text_best_test"]
    assert sorted(row["stuck_percent"] for row in chart.rows) == ["0", "25", "75"]
    scores, stuck_axes = drawn(chart).axes
    labels = [label.get_text() for label in scores.get_yticklabels()]
    assert set(labels) == {"unchanged", "learning rate of μ 0.1", "annealed over 125 epochs"}
    assert stuck_axes.get_xlabel() == "stuck neurons (%)"
    places = {line.get_ydata()[0]: line.get_xdata()[0] for line in stuck_axes.lines}
    assert places[labels.index("unchanged")] == 75


def test_figures_of_the_same_data_from_two_sources_have_two_names(tmp_path: Path) -> None:
    points = [{"threshold": 0.0, "sparsity": 0.0, "acc": 0.5},
              {"threshold": 1.5, "sparsity": 0.8, "acc": 0.4}]  # fmt: skip
    measured = {"pruning": {"curve": points, "magnitude": points, "connections": []}}
    for source in ("official", "other"):
        add_run(tmp_path, "sparsity", "mnist", "focus_s", len(source), [0.5], source=source,
              measured=measured)  # fmt: skip
    figures = figures_of(tmp_path)
    captions = [figures[f"sparsity_full_text_focus_s{end}"].caption for end in ("", "_2")]
    assert {caption.split(",")[0] for caption in captions} == {"MNIST (official)", "MNIST (other)"}
    assert "add model=dense" in captions[0]  # there is no twin


def test_without_runs_of_a_kind_nothing_is_invented(tmp_path: Path) -> None:
    add_run(tmp_path, "mine", "mnist", "dense", 0, [0.5])
    assert not all_figures(collect([tmp_path])).charts


def test_a_typical_run_is_in_the_middle(tmp_path: Path) -> None:
    for seed in range(5):
        add_run(tmp_path, "mine", "dna", "focus_s", seed, [0.1 * (seed + 1)])
    runs = list(collect([tmp_path]).runs)
    assert [median_run(runs[:count]).seed for count in range(1, 6)] == [0, 1, 1, 2, 2]
    for seed in (0, 3):
        (runs[seed].path / "focus.npz").touch()
    assert median_run(runs).seed == 3  # of those that have arrays
    assert describe_run(runs[3], runs) == "seed 3, by its score number 2 of 5 runs (best_test)"
    assert describe_run(runs[3], runs[3:4]) == "seed 3"


def test_generated_data_is_named_by_its_seed(tmp_path: Path) -> None:
    for number in range(2):
        options = {"data.seed": number}
        add_run(tmp_path, "mine", "synthetic", "focus_s", 7, [0.5], options=options)
    runs = collect([tmp_path]).runs
    assert describe_run(runs[0], runs).startswith("seed 7, data.seed ")


def test_settings_of_one_number_are_named_by_it(tmp_path: Path) -> None:
    for number in range(3):
        for seed in range(2 if number else 3):
            options = {"data.seed": number, "optim.l2": 0.1}
            add_run(tmp_path, "mine", "synthetic", "focus_s", seed, [0.5], options=options)
    names = labels(settings_of(collect([tmp_path]).runs))
    assert names == ["data.seed=0", "data.seed=1", "data.seed=2"]
