"""Optimism, the course of training, pruning, and failures."""

from pathlib import Path

import pytest
from scipy import stats as scipy_stats

from focusing.reports.tables.diagnostics import (
    course_tables,
    failed_tables,
    optimism_tables,
    pruning_tables,
)
from focusing.results.collect import collect
from tests.unit.reports.records import add_run, texts


def test_course_of_training(tmp_path: Path) -> None:
    score = [0.9, 0.9, 0.9]
    series = {"test/loss": [0.5, 0.2, 0.4], "train/loss": [0.5, 0.1, 0.01], "test/acc": score}
    focus = {"hidden1": {"moved": 0.1, "sigma_first": 0.025, "sigma_last": 0.08}}
    for seed in (0, 17):
        about = {"series": series, "focus": focus}
        add_run(tmp_path, "table2_simple", "mnist", "focus_s", seed, score, **about)
    [table] = course_tables(collect([tmp_path]))
    assert table.name == "course_table2_simple_full_text"
    [record] = table.records
    assert (record["least_epoch"], record["least"], record["last"]) == (2, 0.2, 0.4)
    assert (record["highest"], record["sigma_last_1"]) == (0.5, 0.08)
    assert " ".join(texts(table)[0][2:]) == "2 2 0.200 0.400 0.5 0.0100 0.025 0.080"


def test_pruning_by_phi_and_by_magnitude(tmp_path: Path) -> None:
    by_phi = [
        {"threshold": t, "sparsity": share, "acc": score}
        for t, share, score in ((0, 0, 0.98), (0.5, 0.6, 0.98), (0.8, 0.7, 0.979), (1.0, 0.8, 0.97))
    ]
    by_size = [{"sparsity": share, "acc": 0.98 - share / 10} for share in (0, 0.005, 0.9)]
    for model, curve in (("dense", []), ("focus_s", by_phi)):
        measured = {"pruning": {"curve": curve, "magnitude": by_size}}
        add_run(tmp_path, "sparsity", "mnist", model, 0, [0.98], measured=measured)
    [table] = pruning_tables(collect([tmp_path]))
    [focused] = [record for record in table.records if record["model"] == "focus_s"]
    assert focused["unpruned"] == pytest.approx(98)
    assert (focused["paper_pruned"], focused["paper_accuracy"]) == pytest.approx((80, 97))
    assert (focused["keeps"], focused["keeps_threshold"]) == pytest.approx((70, 0.8))
    assert focused["as_dense"] == pytest.approx(60)  # then it is worse, if by a tenth only
    assert focused["keeps_magnitude"] == pytest.approx(0.5)
    assert focused["magnitude_80"] == pytest.approx(89)


class TestOptimism:
    def test_by_data_and_model(self, tmp_path: Path) -> None:
        for seed, best in enumerate((0.8, 0.82, 0.84)):
            add_run(tmp_path, "e", "dna", "dense", seed, [0.8, best], val=[0.9, 0.8])
            add_run(tmp_path, "e", "dna", "focus_s", seed, [0.7, 0.7], val=[0.9, 0.8])
            add_run(tmp_path, "e", "dna", "dense", seed, [0.1, 0.9])  # no split, no part in it
        [table] = optimism_tables(collect([tmp_path]))
        optimism = [record["optimism"] for record in table.records]
        assert optimism == pytest.approx([2.0, 0.0, 1.0])  # the last is of all
        first = table.records[0]
        bounds = scipy_stats.t.interval(0.95, 2, 2, 2 / 3**0.5)
        assert (first["low"], first["high"]) == pytest.approx(bounds)
        assert (first["n"], first["most"], first["best_test"]) == (3, pytest.approx(4), 82)
        assert texts(table)[-1][0] == "all of these"
        assert texts(table)[-1][3:7] == ["6", "76.00", "75.00", "+1.00 [−0.76, +2.76]"]

    def test_of_errors_it_is_negative(self, tmp_path: Path) -> None:
        add_run(tmp_path, "e", "boston", "dense", 0, [3.0, 2.5], val=[1.0, 2.0])
        [table] = optimism_tables(collect([tmp_path]))
        assert texts(table) == [
            ["e", "Boston (MAE) official", "Dense", "1", "2.50", "3.00", "−0.50", "−0.50"]
        ]

    def test_sizes_and_sources_stay_apart(self, tmp_path: Path) -> None:
        add_run(tmp_path, "e", "dna", "dense", 1, [0.5])  # without a validation split
        assert optimism_tables(collect([tmp_path])) == []
        for size in ("smoke", "full"):
            for source in ("official", "mirror", "fake"):
                add_run(
                    tmp_path / source, "e", "dna", "dense", 0, [0.5], val=[0.5],
                    size=size, source=source, fingerprint=source,
                )  # fmt: skip
        tables = optimism_tables(collect([tmp_path]))
        assert [table.name for table in tables] == ["optimism_full_text", "optimism_smoke_text"]
        for table in tables:  # a total of one source, and none of fake data
            totals = [row[1:4] for row in texts(table) if row[0] == "all of these"]
            assert sorted(totals) == [["mirror", "", "1"], ["official", "", "1"]]


def test_failures_are_listed(tmp_path: Path) -> None:
    add_run(tmp_path, "e", "dna", "dense", 0, [], status="failed", error="It diverged.\nTrace")
    [table] = failed_tables(collect([tmp_path]))
    [row] = texts(table)
    assert row[:5] == ["e", "DNA", "Dense", "0", "It diverged."]
    assert row[5].endswith("/seed=0")
    assert (table.records[0]["folder"], table.records[0]["error"]) == (
        row[5],
        "It diverged.\nTrace",
    )
    assert failed_tables(collect([tmp_path / "nowhere"])) == []
