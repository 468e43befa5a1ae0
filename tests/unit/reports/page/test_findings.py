"""The headline says what the records say, and not more."""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from focusing.reports.differences import findings, noise_differences, pruning_results
from focusing.reports.figures.dot_figures import table_charts
from focusing.reports.page.overview import Verdict, verdicts
from focusing.reports.tables.trial_tables import trial_tables
from focusing.results.collect import collect
from focusing.results.stats import paired_p, resampled_p
from tests.unit.reports.records import add_run, add_runs, charts_of
from tests.unit.reports.test_tables_experiments import add_rescue_runs
from tests.unit.reports.test_tables_trials import add_trial


def all_verdicts(folder: Path) -> list[Verdict]:
    collection = collect([folder])
    noise = noise_differences(trial_tables(collection))
    return verdicts(collection, findings(collection), noise, pruning_results(collection))


class TestFocusedAgainstDense:
    def test_overlapping_splits_are_judged_by_the_larger_p(self, tmp_path: Path) -> None:
        splits = {"data.split": "random", "data.split_seed": None}  # each seed splits anew
        gaps = (0.010, 0.016, 0.022)
        models = {"dense": [0.5] * 3, "focus_s": [0.5 + gap for gap in gaps]}
        add_runs(tmp_path, "mine", "lfw", models, options=splits)
        [finding] = findings(collect([tmp_path]))
        [row] = [row for row in finding.rows if row.shown]
        points = [100 * gap for gap in gaps]
        paired, resampled = paired_p(points), resampled_p(points, 25 / 100)
        assert paired is not None
        assert resampled is not None
        assert paired < 0.05 < resampled
        assert row.p == pytest.approx(resampled)
        assert row.verdict == "unclear"

    def test_the_paper_on_faces(self, tmp_path: Path) -> None:
        dense = [0.6961, 0.6992, 0.6992, 0.7055, 0.6929]
        focused = [0.7339, 0.7417, 0.7543, 0.7528, 0.7386]
        add_runs(tmp_path, "table2_simple", "lfw", {"dense": dense, "focus_s": focused})
        [finding] = findings(collect([tmp_path]))
        [row] = [row for row in finding.rows if row.shown]
        assert (row.data, row.model, row.other, row.count) == ("lfw", "focus_s", "dense", "5 / 5")
        assert (row.protocol, row.verdict) == ("best_test", "better")
        assert row.value == pytest.approx(4.568)
        assert row.interval is not None
        assert row.interval.low < row.value < row.interval.high
        [verdict] = all_verdicts(tmp_path)
        assert verdict.number == "1 of 1"
        assert verdict.counts == {"better": 1, "worse": 0, "unclear": 0}

    def test_the_honest_protocol_comes_first(self, tmp_path: Path) -> None:
        for model, scores in (("dense", [0.5, 0.52]), ("focus_s", [0.6, 0.63])):
            for seed, score in enumerate(scores):
                test, val = [score, score + 0.1], [0.9, 0.8]
                add_run(tmp_path, "table2_simple", "mnist", model, seed, test, val=val)
        [finding] = findings(collect([tmp_path]))
        assert {row.protocol: row.shown for row in finding.rows} == {
            "best_test": False, "holdout": True, "last": False,
        }  # fmt: skip
        optimism = all_verdicts(tmp_path)[1]
        assert optimism.number == "+10.00 points"
        assert optimism.link == "#table-optimism_full_text"

    @pytest.mark.parametrize(
        ("runs", "judged"),
        [
            pytest.param(
                {"boston": {"dense": [3.1, 3.11, 3.12], "focus_s": [2.1, 2.11, 2.13]}},
                {("boston", "focus_s", "better")},
                id="of errors less is better",
            ),
            pytest.param(
                {"mnist": {"dense": [0.5, 0.9], "focus_s": [0.6, 0.95]}},
                {("mnist", "focus_s", "unclear")},
                id="what is not sure is unclear",
            ),
            pytest.param(
                {"mnist": {"dense": [0.5], "focus_s": [0.9]}}, set(), id="one run is no finding"
            ),
            pytest.param(
                {"clt": {"dense": [0.60, 0.61, 0.62], "dynamic_2d": [0.95, 0.96, 0.97]}},
                {("clt", "dynamic_2d", "better")},
                id="foci that follow the input are judged",
            ),
            pytest.param(
                {
                    "mnist": dict.fromkeys(("dense", "fixed_s", "focus_s"), [0.5, 0.6]),
                    "fashion": {"fixed_s": [0.5, 0.6], "focus_s": [0.5, 0.7]},
                },
                {("mnist", "focus_s", "unclear")},
                id="only focused networks against their dense twin",
            ),
        ],
    )
    def test_what_is_judged(
        self, tmp_path: Path, runs: dict[str, dict[str, list[float]]], judged: set[Any]
    ) -> None:
        for data, models in runs.items():
            add_runs(tmp_path, "mine", data, models)
        rows = [row for finding in findings(collect([tmp_path])) for row in finding.rows]
        assert {(row.data, row.model, row.verdict) for row in rows} == judged
        assert bool(all_verdicts(tmp_path)) == bool(judged)

    def test_editions_are_not_mixed_and_smoke_is_no_headline(self, tmp_path: Path) -> None:
        for size, scores in (("smoke", [0.1, 0.2]), ("quick", [0.8, 0.9])):
            models = {"dense": scores, "focus_s": scores}
            add_runs(tmp_path, "table2_simple", "mnist", models, size=size)
        shown = findings(collect([tmp_path]))
        assert [finding.edition for finding in shown] == ["quick runs", "smoke tests"]
        assert all(finding.minor for finding in shown)
        assert all_verdicts(tmp_path)[0].number == "0 of 2"
        models = {"dense": [0.5, 0.6], "focus_s": [0.5, 0.6]}
        add_runs(tmp_path, "table2_simple", "fashion", models)
        assert all_verdicts(tmp_path)[0].number == "0 of 1"  # where there are better ones

    def test_the_headline_counts_all_but_what_is_meant_to_fail(self, tmp_path: Path) -> None:
        dense = {"dense": [0.5, 0.51, 0.52]}
        worse = {"focus_s": [0.2, 0.22, 0.21], "focus_c": [0.1, 0.12, 0.11]}
        add_runs(tmp_path, "table2_simple", "mnist", dense | {"focus_s": [0.8, 0.81, 0.82]})
        add_runs(tmp_path, "table4_other", "dna", dense | worse)
        add_runs(tmp_path, "stuck", "synthetic", dense | worse)
        assert len(findings(collect([tmp_path]))) == 3
        [verdict] = all_verdicts(tmp_path)
        assert verdict.number == "1 of 3"
        assert verdict.words == "comparisons: a focused network beats its dense twin"
        assert verdict.counts == {"better": 1, "worse": 2, "unclear": 0}

    def test_own_experiments_by_the_values_of_their_options(self, tmp_path: Path) -> None:
        for width in (1000, 64, 256):
            models = {"dense": [0.5, 0.6], "focus_s": [0.5, 0.6]}
            add_runs(tmp_path, "mine", "mnist", models, options={"model.hidden": [width]})
        [finding] = findings(collect([tmp_path]))
        labels = [row.label[-1] for row in finding.rows if row.protocol == "best_test"]
        assert labels == [f"hidden layers [{width}]" for width in (64, 256, 1000)]

    def test_plots_share_a_scale(self, tmp_path: Path) -> None:
        near = {"dense": [0.5, 0.51, 0.505], "focus_s": [0.60, 0.61, 0.605]}
        wide = {"dense": [0.5, 0.9, 0.7], "focus_s": [0.6, 0.9, 0.75]}
        for data, models in (("mnist", near), ("fashion", wide)):
            add_runs(tmp_path, "table2_simple", data, models)
        [finding] = findings(collect([tmp_path]))
        [mnist, fashion] = [row for row in finding.rows if row.shown]
        assert finding.reach(mnist.unit) == pytest.approx(3 * mnist.value)  # and not all of this:
        assert fashion.interval is not None
        assert fashion.interval.high > finding.reach(mnist.unit)

    def test_a_plot_holds_the_only_interval(self, tmp_path: Path) -> None:
        models = {"cnn_dense": [0.5, 0.6, 0.55], "cnn_focus": [0.5, 0.6, 0.551]}
        add_runs(tmp_path, "table2_cnn", "fsdd", models)
        [finding] = findings(collect([tmp_path]))
        [row] = [row for row in finding.rows if row.shown]
        assert row.interval is not None
        assert row.interval.high > 3 * abs(row.value)
        assert finding.reach(row.unit) == pytest.approx(max(-row.interval.low, row.interval.high))


class TestFakeData:
    """Numbers on top of the page, and beside the paper's, come from no data that was made up."""

    FAKE: ClassVar[dict[str, Any]] = {"source": "fake", "fingerprint": "fake"}

    def add_run(self, folder: Path, name: str, **more: Any) -> None:
        points = [{"sparsity": s, "acc": 0.9, "layers": {}} for s in (0.0, 0.7)]
        measured = {"pruning": {"curve": points, "magnitude": []}}
        for model, score in (("dense", 0.5), ("focus_s", 0.9)):
            for seed in range(3):
                test = [score + seed / 100, score]
                add_run(folder, name, "mnist", model, seed, test, val=[0.1, 0.2], measured=measured,
                      **more)  # fmt: skip

    @pytest.mark.parametrize("name", ["table2_simple", "sparsity", "mine"])
    def test_they_are_no_headline_and_change_none(self, tmp_path: Path, name: str) -> None:
        self.add_run(tmp_path / "fake", name, **self.FAKE)
        assert all_verdicts(tmp_path) == []
        self.add_run(tmp_path / "real", name)
        assert len(all_verdicts(tmp_path)) == 3
        assert all_verdicts(tmp_path) == all_verdicts(tmp_path / "real")

    def test_no_difference_to_the_paper(self, tmp_path: Path) -> None:
        self.add_run(tmp_path, "table2_simple", **self.FAKE)
        charts = charts_of(table_charts, collect([tmp_path]))
        assert charts
        assert all(row["minus_published"] is None for chart in charts for row in chart.rows)
        assert not any("the paper's means" in chart.caption for chart in charts)


class TestFoci:
    def add_run(self, folder: Path, seed: int, data_seed: int, last: float, **more: Any) -> None:
        focus = {"hidden1": {"inside_first": 0.25, "inside_last": last}}
        add_run(folder, "learning_to_focus", "synthetic", "focus_s", seed, [0.5],
              options={"data.seed": data_seed}, focus=focus, **more)  # fmt: skip

    def test_of_all_data_sets(self, tmp_path: Path) -> None:
        for number, last in enumerate((0.5, 0.75, 1.0)):
            self.add_run(tmp_path, 7, number, last)
            self.add_run(tmp_path, 7 + number, 2, 1.0)
        [verdict] = all_verdicts(tmp_path)
        assert verdict.number == "75 %"
        assert "where 25 % begin" in verdict.words
        assert verdict.detail == "95 % [13, 100], 3 runs on data of their own (learning to focus)"
        assert verdict.link == "#table-experiment_learning_to_focus_full_text_measured"

    def test_of_seeds_on_the_same_data(self, tmp_path: Path) -> None:
        for seed in range(2):
            self.add_run(tmp_path, seed, 2, 0.5, size="quick")
        [verdict] = all_verdicts(tmp_path)
        assert verdict.detail.endswith("2 runs (learning to focus, quick runs)")


def test_the_optimism_is_that_of_most_runs(tmp_path: Path) -> None:
    add_run(tmp_path, "a", "clt", "dense", 0, [0.5, 0.9], val=[0.2, 0.1], source="local")
    names = [f"b{number}" for number in range(8)]
    for name in names:
        add_run(tmp_path, name, "dna", "dense", 0, [0.5, 0.6], val=[0.2, 0.1])
    [verdict] = all_verdicts(tmp_path)
    assert (verdict.number, "8 runs, official data" in verdict.detail) == ("+10.00 points", True)
    assert verdict.tags["experiment"].split() == names  # equal records give equal pages


def test_what_helps_is_a_finding_but_no_win_over_dense(tmp_path: Path) -> None:
    add_rescue_runs(tmp_path)
    [finding] = findings(collect([tmp_path]))
    [row] = [row for row in finding.rows if row.shown]
    assert (row.other, row.label[-1], row.verdict) == (
        "unchanged",
        "learning rate of μ 0.01",
        "better",
    )
    assert row.value == pytest.approx(11)
    assert all_verdicts(tmp_path) == []


def test_many_options_are_named_where_they_are_changed(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {}, {"optim.lr_mu": 0.1}, {"optim.anneal_from": 4.0}, {"optim.mu_repulsion": 1.0},
    ]  # fmt: skip
    for seed in range(2):
        for number, options in enumerate(changes):
            scores = [0.5 + 0.1 * number + 0.01 * seed * number]
            add_run(tmp_path, "rescue", "synthetic", "focus_s", seed, scores, options=options)
    [finding] = findings(collect([tmp_path]))
    assert {row.label[2:] for row in finding.rows} == {
        ("learning rate of μ 0.1",), ("σ first 4 times as wide",), ("repulsion of centres 1",),
    }  # fmt: skip


def test_noise(tmp_path: Path) -> None:
    for number, noise in enumerate((0, 0, 8, 8)):
        focused = 0.5 + 0.025 * noise + 0.01 * (number % 2)
        add_trial(tmp_path, number, {"dense": 0.5, "focus_s": focused}, noise)
    [trials] = noise_differences(trial_tables(collect([tmp_path])))
    shown = {row.label[0]: row.value for row in trials.rows if row.shown}
    assert shown == pytest.approx(
        {
            "all trials": 10.5,
            "no noise columns": 0.5,
            "as many noise columns as informative ones": 20.5,
        }
    )
    [verdict] = all_verdicts(tmp_path)
    assert (verdict.number, verdict.link) == ("+20.50 points", "#noise")
    assert verdict.words.endswith("informative ones; without noise +0.50")
    assert verdict.detail.endswith("2 pairs, protocol best_test")


class TestSparsity:
    def measured(self, *points: tuple[float, float], rule: str = "curve") -> dict[str, Any]:
        return {
            "pruning": {
                "curve": [], "magnitude": [],
                rule: [{"sparsity": s, "acc": a, "layers": {}} for s, a in points],
            }
        }  # fmt: skip

    def test_what_can_go_before_a_point_is_lost(self, tmp_path: Path) -> None:
        curve = self.measured((0.0, 0.9), (0.5, 0.895), (0.8, 0.89), (0.9, 0.85), (0.95, 0.9))
        add_run(tmp_path, "sparsity", "mnist", "focus_s", 0, [0.9], measured=curve)
        dense = self.measured((0.3, 0.9), (0.0, 0.9), (0.6, 0.2), rule="magnitude")
        add_run(tmp_path, "sparsity", "mnist", "dense", 0, [0.9], measured=dense)
        rows = pruning_results(collect([tmp_path]))
        assert {(row.model, row.rule, row.dropped.mean) for row in rows} == {
            ("focus_s", "by focus", 80.0), ("dense", "by magnitude", 30.0),
        }  # fmt: skip
        [verdict] = all_verdicts(tmp_path)
        assert verdict.number == "80.0 %"
        assert verdict.words == "of the connections of Focus-s can go on MNIST"

    def test_shorter_runs_are_labelled(self, tmp_path: Path) -> None:
        curve = self.measured((0.0, 0.9), (0.5, 0.9))
        for size in ("full", "quick"):
            add_run(tmp_path, "sparsity", "mnist", "focus_s", 0, [0.9], size=size, measured=curve)
        labels = [row.label[2:] for row in pruning_results(collect([tmp_path]))]
        assert sorted(labels) == [(), ("quick runs",)]

    def test_a_curve_without_a_beginning_tells_nothing(self, tmp_path: Path) -> None:
        curve = self.measured((0.5, 0.9), (0.9, 0.9))
        add_run(tmp_path, "sparsity", "mnist", "focus_s", 0, [0.9], measured=curve)
        assert pruning_results(collect([tmp_path])) == []
