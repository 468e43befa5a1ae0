"""Tiles cover what is needed, once, and promise to be cheaper than the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusing.nn.sparse.tiles import MAX_SINGLE_SHARE, Tile, Tiling, choose_tiling


def band(neurons: int, inputs: int, width: int) -> np.ndarray:
    start = np.linspace(0, inputs - width, neurons).astype(int)[:, None]
    column = np.arange(inputs)
    return (column >= start) & (column < start + width)


def line(inputs: int) -> np.ndarray:
    return np.linspace(0, 1, inputs)[:, None]


@given(st.integers(1, 200), st.integers(1, 300), st.floats(0, 1), st.integers(0, 9), st.booleans())
def test_every_connection_is_in_one_tile(
    neurons: int, inputs: int, share: float, seed: int, restore: bool
) -> None:
    random = np.random.default_rng(seed)
    used = random.random((neurons, inputs)) < share
    tiling = choose_tiling(used, random.random((inputs, 2)), restore=restore)
    assert sorted(tiling.order) == list(range(neurons))
    for tile in tiling.tiles:
        seen = np.zeros(inputs, dtype=bool)
        seen[tile.columns] = True
        assert seen.sum() == tile.width
        assert not used[tile.rows][:, ~seen].any()


def test_a_band_stays_in_order_and_a_shuffled_one_is_sorted() -> None:
    used = band(800, 784, 80)
    tiling = choose_tiling(used, line(784))
    assert tiling.sorted
    assert len(tiling.tiles) > 4
    shuffled = choose_tiling(used[np.random.default_rng(0).permutation(800)], line(784))
    assert not shuffled.sorted
    assert shuffled.cost(restore=False) == pytest.approx(tiling.cost(), rel=0.1)
    assert tiling.cost() < shuffled.cost()


def test_wide_neurons_are_kept_from_narrow_ones() -> None:
    used = band(800, 784, 40)
    used[::8] = band(100, 784, 500)
    wide = [tile for tile in choose_tiling(used, line(784)).tiles if tile.width >= 500]
    assert sum(len(tile.rows) for tile in wide) < 200


@pytest.mark.parametrize(("neurons", "inputs"), [(4, 40), (30, 120), (800, 784)])
def test_where_nothing_pays_there_is_one_tile(neurons: int, inputs: int) -> None:
    used = np.ones((neurons, inputs), dtype=bool)
    used[0, 0] = False
    [tile] = choose_tiling(used, line(inputs)).tiles
    assert (len(tile.rows), tile.columns) == (neurons, slice(0, inputs))


@pytest.mark.parametrize("width", [50, 200, 400, 700])
def test_a_single_sample_is_not_slower(width: int) -> None:
    tiling = choose_tiling(band(800, 784, width), line(784))
    whole = Tiling([Tile(np.arange(800), slice(0, 784))])
    limit = MAX_SINGLE_SHARE * whole.cost(single=True)
    assert tiling.cost(single=True) <= limit or len(tiling.tiles) == 1
