"""What scores of several runs say: spread, intervals, tests, effect sizes. All by scipy.

Standard deviations here are those of a sample (``ddof=1``). The paper printed ``ddof=0``, which for
its five repeats is 11 % less.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

DDOF = 1
CONFIDENCE = 0.95
RESAMPLES = 9999
MIN_FOR_INTERVAL = 3
"""Two values have an interval of 13 deviations: print the values instead."""
MIN_TO_RESAMPLE = 20
"""A nominal 95 % bootstrap interval of a mean holds it in 83 % of cases with five values, in 93 %
with twenty; Student's in 95 %: fewer values than this get the latter."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval and how it was made: ``bootstrap`` (BCa), ``t`` or ``constant``."""

    low: float
    high: float
    method: str


@dataclass(frozen=True)
class ScoreSummary:
    """Mean, standard deviation (``ddof=1``), best and number of some scores."""

    n: int
    mean: float
    std: float | None
    best: float
    interval: Interval | None


@dataclass(frozen=True)
class Comparison:
    """How the scores of one model differ from another's.

    Attributes:
        n: numbers of scores, of the model and of the other.
        pairs: number of seeds that both have; 0 if they do not pair up.
        difference: of the means, model - other.
        test: the one that counts, ``paired`` or ``Welch``.
        interval: of the difference, of that test; not corrected for other tests.
        p: two-sided, of that test.
        t_student: Student's statistic, equal variances, as in the paper.
        p_student: two-sided.
        p_welch: two-sided, variances may differ.
        p_paired: two-sided, of the paired test.
        p_resampled: the same, corrected for test sets that overlap (Nadeau and Bengio 2003); None
            where they do not.
        hedges_g: the difference in units of the pooled deviation, corrected for few values.
        probability_of_improvement: that a run of the model beats a run of the other.
        other: name of the other.
        p_holm: p after Holm's correction over the tests of its table, once that is made.
        p_resampled_holm: the same of p_resampled.
    """

    n: tuple[int, int]
    pairs: int
    difference: float
    test: str
    interval: Interval | None
    p: float | None
    t_student: float | None
    p_student: float | None
    p_welch: float | None
    p_paired: float | None
    p_resampled: float | None
    hedges_g: float | None
    probability_of_improvement: float
    other: str = ""
    p_holm: float | None = None
    p_resampled_holm: float | None = None


def summarize(values: Sequence[float], *, lower_is_better: bool = False) -> ScoreSummary:
    """Describe some scores, at least one."""
    return ScoreSummary(
        n=len(values),
        mean=float(np.mean(values)),
        std=float(np.std(values, ddof=DDOF)) if len(values) > DDOF else None,
        best=min(values) if lower_is_better else max(values),
        interval=mean_interval(values),
    )


def compare(
    ours: Mapping[Any, float],
    theirs: Mapping[Any, float],
    *,
    other: str = "",
    lower_is_better: bool = False,
    paired: bool = False,
    overlap: float | None = None,
) -> Comparison:
    """Compare two models.

    Args:
        ours: score of every replicate of a model, by its seed (or whatever makes a pair).
        theirs: scores of the other model.
        other: its name.
        lower_is_better: the score is an error.
        paired: replicates have something in common that scores depend on, such as their test data:
            the paired test counts, if all pair up. Equal seeds alone are no such thing.
        overlap: test samples per training sample, if replicates are random splits of the same
            samples.
    """
    x, y = list(ours.values()), list(theirs.values())
    common = [key for key in ours if key in theirs]
    pairs = common if len(common) > 1 else []
    gaps = [ours[key] - theirs[key] for key in pairs]
    by_pairs = paired and bool(pairs) and len(pairs) == len(x) == len(y)
    student, welch = _t_test(x, y, equal_var=True), _t_test(x, y, equal_var=False)
    return Comparison(
        n=(len(x), len(y)),
        pairs=len(pairs),
        difference=float(np.mean(x) - np.mean(y)),
        test="paired" if by_pairs else "Welch",
        interval=mean_interval(gaps) if by_pairs else difference_interval(x, y),
        p=paired_p(gaps) if by_pairs else welch and welch[1],
        t_student=student and student[0],
        p_student=student and student[1],
        p_welch=welch and welch[1],
        p_paired=paired_p(gaps),
        p_resampled=None if overlap is None else resampled_p(gaps, overlap),
        hedges_g=hedges_g(x, y),
        probability_of_improvement=probability_of_improvement(
            x, y, lower_is_better=lower_is_better
        ),
        other=other,
    )


def mean_interval(values: Sequence[float]) -> Interval | None:
    """95 % interval of the mean; None for fewer than three values."""
    return _interval(tuple(sorted(values)))


def difference_interval(x: Sequence[float], y: Sequence[float]) -> Interval | None:
    """95 % interval of mean(x) - mean(y), unpaired; None if one has fewer than three values."""
    return _interval(tuple(sorted(x)), tuple(sorted(y)))


def paired_p(gaps: Sequence[float]) -> float | None:
    """Two-sided p of Student's paired test, from the differences of the pairs."""
    if len(gaps) < 2 or _constant(gaps):
        return None
    return float(stats.ttest_1samp(gaps, 0.0).pvalue)


def resampled_p(gaps: Sequence[float], overlap: float) -> float | None:
    """Two-sided p of the corrected resampled t-test (Nadeau and Bengio 2003).

    Random splits of the same samples share most of them, so their differences are not independent
    and the paired test finds too much: the variance of the mean is larger by the share of the test
    data.

    Args:
        gaps: the differences, one per split.
        overlap: test samples per training sample.
    """
    if len(gaps) < 2 or _constant(gaps):
        return None
    error = math.sqrt((1 / len(gaps) + overlap) * np.var(gaps, ddof=1))
    return float(2 * stats.t.sf(abs(np.mean(gaps)) / error, len(gaps) - 1))


def hedges_g(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Cohen's d with pooled deviation, times Hedges' exact correction for few values."""
    freedom = len(x) + len(y) - 2
    if len(x) < 2 or len(y) < 2 or (_constant(x) and _constant(y)):
        return None
    pooled = ((len(x) - 1) * np.var(x, ddof=1) + (len(y) - 1) * np.var(y, ddof=1)) / freedom
    correction = math.exp(
        math.lgamma(freedom / 2) - math.lgamma((freedom - 1) / 2) - 0.5 * math.log(freedom / 2)
    )
    return float((np.mean(x) - np.mean(y)) / math.sqrt(pooled) * correction)


def probability_of_improvement(
    x: Sequence[float], y: Sequence[float], *, lower_is_better: bool = False
) -> float:
    """P(a run of x beats a run of y), over all pairs, a tie counting half (Agarwal et al. 2021)."""
    sign = -1 if lower_is_better else 1
    gaps = sign * np.subtract.outer(np.asarray(x, float), np.asarray(y, float))
    return float(np.mean(gaps > 0) + 0.5 * np.mean(gaps == 0))


def holm(
    p_values: Sequence[float | None], counts_as: Sequence[Hashable] | None = None
) -> list[float | None]:
    """Holm's correction over all tests of a table; None stays None and is not counted.

    Args:
        p_values: one per test.
        counts_as: a label per test. Tests with the same label count once: the first stands for all,
            and every other is corrected as if it stood in the place of the first.
    """
    labels = list(range(len(p_values))) if counts_as is None else counts_as
    family: dict[Hashable, float] = {}
    for label, p in zip(labels, p_values, strict=True):
        if p is not None:
            family.setdefault(label, p)
    return [
        None if p is None else _holm({**family, label: p})[label]
        for label, p in zip(labels, p_values, strict=True)
    ]


def _holm(family: Mapping[Hashable, float]) -> dict[Hashable, float]:
    ordered = sorted(family, key=lambda label: family[label])
    scaled = [(len(ordered) - rank) * family[label] for rank, label in enumerate(ordered)]
    steps = np.minimum(np.maximum.accumulate(np.asarray(scaled)), 1.0)
    return {label: float(step) for label, step in zip(ordered, steps, strict=True)}


def _t_test(
    x: Sequence[float], y: Sequence[float], *, equal_var: bool
) -> tuple[float, float] | None:
    if min(len(x), len(y)) < 2 or (_constant(x) and _constant(y)):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one side may be constant
        test = stats.ttest_ind(x, y, equal_var=equal_var)
    return float(test.statistic), float(test.pvalue)


@lru_cache(maxsize=8192)  # tables, figures and the page ask for the same ones, in any order
def _interval(*samples: tuple[float, ...]) -> Interval | None:
    if min(map(len, samples)) < MIN_FOR_INTERVAL:
        return None
    if all(map(_constant, samples)):
        value = float(_difference_of_means(*map(np.asarray, samples)))
        return Interval(value, value, "constant")
    if min(map(len, samples)) >= MIN_TO_RESAMPLE:
        interval = _bootstrap(_difference_of_means, samples)
        if interval is not None:
            return interval
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        test = (
            stats.ttest_1samp(samples[0], 0.0)
            if len(samples) == 1
            else stats.ttest_ind(*samples, equal_var=False)
        )
        low, high = test.confidence_interval(CONFIDENCE)
    return Interval(float(low), float(high), "t")


def _bootstrap(
    statistic: Callable[..., Any], samples: tuple[tuple[float, ...], ...]
) -> Interval | None:
    """BCa, with a seed of its own so that equal records give equal tables."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        low, high = stats.bootstrap(
            samples,
            statistic,
            n_resamples=RESAMPLES,
            batch=1000,  # 750 trials would take 60 MB at once
            confidence_level=CONFIDENCE,
            method="BCa",
            random_state=np.random.default_rng(0),
        ).confidence_interval
    finite = math.isfinite(low) and math.isfinite(high)  # not if nearly all values are equal
    return Interval(float(low), float(high), "bootstrap") if finite else None


def _difference_of_means(x: Any, y: Any = 0.0, *, axis: int = -1) -> Any:
    return np.mean(x, axis=axis) - (np.mean(y, axis=axis) if np.ndim(y) else y)


def _constant(values: Sequence[float]) -> bool:
    return float(np.ptp(values)) <= 1e-12 * max(abs(values[0]), 1e-300)
