"""The compiled loops: their exponential, and a machine without a place for compiled code."""

import errno
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch
from numba.core.caching import IndexDataCacheFile

from focusing import FocusedLinear
from focusing.nn.ops import kernels
from focusing.nn.ops.kernels import _exp2


@numba.njit
def powers(x, out):
    for j in range(len(x)):
        out[j] = _exp2(x[j])


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 5e-7), (np.float64, 1e-14)])
def test_powers_of_two(dtype: type, tolerance: float) -> None:
    x = np.concatenate([np.linspace(-60, 12, 100_003), np.arange(-60, 12), [math.nan]])
    x = x.astype(dtype)
    found = np.empty_like(x)
    powers(x, found)
    np.testing.assert_allclose(found, np.exp2(x.astype(np.float64)), rtol=tolerance)


@pytest.mark.parametrize("normalizer", ["l2", "sum", "mean", "none"])
def test_a_focus_that_all_inputs_are_far_from_is_exact_in_single_precision(normalizer: str) -> None:
    """Up to 16 standard deviations outside: relative to the nearest input, nothing is lost."""
    found = []
    for dtype, backend in ((torch.float32, "numba"), (torch.float64, "reference")):
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
        assert ((single - double).abs() <= 3e-5 * scale + 1e-12).all()


def test_nowhere_to_keep_compiled_code_only_costs_time() -> None:
    """As in a container with a read-only home: numba finds no folder for its cache."""
    loop = eval("lambda x: x + 1")  # noqa: S307 - of no file, which has no folder either
    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(loop)
    assert kernels.compiled(loop)(1) == 2


def add_two(x):
    return x + 2


def test_a_full_disk_only_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(IndexDataCacheFile, "_save_data", fail)
    assert kernels.compiled(add_two)(1) == 3
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    monkeypatch.undo()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert kernels.compiled(add_two)(1) == 3
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".nbi", ".nbc"}


@pytest.mark.parametrize("numba", ["missing", "disabled"])
def test_without_numba_torch_computes(numba: str) -> None:
    code = """
import sys
if sys.argv[1:] == ["missing"]:
    sys.modules["numba"] = sys.modules["llvmlite"] = None
import torch
from focusing import FocusConstraint, FocusedLinear, param_groups, to_inference
from focusing.nn.ops import cpu
assert not cpu.AVAILABLE
for sigma in (0.01, 0.3):
    layer, x = FocusedLinear(300, 200, sigma=sigma), torch.randn(4, 300)
    y = layer(x)
    y.sum().backward()
    expected = torch.nn.functional.linear(x, layer.effective_weight(), layer.bias)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(layer.banded()(x), expected, rtol=1e-4, atol=1e-4)
net = torch.nn.Sequential(FocusedLinear(300, 200, backend="numba"), torch.nn.Linear(200, 3))
optimizer = torch.optim.SGD(param_groups(net, lr=0.01, lr_mu=0.001))
FocusConstraint(net, optimizer)
x, y = torch.randn(64, 300), torch.randint(3, (64,))
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.8 * losses[0], losses
net[0].prune(1.0)
fast = to_inference(net.eval(), sparse=True)
assert "BandedLinear" in repr(fast)
torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
print("done")
"""
    environment = os.environ | ({"NUMBA_DISABLE_JIT": "1"} if numba == "disabled" else {})
    found = subprocess.run(
        [sys.executable, "-c", code, numba], env=environment, capture_output=True, text=True
    )
    assert found.stdout == "done\n", found.stderr
