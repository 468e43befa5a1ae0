"""What an output is worth: two classes may share one; and how many are scored at a time."""

import pytest
import torch

from focusing.data import Split
from focusing.training.metrics import loss_of, predicted, score
from focusing.training.trainer import evaluation_batch


def test_one_logit_is_as_good_as_two() -> None:
    torch.manual_seed(0)
    logit, targets = torch.randn(9, 1), torch.randint(0, 2, (9,))
    both = torch.cat([torch.zeros(9, 1), logit], dim=1)  # softmax of (0, z) is the sigmoid of z
    assert loss_of(logit, targets).item() == pytest.approx(loss_of(both, targets).item())
    assert torch.equal(predicted(logit), predicted(both))
    assert score([logit], [targets]) == pytest.approx(score([both], [targets]))


def test_by_hand() -> None:
    found = score([torch.tensor([[0.0], [2.0], [-1.0]])], [torch.tensor([1, 1, 0])])
    assert found["acc"] == pytest.approx(2 / 3)  # of an even chance the first class has it
    assert found["loss"] == pytest.approx((0.693147 + 0.126928 + 0.313262) / 3, abs=1e-5)


def test_values_with_one_output_are_regression() -> None:
    assert loss_of(torch.tensor([[2.0]]), torch.tensor([0.0])).item() == 4.0


def test_large_pictures_are_scored_in_small_batches() -> None:
    def split(*shape: int) -> Split:
        return Split(torch.zeros(1, *shape), torch.zeros(1))

    assert evaluation_batch(split(28, 28, 1)) == evaluation_batch(split(60, 60, 1)) == 1024
    assert evaluation_batch(split(125, 125, 3)) == 89
    assert evaluation_batch(split(4096, 4096)) == 1
