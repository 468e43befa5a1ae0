"""Splits: official, random, folds, and the validation split of the training data."""

import numpy as np
import pytest
import torch

from focusing.data import Split, hold_out
from focusing.data.splits import SplitOptions, partition, read_split
from focusing.errors import UserError

LABELS = np.repeat([0, 1, 2], [60, 30, 10])[np.random.default_rng(0).permutation(100)]


def divide(classes: int = 3, official: int | None = 80, **options):
    return partition(LABELS, classes, official, SplitOptions(**options))


def test_the_official_split_is_the_order_of_the_files() -> None:
    train, test = divide()
    np.testing.assert_array_equal(train, np.arange(80))
    np.testing.assert_array_equal(test, np.arange(80, 100))


@pytest.mark.parametrize("options", [{"test_share": 0.2}, {}])
def test_a_random_split_is_stratified_and_reproducible(options: dict[str, float]) -> None:
    train, test = divide(split="random", **options)
    assert sorted([*train, *test]) == list(range(100))
    assert np.bincount(LABELS[test]).tolist() == [12, 6, 2]
    np.testing.assert_array_equal(train, divide(split="random", **options)[0])
    other, _ = divide(split="random", split_seed=1, **options)
    assert train.tolist() != other.tolist()
    by_run, _ = divide(split="random", split_seed=None, run_seed=1, **options)
    np.testing.assert_array_equal(by_run, other)


@pytest.mark.parametrize(("total", "share", "count"), [(3023, 0.25, 756), (3186, 0.2, 638)])
def test_shares_are_rounded_up_as_in_scikit_learn(total: int, share: float, count: int) -> None:
    options = SplitOptions(split="random", test_share=share)
    train, test = partition(np.arange(total) % 3, 3, None, options)
    assert (len(train), len(test)) == (total - count, count)


@pytest.mark.parametrize(("share", "count"), [(None, 40), (0.1, 10)])
def test_the_user_overrides_the_default_test_share(share: float | None, count: int) -> None:
    options = SplitOptions(split="random", test_share=share)
    assert len(partition(LABELS, 3, 80, options, test_share=0.4)[1]) == count


@pytest.mark.parametrize("classes", [0, 3])
def test_folds_cover_all_samples_once_and_evenly(classes: int) -> None:
    folds = [divide(classes, split="kfold(7)", fold=fold) for fold in range(7)]
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(100))
    assert {len(test) for _, test in folds} == {14, 15}
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(100))
        if classes:
            assert np.ptp([*np.bincount(LABELS[test], minlength=3) - [60 / 7, 30 / 7, 10 / 7]]) < 2


def test_limits_are_stratified() -> None:
    train, test = divide(split="random", test_share=0.5, limit_train=10, limit_test=20)
    assert np.bincount(LABELS[train]).tolist() == [6, 3, 1]
    assert np.bincount(LABELS[test]).tolist() == [12, 6, 2]
    assert len(divide(limit_train=1000)[0]) == 80


def test_kfold_defaults_to_ten_folds() -> None:
    assert read_split("kfold") == read_split("kfold(10)") == read_split("kfold10")
    assert read_split("kfold7") == ("kfold", 7)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"split": "half"}, "data.split=half is not one of official, random, kfold5"),
        ({"split": "random(3)"}, "is not one of"),
        ({"split": "kfold(3)", "fold": 3}, "data.fold=3 must lie between 0 and 2"),
        ({"split": "kfold(101)"}, "of 100 samples is impossible"),
        ({"split": "random", "test_share": 1.5}, "must lie between 0 and 1"),
        ({"limit_test": 0}, "data.limit_test=0 must be at least 1"),
        ({"official": None}, "this data set has none, use data.split=random data.test_share=0.2"),
        ({"official": None, "split": "random"}, "needs data.test_share"),
        (
            {"test_share": 0.2},
            "data.test_share=0.2 has no effect with data.split=official, use null",
        ),
        ({"split": "kfold5", "test_share": 0.2}, "has no effect with data.split=kfold, use null"),
        ({"fold": 2}, "data.fold=2 has no effect with data.split=official, use 0"),
        ({"split": "random", "fold": 2}, "data.fold=2 has no effect with data.split=random"),
        ({"split": "random", "split_seed": -1}, "data.split_seed=-1 must be at least 0, or null"),
        ({"split_seed": 3}, "data.split_seed=3 has no effect with data.split=official"),
    ],
)
def test_impossible_options_are_refused(options, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        divide(**options)


def numbered(targets: torch.Tensor) -> Split:
    return Split(torch.arange(len(targets)).float(), targets)


def test_a_validation_split_is_stratified_and_reproducible() -> None:
    targets = torch.tensor([0] * 50 + [1] * 30 + [2] * 20)[torch.randperm(100)]
    rest, held = hold_out(numbered(targets), 0.2, seed=0, classes=3)
    assert held.targets.bincount().tolist() == [10, 6, 4]
    both = torch.cat([rest.inputs, held.inputs])
    assert both.sort().values.tolist() == list(range(100))
    again, other = (hold_out(numbered(targets), 0.2, seed, 3)[1].inputs for seed in (0, 1))
    assert torch.equal(held.inputs, again)
    assert not torch.equal(held.inputs, other)
    rest, held = hold_out(numbered(torch.randn(20)), 0.25, seed=0, classes=0)
    assert (len(rest.targets), len(held.targets)) == (15, 5)


@pytest.mark.parametrize("share", [0.0, 1.0, -1, 0.001])
def test_an_empty_side_is_refused(share: float) -> None:
    with pytest.raises(UserError, match=r"protocol\.holdout"):
        hold_out(numbered(torch.arange(10) % 2), share, seed=0, classes=2)
