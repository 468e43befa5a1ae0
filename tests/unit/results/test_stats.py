"""Statistics compared with scipy, with results by hand, and with the paper."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from focusing.reports.paper import paper, published_tables
from focusing.results import stats
from focusing.results.stats import (
    Interval,
    compare,
    difference_interval,
    hedges_g,
    holm,
    mean_interval,
    paired_p,
    probability_of_improvement,
    resampled_interval,
    resampled_p,
    summarize,
)

X, Y = [3.0, 5.0, 4.0, 8.0], [1.0, 2.0, 4.0]


def numbered(values: list[float]) -> dict[int, float]:
    return dict(enumerate(values))


def bounds(interval: Interval | None, method: str) -> tuple[float, float]:
    assert interval is not None
    assert interval.method == method
    return interval.low, interval.high


class TestThePaper:
    def test_lfw_of_635_images(self) -> None:
        """The accuracies in the author's code, with two decimals, are multiples of 1/635."""
        lists = paper()["repeats"]["table2_simple"]["lfw"]
        dense, focus = (
            numbered([round(value * 6.35) / 6.35 for value in lists[model]])
            for model in ("dense", "focus_s")
        )
        exact = compare(dense, focus)
        assert exact.t_student == pytest.approx(-10.1, abs=0.05)
        assert exact.p_student == pytest.approx(7.8e-6, abs=0.05e-6)

    @pytest.mark.parametrize(
        ("experiment", "data"),
        [
            ("table2_simple", "lfw"),
            ("table2_cnn", "lfw"),
            ("table3_transfer", "cifar10"),
            ("table3_transfer", "catsdogs"),
        ],
    )
    def test_its_t_tests_follow_from_its_lists(self, experiment: str, data: str) -> None:
        test = published_tables()[experiment].tests[data]
        lists = paper()["repeats"][experiment][data]
        ours = compare(*(numbered(lists[model]) for model in test.models))
        assert ours.t_student == pytest.approx(test.t, abs=0.03)
        assert ours.p_student == pytest.approx(test.p, rel=0.02)

    def test_its_means_follow_from_its_lists(self) -> None:
        tables = published_tables()
        for experiment, data_sets in paper()["repeats"].items():
            for data, models in data_sets.items():
                for model, values in models.items():
                    cell = tables[experiment].cells[data][model]
                    assert summarize(values).mean == pytest.approx(cell.mean, abs=0.07)
                    assert summarize(values).best == pytest.approx(cell.best, abs=0.06)

    @pytest.mark.parametrize(
        ("experiment", "data", "model"),
        [
            ("table2_simple", "lfw", "focus_s"),  # printed as a fraction
            ("table2_cnn", "lfw", "cnn_dense"),
            ("table2_simple", "fashion", "focus_s"),  # printed in points
            ("table3_transfer", "cifar10", "vgg_focus"),
        ],
    )
    def test_paper_has_ddof_0_ours_1(self, experiment: str, data: str, model: str) -> None:
        cell = published_tables()[experiment].cells[data][model]
        values = paper()["repeats"][experiment][data][model]
        assert cell.possible
        assert cell.std_points == pytest.approx(np.std(values), rel=0.25)  # one digit
        assert summarize(values).std == pytest.approx(np.std(values) * math.sqrt(5 / 4))

    def test_impossible_deviations_of_the_paper(self) -> None:
        cells = published_tables()["table2_simple"].cells
        assert not cells["clt"]["dense"].possible  # the best of five is nearer than any s allows
        assert published_tables()["table4_other"].cells["boston"]["dense"].std_points == 0.21


def test_summarize() -> None:
    summary = summarize(X)
    assert (summary.n, summary.mean, summary.best) == (4, 5.0, 8.0)
    assert summary.std == pytest.approx(math.sqrt(14 / 3))
    assert summarize(X, lower_is_better=True).best == 3.0
    single = summarize([2.0])
    assert (single.mean, single.std, single.interval) == (2.0, None, None)


class TestIntervals:
    def test_few_values_use_students_interval(self) -> None:
        expected = scipy_stats.t.interval(0.95, 3, np.mean(X), scipy_stats.sem(X))
        assert bounds(mean_interval(X), "t") == pytest.approx(expected)
        welch = scipy_stats.ttest_ind(X, Y, equal_var=False).confidence_interval()
        difference = bounds(difference_interval(X, Y), "t")
        assert difference == pytest.approx((welch.low, welch.high))

    def test_many_values_use_the_bootstrap(self) -> None:
        random = np.random.default_rng(1)
        values = random.exponential(size=100)
        expected = scipy_stats.bootstrap(
            (values,), np.mean, method="BCa", n_resamples=9999, random_state=1
        ).confidence_interval
        assert bounds(mean_interval(list(values)), "bootstrap") == pytest.approx(
            tuple(expected), abs=0.02
        )
        x, y = random.normal(size=50), random.normal(size=40) + 1
        welch = scipy_stats.ttest_ind(x, y, equal_var=False).confidence_interval()
        difference = bounds(difference_interval(list(x), list(y)), "bootstrap")
        assert difference == pytest.approx((welch.low, welch.high), abs=0.05)

    def test_intervals_do_not_depend_on_order(self) -> None:
        values = list(np.random.default_rng(1).normal(size=30))
        first = bounds(mean_interval(values), "bootstrap")
        stats._interval.cache_clear()
        assert bounds(mean_interval(values[::-1]), "bootstrap") == first

    def test_interval_of_constants(self) -> None:
        assert bounds(mean_interval([2.0] * 30), "constant") == (2.0, 2.0)
        assert bounds(difference_interval([2.0] * 3, [1.0] * 3), "constant") == (1.0, 1.0)

    def test_coverage(self) -> None:
        random = np.random.default_rng(0)
        intervals = [bounds(mean_interval(list(random.normal(size=5))), "t") for _ in range(400)]
        assert 0.92 < np.mean([low <= 0 <= high for low, high in intervals]) < 0.98

    def test_students_interval_if_the_bootstrap_fails(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stats, "_bootstrap", lambda *_: None)
        assert bounds(mean_interval([1.0] * 20 + [2.0, 3.5]), "t")


class TestComparison:
    def test_against_scipy(self) -> None:
        ours = compare(numbered(X), numbered(Y))
        student = scipy_stats.ttest_ind(X, Y)
        expected = (student.statistic, student.pvalue)
        assert (ours.t_student, ours.p_student) == pytest.approx(expected)
        assert ours.p_welch == pytest.approx(scipy_stats.ttest_ind(X, Y, equal_var=False).pvalue)
        assert (ours.n, ours.difference) == ((4, 3), pytest.approx(5 - 7 / 3))

    def test_seeds_pair_up(self) -> None:
        ours, theirs = {0: 3.0, 17: 5.0, 34: 4.0}, {34: 3.5, 17: 4.0, 0: 2.5}
        paired = compare(ours, theirs, paired=True)
        expected = scipy_stats.ttest_rel([3.0, 5.0, 4.0], [2.5, 4.0, 3.5])
        assert paired.pairs == 3
        assert paired.p == paired.p_paired == pytest.approx(expected.pvalue)
        assert paired.interval == mean_interval([0.5, 1.0, 0.5])
        unpaired = compare(ours, theirs)  # interval and p are of one test
        assert (unpaired.test, unpaired.p) == ("Welch", unpaired.p_welch)
        assert unpaired.interval == difference_interval(list(ours.values()), list(theirs.values()))

    def test_some_or_no_seeds_pair_up(self) -> None:
        some = compare({0: 3.0, 1: 5.0, 2: 9.0}, {0: 2.0, 1: 3.0}, paired=True)
        assert (some.pairs, some.test) == (2, "Welch")
        assert some.interval == difference_interval([3.0, 5.0, 9.0], [2.0, 3.0])
        none = compare({0: 3.0, 1: 5.0}, {2: 2.0, 3: 3.0})
        assert (none.pairs, none.p_paired) == (0, None)

    def test_no_test_for_too_few_or_constant_scores(self) -> None:
        single = compare({0: 3.0}, {0: 2.0})
        assert (single.difference, single.probability_of_improvement) == (1.0, 1.0)
        assert single.interval is None
        constant = compare({0: 3.0, 1: 3.0}, {0: 2.0, 1: 2.0})
        for ours in (single, constant):
            assert {ours.t_student, ours.p_welch, ours.p_paired, ours.hedges_g} == {None}
        assert compare({0: 3.0, 1: 3.0}, {0: 2.0, 1: 2.5}).p_welch is not None
        assert paired_p([1.0]) is paired_p([1.0, 1.0]) is None

    def test_hedges_g_by_hand(self) -> None:
        pooled = math.sqrt((14 + 14 / 3) / 5)
        expected = (5 - 7 / 3) / pooled * (1 - 3 / (4 * 5 - 1))
        assert hedges_g(X, Y) == pytest.approx(expected, rel=0.01)

    def test_probability_of_improvement_is_mann_whitneys_u(self) -> None:
        # 3 beats 1, 2; 4 beats 1, 2 and ties 4; 5 and 8 beat all: (2 + 3 + 2.5 + 3) / 12
        assert probability_of_improvement(X, Y) == pytest.approx(10.5 / 12)
        assert probability_of_improvement(X, Y, lower_is_better=True) == pytest.approx(1.5 / 12)
        u = scipy_stats.mannwhitneyu(X, Y).statistic
        assert probability_of_improvement(X, Y) == pytest.approx(u / (len(X) * len(Y)))

    def test_resampled_p_by_hand(self) -> None:
        """Nadeau and Bengio: variance / n becomes variance * (1 / n + test / train)."""
        t = 2.0 / math.sqrt(1 / 3 + 1 / 4)
        assert resampled_p([1.0, 2.0, 3.0], 1 / 4) == pytest.approx(2 * scipy_stats.t.sf(t, 2))
        assert resampled_p(X, 0.0) == pytest.approx(paired_p(X))  # without overlap
        assert compare(numbered(X), numbered(Y), paired=True).p_resampled is None
        assert resampled_p([1.0, 1.0], 0.25) is None

    def test_interval_of_overlapping_splits_agrees_with_their_p(self) -> None:
        gaps = [1.0, 2.0, 3.0]
        half = scipy_stats.t.ppf(0.975, 2) * math.sqrt(1 / 3 + 1 / 4)
        ours, theirs = numbered(gaps), dict.fromkeys(range(3), 0.0)
        interval = compare(ours, theirs, paired=True, overlap=1 / 4).interval
        assert bounds(interval, "resampled") == pytest.approx((2 - half, 2 + half))
        edge = 1 / (scipy_stats.t.ppf(0.975, 2) / 2) ** 2 - 1 / 3  # the interval touches 0
        assert resampled_p(gaps, edge) == pytest.approx(0.05)
        low, _ = bounds(resampled_interval(gaps, edge), "resampled")
        assert low == pytest.approx(0, abs=1e-12)
        assert resampled_interval([1.0, 1.0, 1.0], 1 / 4) == Interval(1.0, 1.0, "constant")
        assert resampled_interval([1.0, 2.0], 1 / 4) is None

    def test_the_larger_p_decides(self) -> None:
        test = compare(numbered(X), numbered(Y))
        assert test.p_decisive is None  # before the correction
        assert replace(test, p_holm=0.01).p_decisive == 0.01
        assert replace(test, p_holm=0.01, p_resampled_holm=0.2).p_decisive == 0.2


class TestHolm:
    def test_by_hand(self) -> None:
        assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
        assert holm([0.01, None, 0.04]) == [pytest.approx(0.02), None, pytest.approx(0.04)]
        assert (holm([]), holm([None])) == ([], [None])

    def test_equal_labels_count_once(self) -> None:
        """The first stands for both; the other is corrected as if it stood in its place."""
        labels = ["fashion", "mnist", "fashion"]
        assert holm([0.02, 0.03, 0.001], labels) == pytest.approx([0.04, 0.04, 0.002])
        assert holm([None, 0.03, 0.02], labels) == [None, *map(pytest.approx, (0.04, 0.04))]

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
    def test_between_none_and_bonferroni(self, p_values: list[float]) -> None:
        corrected = holm(p_values)
        for p, raised in zip(p_values, corrected, strict=True):
            assert raised is not None
            assert p <= raised <= min(1, p * len(p_values))
        order = np.argsort(p_values, kind="stable")
        ordered = [corrected[place] for place in order]
        assert ordered == sorted(ordered)  # type: ignore[type-var]
