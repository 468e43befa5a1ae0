"""Operations of a training step, and its passes over (n, m): what a focused layer costs on a GPU.

    python benchmarks/launches.py [--out benchmarks/launches.json]

A small layer on a GPU costs its launches, a large one the memory that it moves. Both are counted
here, on any machine: the operations that torch dispatches in forward and backward (views and empty
tensors launch nothing), and the matrices of n * m numbers that they read or write. Neither depends
on sizes, so the networks are small, as without a GPU Triton's kernels run in its interpreter. The
numba engines, which run on CPUs alone, are left out.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from focusing import FocusedLinear
from focusing.models import MLP
from focusing.nn.ops import triton_runs_on
from focusing.results.record import machine

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCH, SHAPE, NEURONS, CLASSES = 5, (4, 6), 7, 3
"""No two products of them are equal, so that a matrix is known by its size."""
ENGINES = ("reference", "torch", "triton")
MAX_MORE_OPERATIONS, MAX_PASSES = 2, 8
"""Goals: of a layer with Triton, operations beyond those of a dense one, and passes over (n, m)."""
FULL_SIZE = 784 * 800 * 4
"""Bytes of the first weights of the paper's network for MNIST."""


class Counter(TorchDispatchMode):
    """Counts operations, and how often matrices of so many numbers are read or written."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.numbers, self.operations, self.passes = numbers, 0, 0.0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        aliases = [returned.alias_info for returned in func._schema.returns]
        is_view = any(alias is not None and not alias.is_write for alias in aliases)
        if not is_view and "empty" not in func.name():
            self.operations += 1
            self.passes += sum(map(self._passes, tree_leaves((args, kwargs, result))))
        return result

    def _passes(self, value: Any) -> float:
        """Over the numbers of a tensor, however often it is expanded; 1 is one of float32."""
        if not isinstance(value, Tensor):
            return 0.0
        sizes = zip(value.shape, value.stride(), strict=True)
        numbers = 1
        for size, stride in sizes:
            numbers *= size if stride else 1
        axes = numbers / self.numbers  # an image's offsets have a number for each axis
        return axes * value.element_size() / 4 if axes in (1, 2) else 0.0


def count(network: nn.Module, loss: Callable[[Tensor], Tensor], inputs: int) -> Counter:
    """A step from the inputs to the gradients of everything."""
    x = torch.randn(BATCH, inputs, device=DEVICE, requires_grad=True)
    with Counter(inputs * NEURONS) as counter:
        loss(network(x)).backward()
    return counter


def measure() -> list[dict[str, Any]]:
    inputs = SHAPE[0] * SHAPE[1]
    targets = torch.zeros(BATCH, dtype=torch.long, device=DEVICE)
    rows = []
    kinds = [(None, "dense")] + [(d, engine) for d in (1, 2) for engine in ENGINES]
    for axes, engine in kinds:
        if engine == "triton" and not triton_runs_on(DEVICE):
            continue
        options: dict[str, Any] = {"topology": SHAPE if axes == 2 else None, "backend": engine}
        layer = (
            nn.Linear(inputs, NEURONS)
            if axes is None
            else FocusedLinear(inputs, NEURONS, **options)
        )
        torch.manual_seed(0)
        focus = None if axes is None else options
        network = MLP(inputs, CLASSES, [NEURONS, NEURONS], focus=focus)
        own = count(layer.to(DEVICE), torch.sum, inputs)
        whole = count(network.to(DEVICE), lambda y: nn.functional.cross_entropy(y, targets), inputs)
        rows.append(
            {
                "engine": engine,
                "d": axes,
                "layer_operations": own.operations,
                "layer_passes": round(own.passes, 2),
                "layer_bytes": round(own.passes * FULL_SIZE),
                "network_operations": whole.operations,
            }
        )
    return rows


def meets_goals(row: dict[str, Any], dense: dict[str, Any]) -> bool:
    """Whether a layer of Triton's engine costs no more than we allow."""
    return (
        row["layer_operations"] <= dense["layer_operations"] + MAX_MORE_OPERATIONS
        and row["layer_passes"] <= MAX_PASSES
    )


def show(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table(title="a training step, forward and backward")
    columns = ("engine", "d", "layer: operations", "passes over (n, m)", "MiB at 784 x 800")
    for column in (*columns, "network: operations", "goal"):
        table.add_column(column, justify="right")
    for row in rows:
        goal = ""
        if row["engine"] == "triton":
            goal = "yes" if meets_goals(row, rows[0]) else "NO"
        table.add_row(
            row["engine"],
            str(row["d"] or ""),
            str(row["layer_operations"]),
            f"{row['layer_passes']:g}",
            f"{row['layer_bytes'] / 2**20:.1f}",
            str(row["network_operations"]),
            goal,
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    if DEVICE == "cpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
    rows = measure()
    console = Console(width=120)
    show(rows, console)
    report = {
        "torch": torch.__version__,
        "processor": machine()["processor"],
        "device": DEVICE,
        "results": rows,
    }
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    console.print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
