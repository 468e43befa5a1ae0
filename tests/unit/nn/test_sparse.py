"""Tilings and SIMD blocks of sparse layers."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focusing import FocusedLinear
from focusing.nn.sparse import blocks
from focusing.nn.sparse.blocks import LANES, NEURONS, PANEL, Blocks
from focusing.nn.sparse.tiles import MAX_SINGLE_SHARE, Tile, Tiling, choose_tiling
from tests.unit.nn.oracle import assert_same


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


def test_wide_and_narrow_neurons_are_in_different_tiles() -> None:
    used = band(800, 784, 40)
    used[::8] = band(100, 784, 500)
    wide = [tile for tile in choose_tiling(used, line(784)).tiles if tile.width >= 500]
    assert sum(len(tile.rows) for tile in wide) < 200


@pytest.mark.parametrize(("neurons", "inputs"), [(4, 40), (30, 120), (800, 784)])
def test_one_tile_where_tiles_do_not_pay(neurons: int, inputs: int) -> None:
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


def sparse(neurons: int, inputs: int, share: float = 0.3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(neurons * inputs)
    weight = torch.randn(neurons, inputs, generator=generator)
    return weight * (torch.rand(neurons, inputs, generator=generator) < share)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("neurons", "inputs"), [(1, 1), (NEURONS, LANES), (37, 5), (61, 2 * LANES + 3), (64, 80)]
)
def test_blocks_match_the_dense_product(neurons: int, inputs: int, threads: int) -> None:
    for bias in (None, torch.randn(neurons)):
        weight = sparse(neurons, inputs)
        product = Blocks(weight, bias)
        for samples in (1, 2, 3, 4, LANES, LANES + 1, PANEL, PANEL + 1, 3 * PANEL, 7 * PANEL - 3):
            x = torch.randn(samples, inputs)
            y = product(x, threads=threads)
            assert_same(y, torch.nn.functional.linear(x, weight, bias))
            apart = torch.cat([x, x], 1)[:, :inputs]  # not contiguous
            assert torch.equal(product(apart, threads=threads), y)


@pytest.mark.parametrize("samples", [1, 5, 100])
def test_only_needed_inputs_are_read(samples: int) -> None:
    weight = torch.zeros(16, 50)
    weight[:, 10:20] = 1
    x = torch.full((samples, 50), torch.nan)
    x[:, 10:20] = 1
    assert torch.equal(Blocks(weight, None)(x), torch.full((samples, 16), 10.0))
    bias = torch.arange(20.0)
    empty = Blocks(torch.zeros(20, 50), bias)
    assert empty.work == 0
    assert torch.equal(empty(x), bias.expand(samples, 20))


def test_without_openmp_one_thread_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, x = sparse(70, 90), torch.randn(200, 90)
    expected = Blocks(weight, None)(x, threads=2)
    monkeypatch.setattr(blocks.ctypes, "CDLL", lambda _: object())
    blocks.openmp_team.cache_clear()
    try:
        assert blocks.openmp_team() is None
        assert torch.equal(Blocks(weight, None)(x, threads=2), expected)
    finally:
        blocks.openmp_team.cache_clear()


@pytest.mark.parametrize(
    ("topology", "sigma", "limit"), [(None, (0.02, 0.2), 0.14), ((28, 28), 0.1, 0.15)]
)
def test_blocks_skip_most_zeros(topology: Any, sigma: Any, limit: float) -> None:
    layer = FocusedLinear(784, 800, topology=topology, mu="random", sigma=sigma)
    layer.prune(float(layer.phi().detach().flatten().quantile(0.9)))
    assert Blocks(layer.fold().weight.detach(), None).work < limit


OTHER_PROCESSOR = """
import torch
from focusing.nn.sparse.blocks import LANES, NEURONS, Blocks
for samples in (1, 4, 50):
    weight, x = torch.randn(30, 21), torch.randn(samples, 21)
    y = Blocks(weight, None)(x, threads=2)
    torch.testing.assert_close(y, x @ weight.T, rtol=1e-4, atol=1e-4)
print(LANES, NEURONS)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86")
@pytest.mark.parametrize(("features", "lanes"), [("", 4), ("+avx,+fma", 8)])
def test_other_processors(features: str, lanes: int, tmp_path: Path) -> None:
    numba = {"CPU_NAME": "x86-64", "CPU_FEATURES": features, "CACHE_DIR": str(tmp_path)}
    environment = os.environ | {f"NUMBA_{name}": value for name, value in numba.items()}
    command = [sys.executable, "-c", OTHER_PROCESSOR]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.stdout == f"{lanes} 6\n", result.stderr
