"""Positions of inputs from topologies."""

from typing import Any

import numpy as np
import pytest
import torch

from focusing import FocusedLinear
from tests.unit.nn.oracle import array, grid


@pytest.mark.parametrize(
    ("inputs", "topology", "sizes", "channels"),
    [
        (1, None, (1,), 1),
        (784, None, (784,), 1),
        (12, (12,), (12,), 1),
        (12, [3, 4], (3, 4), 1),
        (6, (6, 1), (6, 1), 1),
        (75, (5, 5, 3), (5, 5), 3),  # channels share a position
        (100, (5, 5, 4), (5, 5), 4),
        (64, (4, 4, 4), (4, 4, 4), 1),  # a volume
        (30, (2, 3, 5), (2, 3, 5), 1),
        (18, (3, 2, 3), (3, 2, 3), 1),  # as many "channels" as pixels: a volume
        (48, (2, 3, 4, 2), (2, 3, 4), 2),
        (14 * 14 * 32, ((14, 14), 32), (14, 14), 32),  # any number of channels
        (12, ((4,), 3), (4,), 3),
        (24, ((2, 2, 2), 3), (2, 2, 2), 3),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["linspace", "index"])
def test_shapes(
    inputs: int, topology: Any, sizes: tuple[int, ...], channels: int, kind: str
) -> None:
    expected = grid(*sizes, channels=channels, kind=kind)
    layer = FocusedLinear(inputs, 3, topology=topology, grid=kind)
    np.testing.assert_allclose(array(layer.tau), expected, rtol=1e-6)
    np.testing.assert_allclose(array(layer.double().tau), expected, atol=1e-15)
    assert layer.mu.shape == layer.sigma.shape == (3, expected.shape[1])


def test_tensors_are_used_as_they_are() -> None:
    tau = torch.rand(9, 2, dtype=torch.float64)
    layer = FocusedLinear(9, 4, topology=tau, dtype=torch.float64)
    assert layer.mu.shape == (4, 2)
    expected = tau.clone()
    tau.zero_()
    assert torch.equal(layer.tau, expected), "the layer must own its positions"
    line = FocusedLinear(3, 2, topology=torch.tensor([0.9, 0.1, 0.5]))
    assert line.tau.tolist() == torch.tensor([[0.9], [0.1], [0.5]]).tolist()


def test_positions_follow_the_dtype_but_never_below_float32() -> None:
    tau = torch.rand(9, 1, dtype=torch.float64)
    line = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    for topology, expected in ((None, line), (tau, tau)):
        layer = FocusedLinear(9, 4, topology=topology, dtype=torch.bfloat16)
        assert layer.tau.dtype == torch.float32
        torch.testing.assert_close(layer.double().tau, expected, rtol=0, atol=1e-15)
        assert layer.half().tau.dtype == torch.float32


@pytest.mark.parametrize(
    "topology",
    [
        (27, 28),
        (),
        (784, 0),
        (-28, -28),
        (1, 1, 28, 28, 1),
        ((28, 28), 2),
        ((28, 28), 0),
        ((2, 2, 2, 2, 7, 7), 1),
        ((28, 28),),
        (28.0, 28.5),
        784,
        "spread",
        torch.zeros(783, 1),
        torch.zeros(784, 1, 1),
        torch.zeros(784, 0),
        torch.full((784, 2), 1.5),
        torch.full((784,), -0.1),
        torch.full((784, 1), torch.nan),
    ],
    ids=str,
)
def test_wrong_topology(topology: Any) -> None:
    with pytest.raises(ValueError, match=r"^topology.*(in_features|must lie in \[0, 1\])") as error:
        FocusedLinear(784, 3, topology=topology)
    assert str(error.value).count(". ") == 0
    assert str(error.value).endswith(".")
