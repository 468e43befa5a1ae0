"""Topologies become positions."""

from typing import Any

import numpy as np
import pytest
import torch

from focusing import FocusedLinear
from tests.unit.nn.oracle import grid


@pytest.mark.parametrize(
    ("inputs", "topology", "expected"),
    [
        (1, None, grid(1)),
        (5, None, grid(5)),
        (784, None, np.linspace(0, 1, 784)[:, None]),
        (12, (12,), grid(12)),
        (12, [3, 4], grid(3, 4)),
        (6, (6, 1), grid(6, 1)),
        (75, (5, 5, 3), grid(5, 5, channels=3)),  # channels share a position
        (100, (5, 5, 4), grid(5, 5, channels=4)),
        (64, (4, 4, 4), grid(4, 4, 4)),  # a volume
        (30, (2, 3, 5), grid(2, 3, 5)),
        (18, (3, 2, 3), grid(3, 2, 3)),  # as many "channels" as pixels: a volume
        (48, (2, 3, 4, 2), grid(2, 3, 4, channels=2)),
        (96, ((4, 4), 6), grid(4, 4, channels=6)),  # as many channels as one likes
        (14 * 14 * 32, ((14, 14), 32), grid(14, 14, channels=32)),
        (12, ((4,), 3), grid(4, channels=3)),
        (24, ((2, 2, 2), 3), grid(2, 2, 2, channels=3)),
    ],
    ids=lambda value: str(value) if not isinstance(value, np.ndarray) else "",
)
def test_shapes(inputs: int, topology: Any, expected: np.ndarray) -> None:
    layer = FocusedLinear(inputs, 3, topology=topology, dtype=torch.float64)
    np.testing.assert_allclose(layer.tau.numpy(), expected, atol=1e-15)
    assert layer.mu.shape == layer.sigma.shape == (3, expected.shape[1])


@pytest.mark.parametrize(
    ("inputs", "topology", "sizes", "channels"),
    [(1, None, (1,), 1), (40, None, (40,), 1), (12, (3, 4), (3, 4), 1), (75, (5, 5, 3), (5, 5), 3)],
)
def test_the_grid_of_the_code_of_2018(
    inputs: int, topology: Any, sizes: tuple[int, ...], channels: int
) -> None:
    layer = FocusedLinear(inputs, 3, topology=topology, grid="index")
    expected = grid(*sizes, channels=channels, kind="index")
    np.testing.assert_allclose(layer.tau.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(layer.double().tau.numpy(), expected, rtol=1e-15)


def test_an_image_flattened_with_channels_last_meets_its_positions() -> None:
    """Input (row, column, channel) of a flattened image is where the layer thinks it is."""
    layer = FocusedLinear(32 * 32 * 3, 2, topology=(32, 32, 3))
    row, column, channel = 5, 17, 2
    index = torch.zeros(32, 32, 3).index_put_(
        (torch.tensor(row), torch.tensor(column)), torch.ones(3)
    )
    where = index.flatten().nonzero()[:, 0]
    assert where[channel] == (row * 32 + column) * 3 + channel
    expected = torch.tensor([[row / 31, column / 31]]).expand(3, 2)
    torch.testing.assert_close(layer.tau[where], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_are_used_as_they_are(dtype: torch.dtype) -> None:
    tau = torch.rand(9, 2, dtype=torch.float64)
    layer = FocusedLinear(9, 4, topology=tau, dtype=dtype)
    assert torch.equal(layer.tau, tau.to(dtype))
    assert layer.mu.shape == (4, 2)
    tau.zero_()
    assert layer.tau.any(), "the layer must own its positions"


def test_a_vector_of_positions_is_a_line() -> None:
    layer = FocusedLinear(3, 2, topology=torch.tensor([0.9, 0.1, 0.5]))
    assert layer.tau.tolist() == torch.tensor([[0.9], [0.1], [0.5]]).tolist()


def test_positions_follow_the_dtype_but_never_below_float32() -> None:
    tau = torch.rand(9, 1, dtype=torch.float64)
    for topology in (None, tau):
        layer = FocusedLinear(9, 4, topology=topology, dtype=torch.bfloat16)
        assert layer.tau.dtype == torch.float32
        layer.double()
        assert layer.tau.dtype == torch.float64
        expected = (
            torch.linspace(0, 1, 9, dtype=torch.float64)[:, None] if topology is None else tau
        )
        torch.testing.assert_close(layer.tau, expected, rtol=0, atol=1e-15)
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
def test_a_bad_topology_is_named(topology: Any) -> None:
    with pytest.raises(ValueError, match=r"^topology.*(in_features|must lie in \[0, 1\])") as error:
        FocusedLinear(784, 3, topology=topology)
    assert str(error.value).count(". ") == 0
    assert str(error.value).endswith(".")
