"""Foci push each other apart."""

import math

import pytest
import torch

from focusing.nn import FocusedLinear
from focusing.training.optimizer import repulsion


def layer(mu: list[float] | list[list[float]], **options: object) -> FocusedLinear:
    given = torch.tensor(mu, dtype=torch.float64)
    inputs = {"topology": (4, 4)} if given.dim() == 2 else {}
    return FocusedLinear(16, len(mu), mu=given, dtype=torch.float64, **inputs, **options)  # type: ignore[arg-type]


def test_by_hand() -> None:
    # Two foci reach 1/2: exp(-(.3 / .5)^2 / 2) / 2.
    assert repulsion(layer([0.2, 0.5])).item() == pytest.approx(math.exp(-0.18) / 2)
    # Four in the plane reach 1/2 too.
    four = [[0.1, 0.1], [0.4, 0.1], [0.1, 0.5], [0.9, 0.9]]
    pairs = [0.09, 0.16, 0.25, 1.28, 0.89, 0.8]
    expected = sum(math.exp(-2 * square) for square in pairs) / 4
    assert repulsion(layer(four)).item() == pytest.approx(expected)


def test_one_focus_has_nobody_to_avoid() -> None:
    assert repulsion(layer([0.3])).item() == 0


@pytest.mark.parametrize("mu", [[0.2, 0.5, 0.51], [[0.2, 0.3], [0.2, 0.3], [0.9, 0.1]]])
def test_gradient(mu: list[float] | list[list[float]]) -> None:
    found = layer(mu)

    def of(values: torch.Tensor) -> torch.Tensor:
        return repulsion(_With(found, values))  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(of, found.mu.detach().clone().requires_grad_())


class _With:
    """A layer with other centres."""

    def __init__(self, layer: FocusedLinear, mu: torch.Tensor) -> None:
        self.mu = mu


def test_it_pushes_apart_what_is_close() -> None:
    crowd = layer([0.45, 0.5, 0.55])
    repulsion(crowd).backward()
    assert crowd.mu.grad is not None
    left, middle, right = crowd.mu.grad[:, 0].tolist()
    assert left > 0 > right  # a step against the gradient takes them outwards
    assert middle == pytest.approx(0)


def test_it_hardly_reaches_beyond_an_even_distance() -> None:
    far = layer([0.0, 3 / 10, *[0.95] * 8])
    repulsion(far).backward()
    near = layer([0.0, 1 / 10, *[0.95] * 8])
    repulsion(near).backward()
    assert far.mu.grad is not None
    assert near.mu.grad is not None
    # The pull is n d e^(-(n d)^2 / 2): at 3 it is an eighteenth of that at 1.
    ratio = far.mu.grad[0, 0].item() / near.mu.grad[0, 0].item()
    assert ratio == pytest.approx(3 * math.exp(-4.5) / math.exp(-0.5))
