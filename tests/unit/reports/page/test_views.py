"""Tables with rows that filters can hide; curves and foci, thinned but not bent."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from focusing.reports.page.exhibits import (
    FIGURE_SPACE,
    page_table,
    short_title,
    table_is_minor,
    table_tags,
)
from focusing.reports.page.overview import experiments, lead, run_settings
from focusing.reports.page.run_page import (
    MAX_CURVE_POINTS,
    MAX_FOCI_EPOCHS,
    MAX_NEURONS,
    foci_of,
    run_view,
    series_panels,
    thin_indices,
)
from focusing.reports.tables import Column, Table, make_table
from focusing.results.collect import collect
from tests.unit.reports.records import add_foci, add_run


class TestTables:
    def test_repeated_names_and_decimal_points(self) -> None:
        columns = (Column("data", show="data", once=True), Column("best_test", show="score"))
        scores = [
            ("MNIST", "9.50 ± 1"),
            ("MNIST", "missing [1]"),
            ("MNIST", "100.00"),
            ("all", "+1"),
        ]
        records = [{"data": data, "score": score, "_block": data} for data, score in scores]
        table = make_table("t", "T (size=full, variant=text)", columns, records, [])
        assert [row.cells[0].printed[0] for row in table.rows] == ["MNIST", "", "", "all"]
        view = page_table(table)
        assert [row.cells[0].lines[0] for row in view.rows] == ["MNIST", "MNIST", "MNIST", "all"]
        assert [row.cells[0].repeated for row in view.rows] == [False, True, True, False]
        numbers = [row.cells[1].lines[0].replace(FIGURE_SPACE, " ") for row in view.rows]
        assert numbers == ["  9.50 ± 1", "missing [1]", "100.00", " +1"]

    @pytest.mark.parametrize(
        ("experiment", "size", "n", "minor"),
        [
            ("mine", "full", 5, False),
            ("mine", "quick", 5, True),
            ("mine", "full", 1, True),
            ("sparsity", "full", 1, False),  # a curve means something without repeats
            ("mine", "full", None, False),
        ],
    )
    def test_small_sizes_and_single_runs_are_minor(
        self, experiment: str, size: str, n: int | None, minor: bool
    ) -> None:
        records = ({"experiment": experiment, "size": size, "n": n},)
        table = Table("t", "T", (), (), records=records)
        assert table_is_minor(table) == minor
        assert table_tags(table) == {"experiment": experiment, "size": size}

    @pytest.mark.parametrize(
        ("title", "short"),
        [
            ("T (size=full, variant=text)", "T"),
            ("T (size=full, variant=author): t-tests", "T (variant=author): t-tests"),
            ("T (size=quick, variant=text)", "T (size=quick)"),
            ("T (e, size=full, variant=text)", "T (e)"),
            ("T (size=full, variant=text, a.b=5)", "T (a.b=5)"),
            ("T", "T"),
        ],
    )
    def test_short_titles(self, title: str, short: str) -> None:
        assert short_title(title) == short


class TestSeries:
    def test_panels(self) -> None:
        series = {
            "train/loss": [1.23456, None],
            "test/loss": [2.0, float("inf")],
            "odd": [1.0, 2.0],
        }
        curves = series_panels(series, {"best_test": 1})
        assert curves == {
            "epochs": [1, 2],
            "of": 2,
            "panels": [
                {"title": "loss", "lines": {"train": [1.235, None], "test": [2.0, None]}},
                {"title": "odd", "lines": {"odd": [1.0, 2.0]}},
            ],
        }

    def test_long_curves_keep_the_epochs_of_scores(self) -> None:
        curves = series_panels({"test/acc": list(np.linspace(0, 1, 1000))}, {"best_test": 777})
        assert curves is not None
        assert (curves["epochs"][0], curves["epochs"][-1], curves["of"]) == (1, 1000, 1000)
        assert 778 in curves["epochs"]
        assert MAX_CURVE_POINTS <= len(curves["epochs"]) <= MAX_CURVE_POINTS + 1
        assert len(curves["panels"][0]["lines"]["test"]) == len(curves["epochs"])

    def test_nothing(self) -> None:
        assert series_panels({}, {}) is None
        assert thin_indices(3, 10, keep=[7]) == [0, 1, 2]


class TestFoci:
    def test_values_come_back(self, tmp_path: Path) -> None:
        mu = np.random.default_rng(0).uniform(0, 1, (3, 5, 1))
        add_foci(tmp_path, mu, np.linspace(0, 1, 20)[:, None])
        [layer] = foci_of(tmp_path / "focus.npz", [5, 15])
        packed = layer["mu"]
        raw = np.frombuffer(base64.b64decode(packed["data"]), "<u2").reshape(packed["shape"])
        back = packed["low"] + raw / 65535 * (packed["high"] - packed["low"])
        np.testing.assert_allclose(back, mu[:, layer["neurons"]], atol=1e-5)
        assert mu[0, layer["neurons"], 0].tolist() == sorted(mu[0, :, 0])
        assert (layer["informative"], layer["inputs"], layer["of_epochs"]) == ([5, 15], 20, 2)
        assert layer["positions"] == pytest.approx(np.linspace(0, 1, 20), abs=1e-5)

    def test_many_are_thinned(self, tmp_path: Path) -> None:
        random = np.random.default_rng(0)
        add_foci(tmp_path, random.uniform(size=(200, 500, 2)), random.uniform(size=(784, 2)))
        [layer] = foci_of(tmp_path / "focus.npz", [0, 10])
        assert layer["mu"]["shape"] == [MAX_FOCI_EPOCHS, MAX_NEURONS, 2]
        assert (layer["epochs"][0], layer["epochs"][-1], layer["of_neurons"]) == (0, 199, 500)
        assert layer["informative"] is None  # columns of a line are none of an image
        assert len(json.dumps(layer)) < 30_000

    def test_until_a_run_diverged(self, tmp_path: Path) -> None:
        assert foci_of(tmp_path / "focus.npz", None) == []  # no file
        mu = np.full((5, 2, 1), 0.5)
        mu[3:] = np.nan
        add_foci(tmp_path, mu, np.linspace(0, 1, 4)[:, None])
        [layer] = foci_of(tmp_path / "focus.npz", None)
        assert layer["epochs"] == [0, 1, 2]
        add_foci(tmp_path, np.full((2, 2, 1), np.nan), np.zeros((4, 1)))
        assert foci_of(tmp_path / "focus.npz", None) == []


class TestRun:
    def test_what_is_shown(self, tmp_path: Path) -> None:
        add_run(
            tmp_path, "e", "mnist", "focus_s", 17, [0.5, 0.75], val=[0.1, 0.2],
            focus={"hidden1": {"moved": 0.123, "sigma_first": 0.1, "sigma_last": 0.05,
                               "inside_first": 0.25, "inside_last": 0.5}},
            versions={"torch": "2.6"}, git={"commit": "a" * 40, "dirty": True},
            machine={"cores": 2}, steps_per_second=1234.5, peak_memory_bytes=2**30,
            measured={"pruning": {"curve": [{"sparsity": 0.0, "acc": 0.75}]}, "ratio": 1.23456,
                      "kept": [0, 3],
                      "stuck": {"one": {"neurons": 4, "stuck": [3]},
                                "two": {"neurons": 4, "stuck": [1, 3]},
                                "many": {"neurons": 800, "stuck": list(range(37))},
                                "none": {"neurons": 4, "stuck": []}}},
        )  # fmt: skip
        [run] = collect([tmp_path]).runs
        view = run_view(run)
        assert view["title"] == "Focus-s on MNIST, seed 17"
        assert [score["value"] for score in view["scores"]] == ["75.00", "75.00", "75.00"]
        assert view["scores"][0]["words"].endswith("(epoch 2)")
        assert view["facts"]["foci of hidden1"] == "moved 0.123 on average, σ 0.100 → 0.050"
        assert view["facts"]["foci among informative inputs"] == "25 % → 50 %"
        assert view["facts"]["protocol"] == "holdout, 10% of the training data held out"
        assert view["environment"]["commit"] == "aaaaaaaaaaaa, with changes"
        assert (view["environment"]["torch"], view["environment"]["cores"]) == ("2.6", "2")
        assert view["measured"] == {
            "pruning.curve": "1 values", "ratio": "1.235", "kept": "0, 3",
            "stuck.one": "1 of 4 (neuron 3)", "stuck.two": "2 of 4 (neurons 1, 3)",
            "stuck.many": "37 of 800", "stuck.none": "0 of 4",
        }  # fmt: skip
        assert view["content"]["pruning"] == {"by focus": [[0.0, 0.75]]}
        assert view["content"]["marks"] == {"best_test": 2, "holdout": 2, "last": 2}
        assert "\ndata:\n" in view["config"]
        assert "\n  name: focus_s\n" in view["config"]

    def test_a_record_of_few_words(self, tmp_path: Path) -> None:
        add_run(tmp_path, "e", "boston", "dense", 0, [3.0], wall_seconds=None)
        [run] = collect([tmp_path]).runs
        view = run_view(run)
        assert view["scores"][0]["unit"] == "MAE"
        assert view["content"]["foci"] == []
        assert view["content"]["pruning"] is None
        assert "training time" not in view["facts"]


def test_what_was_run(tmp_path: Path) -> None:
    add_run(tmp_path, "e", "fashion", "focus_s", 0, [0.5])
    add_run(tmp_path, "e", "mnist", "dense", 1, [0.5], val=[0.5])
    add_run(tmp_path, "e", "mnist", "dense", 2, [], status="failed", error="no")
    collection = collect([tmp_path])
    [row] = experiments(collection)
    assert (row["data"], row["models"]) == (["mnist", "fashion"], ["dense", "focus_s"])
    assert (row["runs"], row["failed"], row["seeds"]) == (2, 1, 3)
    assert row["protocols"] == ["best_test", "holdout"]
    numbers = lead(collection)
    assert (numbers["runs"], numbers["failed"], numbers["time"]) == (2, 1, "3.0 s")
    assert numbers["from"] == numbers["to"] == "2026-01-01"


def test_options_that_vary(tmp_path: Path) -> None:
    for width in (8, 16):
        add_run(tmp_path, "e", "mnist", "dense", 0, [0.5], options={"model.hidden": [width]})
    add_run(tmp_path, "f", "mnist", "dense", 0, [0.5])
    add_run(tmp_path, "f", "mnist", "focus_s", 0, [0.5])
    add_run(tmp_path, "t", "synthetic", "dense", 0, [0.5], options={"sweep.trial": 3})
    varied = run_settings(collect([tmp_path]).runs)
    assert sorted(varied.values()) == ["", "", "hidden=[16]", "hidden=[8]", "trial 3"]
