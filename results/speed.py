"""How much faster pruned layers and networks are, for quote.py: from the files in benchmarks/."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from evidence import listed

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
Row = dict[str, Any]


@cache
def _benchmarks() -> list[Row]:
    """The benchmarks of sparse inference: one file for each processor."""
    paths = sorted(BENCHMARKS.glob("inference*.json"))
    return [json.loads(path.read_text()) for path in paths]


def _measured(part: str) -> Iterator[Row]:
    """Layers or networks on one thread, with all instructions and, where tried, AVX2 alone."""
    for benchmark in _benchmarks():
        for name in ("results", "avx2"):
            if name in benchmark:
                yield from benchmark[name]["1 threads"][part]


def speed(sparsity: float, least_batch: int = 32) -> tuple[float, float]:
    """The least and the most that single sparse layers gain over dense ones, on one thread."""
    gains = [
        layer["banded"][1]
        for layer in _measured("layers")
        if layer["sparsity"] == sparsity and layer["batch"] >= least_batch
    ]
    return min(gains), max(gains)


def network_speed(sparsity: float, batch: int | None = None) -> tuple[float, float]:
    """The same of the whole pruned network, for batches of a size or of 32 and more."""
    gains = [
        network["sparse"][1]
        for network in _measured("network")
        if network["sparsity"] == sparsity
        and (network["batch"] >= 32 if batch is None else network["batch"] == batch)
    ]
    return min(gains), max(gains)


def processors() -> str:
    """Where sparse layers were timed."""
    return listed([str(benchmark["processor"]) for benchmark in _benchmarks()])
