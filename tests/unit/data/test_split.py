"""The holdout split: stratified, seeded, out of the training data."""

import pytest
import torch

from focusing.data import Split, hold_out
from focusing.errors import UserError


def part(targets: torch.Tensor) -> Split:
    return Split(torch.arange(len(targets)).float(), targets)


def test_every_class_gives_its_share() -> None:
    targets = torch.tensor([0] * 50 + [1] * 30 + [2] * 20)[torch.randperm(100)]
    rest, held = hold_out(part(targets), 0.2, seed=0, classes=3)
    assert held.targets.bincount().tolist() == [10, 6, 4]
    assert rest.targets.bincount().tolist() == [40, 24, 16]


def test_nothing_is_lost_or_shared() -> None:
    rest, held = hold_out(part(torch.arange(40) % 2), 0.3, seed=1, classes=2)
    both = torch.cat([rest.inputs, held.inputs])
    assert both.sort().values.tolist() == list(range(40))


def test_the_seed_decides() -> None:
    data = part(torch.arange(40) % 2)
    first, again, other = (hold_out(data, 0.3, seed, 2)[1].inputs for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_regression_is_split_by_samples() -> None:
    rest, held = hold_out(part(torch.randn(20)), 0.25, seed=0, classes=0)
    assert (len(rest.targets), len(held.targets)) == (15, 5)


@pytest.mark.parametrize("share", [0.0, 1.0, -1, 0.001])
def test_an_empty_side_is_refused(share: float) -> None:
    with pytest.raises(UserError, match=r"protocol\.holdout"):
        hold_out(part(torch.arange(10) % 2), share, seed=0, classes=2)
