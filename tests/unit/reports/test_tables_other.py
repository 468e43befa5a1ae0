"""Optimism, any experiment, and failures."""

from pathlib import Path

import pytest
from scipy import stats as scipy_stats

from focusing.reports.tables import Table
from focusing.reports.tables.diagnostics import (
    course_tables,
    failed_tables,
    optimism_tables,
    pruning_tables,
)
from focusing.reports.tables.experiments import experiment_tables
from focusing.reports.tables.files import all_tables
from focusing.results.collect import collect
from tests.unit.reports.records import leave


def texts(table: Table) -> list[list[str]]:
    return [[" ".join(cell.lines) for cell in row.cells] for row in table.rows]


class TestCourse:
    def test_overfitting_and_apertures(self, tmp_path: Path) -> None:
        score = [0.9, 0.9, 0.9]
        series = {"test/loss": [0.5, 0.2, 0.4], "train/loss": [0.5, 0.1, 0.01], "test/acc": score}
        layer = {"moved": 0.1, "sigma_first": 0.025, "sigma_last": 0.08}
        for seed in (0, 17):
            about = {"series": series, "focus": {"hidden1": layer}}
            leave(tmp_path, "table2_simple", "mnist", "focus_s", seed, score, **about)
        [table] = course_tables(collect([tmp_path]))
        assert table.name == "course_table2_simple_paper_paper"
        [record] = table.records
        assert (record["least_epoch"], record["least"], record["last"]) == (2, 0.2, 0.4)
        assert (record["highest"], record["sigma_last_1"]) == (0.5, 0.08)
        assert texts(table)[0][2:] == [
            "2", "2", "0.200", "0.400", "0.5", "0.0100", "0.025", "0.080"
        ]  # fmt: skip


class TestPruning:
    def test_by_phi_and_by_magnitude(self, tmp_path: Path) -> None:
        by_phi = [
            {"threshold": t, "sparsity": share, "acc": score}
            for t, share, score in ((0, 0, 0.98), (0.5, 0.6, 0.98), (1.0, 0.8, 0.97))
        ]
        by_size = [{"sparsity": share, "acc": 0.98 - share / 10} for share in (0, 0.005, 0.9)]
        for model, curve in (("dense", []), ("focus_s", by_phi)):
            measured = {"pruning": {"curve": curve, "magnitude": by_size}}
            leave(tmp_path, "sparsity", "mnist", model, 0, [0.98], measured=measured)
        [table] = pruning_tables(collect([tmp_path]))
        focused = next(each for each in table.records if each["model"] == "focus_s")
        assert focused["unpruned"] == pytest.approx(98)
        assert (focused["paper_pruned"], focused["paper_accuracy"]) == pytest.approx((80, 97))
        assert (focused["keeps"], focused["keeps_threshold"]) == pytest.approx((60, 0.5))
        assert focused["keeps_magnitude"] == pytest.approx(0.5)


class TestOptimism:
    def test_by_data_and_model(self, tmp_path: Path) -> None:
        for seed, best in enumerate((0.8, 0.82, 0.84)):
            leave(tmp_path, "e", "dna", "dense", seed, [0.8, best], val=[0.9, 0.8])
            leave(tmp_path, "e", "dna", "focus_s", seed, [0.7, 0.7], val=[0.9, 0.8])
            leave(tmp_path, "e", "dna", "dense", seed, [0.1, 0.9])  # no split, no part in it
        [table] = optimism_tables(collect([tmp_path]))
        assert [record["optimism"] for record in table.records] == pytest.approx(
            [2.0, 0.0, 1.0]
        )  # of all
        low, high = scipy_stats.t.interval(0.95, 2, 2, 2 / 3**0.5)
        first = table.records[0]
        assert (first["low"], first["high"]) == pytest.approx((low, high))
        assert (first["n"], first["most"], first["paper"]) == (3, pytest.approx(4), 82)
        assert texts(table)[-1][0] == "all of these"
        assert texts(table)[-1][3:7] == ["6", "76.00", "75.00", "+1.00 [−0.76, +2.76]"]

    def test_of_errors_it_is_negative(self, tmp_path: Path) -> None:
        leave(tmp_path, "e", "boston", "dense", 0, [3.0, 2.5], val=[1.0, 2.0])
        [table] = optimism_tables(collect([tmp_path]))
        assert texts(table) == [
            ["e", "Boston (MAE) official", "Dense", "1", "2.50", "3.00", "−0.50", "−0.50"]
        ]

    def test_sizes_and_sources_stay_apart(self, tmp_path: Path) -> None:
        for size in ("smoke", "paper"):
            for source in ("official", "fake"):
                leave(
                    tmp_path / source, "e", "dna", "dense", 0, [0.5], val=[0.5],
                    size=size, source=source, fingerprint=source,
                )  # fmt: skip
        found = optimism_tables(collect([tmp_path]))
        assert [table.name for table in found] == ["optimism_paper_paper", "optimism_smoke_paper"]
        assert [len(table.records) for table in found] == [3, 3]  # one of all

    def test_none_without_a_split(self, tmp_path: Path) -> None:
        leave(tmp_path, "e", "dna", "dense", 0, [0.5])
        assert optimism_tables(collect([tmp_path])) == []


class TestExperiment:
    def test_rows_are_what_was_swept(self, tmp_path: Path) -> None:
        for seed in range(3):
            for width in (64, 8):
                for model, better in (("dense", 0.0), ("focus_s", 0.1)):
                    leave(
                        tmp_path, "mine", "dna", model, seed,
                        [0.5 + better + seed * width / 1000],
                        options={"model.hidden": [width]},
                    )  # fmt: skip
        [table] = experiment_tables(collect([tmp_path]))
        assert [column.title for column in table.columns] == [
            "data", "model", "hidden", "paper", "last"
        ]  # fmt: skip
        assert [row[:3] for row in texts(table)] == [
            ["DNA official", "Dense", "[8]"],
            ["", "Focus-s", "[8]"],
            ["", "Dense", "[64]"],
            ["", "Focus-s", "[64]"],
        ]
        p = scipy_stats.ttest_ind([0.5, 0.508, 0.516], [0.6, 0.608, 0.616], equal_var=False).pvalue
        holm = [r.get("p_holm") for r in table.records if r["model.hidden"] == "[8]"]
        assert holm == [None, None, pytest.approx(2 * p), pytest.approx(2 * p)]

    def test_widths_stand_beside_the_authors(self, tmp_path: Path) -> None:
        for width in (64, 99):
            options = {"model.hidden": [width, width]}
            leave(tmp_path, "n_hidden", "mnist", "focus_s", 0, [0.5], options=options)
        [table] = experiment_tables(collect([tmp_path]))
        assert [row[2:5] for row in texts(table)] == [
            ["[64,64]", "97.94", "50.00 n=1"],
            ["[99,99]", "–", "50.00 n=1"],
        ]
        assert table.records[0]["author"] == 97.944

    def test_options_of_one_model_alone(self, tmp_path: Path) -> None:
        for seed in range(2):
            leave(tmp_path, "mine", "dna", "dense", seed, [0.5 + seed / 100])
            for sigma in (0.1, 0.2):
                options = {"model.sigma": sigma}
                score = 0.5 + sigma + seed / 100
                leave(tmp_path, "mine", "dna", "focus_s", seed, [score], options=options)
        [table] = experiment_tables(collect([tmp_path]))
        rows = texts(table)
        assert [row[2] for row in rows] == ["0.1", "0.2", "–"]
        assert ["p=" in row[3] for row in rows] == [True, True, False]

    def test_each_network_has_its_own_twin(self, tmp_path: Path) -> None:
        for seed in range(3):
            for model, score in {"dense": 0.5, "cnn_dense": 0.9, "cnn_focus": 0.9}.items():
                leave(tmp_path, "mine", "dna", model, seed, [score + seed / 100])
        [table] = experiment_tables(collect([tmp_path]))
        assert [
            row[2].endswith("CNN+Dns: +0.00 [−2.27, +2.27] p=1.00") for row in texts(table)
        ] == [False, False, True]

    def test_measurements_have_a_table(self, tmp_path: Path) -> None:
        for model, step in (("dense", 0.5), ("focus_s", 0.75)):
            for seed in range(2):
                timing = {"step": step + seed / 100, "threads": 1, "curve": [1, 2]}
                measured = {"timing": timing, "note": "text", "ok": True}
                focus = {"hidden1": {"moved": 0.25}, "hidden2": {"moved": 0.75}}
                moved = {"focus": focus if model == "focus_s" else None}
                leave(tmp_path, "mine", "dna", model, seed, [0.5], measured=measured, **moved)
        table = experiment_tables(collect([tmp_path]))[1]
        assert table.name == "experiment_mine_paper_paper_measured"
        assert [column.title for column in table.columns][2:] == [
            "runs", "foci moved", "timing step",
        ]  # fmt: skip
        assert texts(table)[0][2:] == ["2", "–", "0.505 [0.441, 0.569]"]
        assert texts(table)[1][2:] == ["2", "0.5", "0.755 [0.691, 0.819]"]
        assert table.notes[2] == "Equal in all runs: timing.threads = 1, seconds = 1.5."
        steps = [each for each in table.records if each["quantity"] == "timing.step"]
        assert [(each["model"], each["mean"]) for each in steps] == [
            ("dense", pytest.approx(0.505)),
            ("focus_s", pytest.approx(0.755)),
        ]

    def test_of_many_measurements_some_are_in_the_file_only(self, tmp_path: Path) -> None:
        for model in ("dense", "focus_s"):
            many = {f"q{place}": place + len(model) for place in range(14)}
            leave(tmp_path, "mine", "dna", model, 0, [0.5], measured=many)
        table = experiment_tables(collect([tmp_path]))[1]
        assert len(table.columns) == 3 + 8
        assert "6 more quantities are in experiment_mine_paper_paper_measured.csv." in table.notes
        assert len(table.records) == 2 * 15

    def test_sizes_and_sources_stay_apart(self, tmp_path: Path) -> None:
        leave(tmp_path, "mine", "dna", "dense", 0, [0.5])
        leave(tmp_path, "mine", "dna", "dense", 1, [0.5], source="other", fingerprint="f1")
        leave(tmp_path, "mine", "dna", "dense", 2, [0.5], size="quick")
        found = experiment_tables(collect([tmp_path]))
        assert [len(table.rows) for table in found] == [2, 1]

    def test_any_name_can_be_that_of_a_file(self, tmp_path: Path) -> None:
        leave(tmp_path, "my tests, first", "dna", "dense", 0, [0.5])
        [table] = experiment_tables(collect([tmp_path]))
        assert table.name == "experiment_my-tests-first_paper_paper"

    def test_tables_of_the_paper_are_not_repeated(self, tmp_path: Path) -> None:
        leave(tmp_path, "table2_simple", "dna", "dense", 0, [0.5])
        leave(tmp_path, "table1", "synthetic", "dense", 0, [0.5], options={"sweep.trial": 3})
        assert experiment_tables(collect([tmp_path])) == []


def test_failures_are_listed(tmp_path: Path) -> None:
    leave(tmp_path, "e", "dna", "dense", 0, [], status="failed", error="It diverged.\nTrace")
    [table] = failed_tables(collect([tmp_path]))
    assert texts(table)[0][:5] == ["e", "DNA", "Dense", "0", "It diverged."]
    assert texts(table)[0][5].endswith("/seed=0")
    assert table.records[0]["folder"] == texts(table)[0][5]  # of no machine
    assert table.records[0]["error"] == "It diverged.\nTrace"
    assert failed_tables(collect([tmp_path / "nowhere"])) == []


def test_experiments_of_like_names_have_files_of_their_own(tmp_path: Path) -> None:
    for name, score in {"a b": 0.9, "a-b": 0.5}.items():
        leave(tmp_path, name, "dna", "dense", 0, [score])
    names = [table.name for table in all_tables(collect([tmp_path]))]
    assert len(names) == len({name.casefold() for name in names})
    assert {"experiment_a-b_paper_paper", "experiment_a-b_paper_paper_2"} <= set(names)


def test_the_total_of_the_optimism_is_of_one_source(tmp_path: Path) -> None:
    for source, score in {"official": 0.9, "mirror": 0.8, "fake": 0.2}.items():
        leave(
            tmp_path / source, "mine", "dna", "dense", 0, [score, score + 0.1], val=[0.9, 0.8],
            source=source, fingerprint=source,
        )  # fmt: skip
    [table] = optimism_tables(collect([tmp_path]))
    totals = [row for row in table.rows if row.cells[0].lines == ("all of these",)]
    assert sorted(row.cells[1].lines for row in totals) == [("mirror",), ("official",)]
    assert {row.cells[3].lines for row in totals} == {("1",)}


def test_runs_on_a_part_of_the_data_say_so(tmp_path: Path) -> None:
    options = {"data.limit_train": 5000}
    leave(tmp_path, "mine", "dna", "dense", 0, [0.5], options=options)
    [table] = experiment_tables(collect([tmp_path]))
    assert "Runs on a part of the data: dna: data.limit_train=5000." in table.notes


def test_a_callback_alone_makes_another_setting(tmp_path: Path) -> None:
    clip = {"_target_": "focusing.callbacks.Clip"}
    for score, callbacks in ((0.9, {"clip": clip}), (0.5, {})):
        leave(tmp_path, "mine", "dna", "dense", 0, [score], options={"callbacks": callbacks})
    [table] = experiment_tables(collect([tmp_path]))
    means = [each["mean"] for each in table.records if each["protocol"] == "paper"]
    assert sorted(means) == pytest.approx([50.0, 90.0])
