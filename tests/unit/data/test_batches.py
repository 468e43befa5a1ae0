"""Batches: the same for a seed and an epoch, whatever happened before."""

import pytest
import torch

from focusing.config import drops_rest
from focusing.data import Batches, Split
from focusing.data.batches import epoch_seed


def split(samples: int = 10) -> Split:
    return Split(torch.arange(samples).float()[:, None].expand(-1, 3), torch.arange(samples))


def seen(batches: Batches) -> list[int]:
    return [int(each) for batch in batches for each in batch.targets]


def test_all_samples_once_per_epoch_and_inputs_with_their_targets() -> None:
    batches = Batches(split(), 4, seed=0)
    assert [len(batch.targets) for batch in batches] == [4, 4, 2]
    assert len(batches) == 3
    assert sorted(seen(batches)) == list(range(10))
    assert all(torch.equal(batch.inputs[:, 0].long(), batch.targets) for batch in batches)


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    one, two = Batches(split(), 4, seed=3), Batches(split(), 4, seed=3)
    list(one)
    torch.rand(5)
    two.epoch = one.epoch = 7
    assert seen(one) == seen(two)
    two.epoch = 8
    assert seen(one) != seen(two)
    assert seen(Batches(split(), 4, seed=0)) != seen(Batches(split(), 4, seed=1))


def test_epoch_seeds_differ() -> None:
    seeds = {epoch_seed(s, e, k) for s in range(9) for e in range(9) for k in range(2)}
    assert len(seeds) == 162
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_without_a_seed_the_order_stays() -> None:
    assert seen(Batches(split(), 3)) == list(range(10))


def test_a_limit_counts_batches() -> None:
    assert seen(Batches(split(), 3, limit=2)) == list(range(6))
    assert len(Batches(split(), 3, seed=0, limit=2)) == 2
    assert len(seen(Batches(split(), 3, seed=0, limit=2))) == 6
    assert len(seen(Batches(split(), 3, limit=99))) == 10


def test_a_bundle_holds_the_same_batches_in_the_same_order() -> None:
    single, bundled = Batches(split(), 3, seed=5), Batches(split(), 3, seed=5, bundle=2)
    assert len(bundled) == 2
    apart = [batch for bundle in bundled for batch in bundle.chunks(3)]
    assert [batch.targets.tolist() for batch in apart] == [b.targets.tolist() for b in single]


def test_what_does_not_fill_a_last_batch_is_left_out_where_asked() -> None:
    assert [len(batch.targets) for batch in Batches(split(), 4, seed=0, drop_last=True)] == [4, 4]
    assert len(seen(Batches(split(), 4, limit=1, drop_last=True))) == 4


@pytest.mark.parametrize(
    ("drop_last", "samples", "batch_norm", "expected"),
    [
        ("auto", 1250, True, True),  # spoken digits: a last batch of 2
        ("auto", 1250, False, False),
        ("auto", 1249, False, True),  # a single sample, which has no spread
        ("auto", 1255, True, True),
        ("auto", 1256, True, False),  # a quarter of a batch
        ("auto", 2, True, False),  # the only batch
        (True, 1279, False, True),
        (True, 31, False, False),
        (False, 1249, True, False),
    ],
)
def test_auto_leaves_out_what_batch_norm_would_make_too_much_of(
    drop_last: bool | str, samples: int, batch_norm: bool, expected: bool
) -> None:
    assert drops_rest(drop_last, samples, 32, batch_norm=batch_norm) is expected
