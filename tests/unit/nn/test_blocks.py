"""The product by vector instructions of our own."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from focusing import FocusedLinear
from focusing.nn.sparse import blocks
from focusing.nn.sparse.blocks import LANES, NEURONS, PANEL, Blocks, group_neurons
from tests.unit.nn.oracle import assert_same


def sparse(neurons: int, inputs: int, share: float = 0.3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(neurons * inputs)
    weight = torch.randn(neurons, inputs, generator=generator)
    return weight * (torch.rand(neurons, inputs, generator=generator) < share)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("neurons", "inputs"), [(1, 1), (NEURONS, LANES), (37, 5), (61, 2 * LANES + 3), (64, 80)]
)
@pytest.mark.parametrize(
    "samples", [1, 2, 3, 4, LANES, LANES + 1, PANEL, PANEL + 1, 3 * PANEL, 7 * PANEL - 3]
)
def test_is_the_product(samples: int, neurons: int, inputs: int, bias: bool, threads: int) -> None:
    weight, x = sparse(neurons, inputs), torch.randn(samples, inputs)
    added = torch.randn(neurons) if bias else None
    wanted = torch.nn.functional.linear(x, weight, added)
    found = Blocks(weight, added)(x, threads=threads)
    assert_same(found, wanted)
    apart = torch.cat([x, x], 1)[:, :inputs]  # not side by side in memory
    assert torch.equal(Blocks(weight, added)(apart, threads=threads), found)


@pytest.mark.parametrize("samples", [1, 2, 40])
def test_neurons_that_need_nothing_give_their_bias(samples: int) -> None:
    weight, bias = torch.zeros(20, 30), torch.arange(20.0)
    weight[3, 7] = 2
    x = torch.ones(samples, 30)
    assert torch.equal(Blocks(weight, bias)(x), x @ weight.T + bias)
    nothing = Blocks(torch.zeros(20, 30), bias)
    assert nothing.work == 0
    assert torch.equal(nothing(x), bias.expand(samples, 20))


@pytest.mark.parametrize("samples", [1, 5, 100])
def test_only_needed_inputs_are_read(samples: int) -> None:
    weight = torch.zeros(16, 50)
    weight[:, 10:20] = 1
    x = torch.full((samples, 50), torch.nan)
    x[:, 10:20] = 1
    assert torch.equal(Blocks(weight, None)(x), torch.full((samples, 16), 10.0))


def test_a_missing_team_costs_only_time(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, x = sparse(70, 90), torch.randn(200, 90)
    wanted = Blocks(weight, None)(x, threads=2)
    monkeypatch.setattr(blocks.ctypes, "CDLL", lambda _: object())
    blocks.openmp_team.cache_clear()
    try:
        assert blocks.openmp_team() is None
        assert torch.equal(Blocks(weight, None)(x, threads=2), wanted)
    finally:
        blocks.openmp_team.cache_clear()


def test_each_neuron_is_in_one_group() -> None:
    groups = group_neurons(sparse(100, 40).numpy() != 0)
    assert [len(group) for group in groups] == [NEURONS] * 12 + [4]
    assert sorted(np.concatenate(groups)) == list(range(100))


def test_neurons_that_need_the_same_are_found() -> None:
    used = np.zeros((4 * NEURONS, 40), bool)
    kinds = np.random.default_rng(0).permutation(np.arange(4).repeat(NEURONS))
    for neuron, kind in enumerate(kinds):
        used[neuron, kind::4] = True  # no slice of inputs would do
    assert all(len(set(kinds[group])) == 1 for group in group_neurons(used))


@pytest.mark.parametrize(
    ("topology", "sigma", "most"), [(None, (0.02, 0.2), 1.4), ((28, 28), 0.1, 1.5)]
)
def test_little_more_than_what_is_needed_is_computed(
    topology: Any, sigma: Any, most: float
) -> None:
    torch.manual_seed(0)
    layer = FocusedLinear(784, 800, topology=topology, mu="random", sigma=sigma)
    layer.prune(float(layer.phi().detach().flatten().quantile(0.9)))
    found = Blocks(layer.fold().weight.detach(), None)
    assert found.work < most * 0.1


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86")
@pytest.mark.parametrize(("features", "lanes"), [("", 4), ("+avx,+fma", 8)])
def test_other_processors(features: str, lanes: int, tmp_path: Path) -> None:
    code = """
import torch
from focusing.nn.sparse.blocks import Blocks
from focusing.nn.sparse.blocks import LANES
for samples in (1, 4, 50):
    weight, x = torch.randn(30, 21), torch.randn(samples, 21)
    found = Blocks(weight, None)(x, threads=2)
    torch.testing.assert_close(found, x @ weight.T, rtol=1e-4, atol=1e-4)
print(LANES)
"""
    numba = {"CPU_NAME": "x86-64", "CPU_FEATURES": features, "CACHE_DIR": str(tmp_path)}
    environment = os.environ | {f"NUMBA_{name}": value for name, value in numba.items()}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert found.stdout == f"{lanes}\n", found.stderr
