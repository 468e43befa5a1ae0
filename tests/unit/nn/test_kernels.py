"""The compiled loops: their exponential, and a machine without a place for compiled code."""

import math
import os
import subprocess
import sys

import numba
import numpy as np
import pytest
import torch

from focusing import FocusedLinear
from focusing.nn.kernels import _power


@numba.njit
def powers(x, out):
    for j in range(len(x)):
        out[j] = _power(x[j])


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2.5e-7), (np.float64, 1e-14)])
def test_powers_of_two(dtype: type, tolerance: float) -> None:
    x = np.concatenate([np.linspace(-60, 12, 100_003), np.arange(-60, 12), [math.nan]])
    x = x.astype(dtype)
    found = np.empty_like(x)
    powers(x, found)
    np.testing.assert_allclose(found, np.exp2(x.astype(np.float64)), rtol=tolerance)


@pytest.mark.parametrize("normalizer", ["l2", "sum", "none"])
def test_a_focus_that_all_inputs_are_far_from_is_exact_in_single_precision(normalizer: str) -> None:
    """Up to 16 standard deviations outside: relative to the nearest input, nothing is lost."""
    found = []
    for dtype, backend in ((torch.float32, "fused"), (torch.float64, "reference")):
        layer = FocusedLinear(
            64, 3, mu_range=(0, 2), normalizer=normalizer, dtype=dtype, backend=backend
        )
        with torch.no_grad():
            layer.mu.fill_(1.5)
            layer.sigma.copy_(torch.tensor([[0.03125], [0.0625], [0.5]]))  # exact in both
            layer.weight.copy_(torch.linspace(-1, 1, 192).view(3, 64))
        y = layer(torch.linspace(0, 1, 64, dtype=dtype)[None])
        wanted = [layer.weight, layer.mu, layer.sigma]
        found.append([y, *torch.autograd.grad(y.sum(), wanted)])
    for single, double in zip(*found, strict=True):
        scale = double.abs().amax(-1, keepdim=True)
        assert ((single - double).abs() <= 2e-5 * scale + 1e-12).all()


def test_a_read_only_home_only_costs_time() -> None:
    """Containers often have nowhere to keep compiled code."""
    code = (
        "import torch; from focusing import FocusedLinear; from focusing.nn import kernels\n"
        "print(type(kernels.products._cache).__name__)\n"
        "print(FocusedLinear(9, 3)(torch.ones(1, 9)).shape)"
    )
    nowhere = os.environ | {"NUMBA_CACHE_DIR": "/proc/nowhere", "HOME": "/proc/nowhere"}
    nowhere["NUMBA_CACHE_LOCATOR_CLASSES"] = "UserProvidedCacheLocator"
    found = subprocess.run(
        [sys.executable, "-c", code], env=nowhere, capture_output=True, text=True
    )
    assert found.stdout == "NullCache\ntorch.Size([1, 3])\n", found.stderr
