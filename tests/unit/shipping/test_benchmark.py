"""The benchmark of inference runs; its timings are not checked."""

import pytest
import torch
from rich.console import Console

from benchmarks import inference


def test_rows_and_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "SHAPES", [(200, 800)])
    monkeypatch.setattr(inference, "SPARSITIES", (0.9,))
    foci = {"hidden1": (torch.rand(800, 1), torch.full((800, 1), 0.05))}
    console = Console(record=True, width=140)
    layers = inference.measure_layers(foci, (1, 32), 0)
    expected = [(kind, batch) for kind in ("synthetic", "trained") for batch in (1, 32)]
    assert [(row["foci"], row["batch"]) for row in layers] == expected
    assert all(row["work"] < 0.4 and min(row["banded"]) > 0 for row in layers)
    inference.show_layers(layers, (1, 32), console)
    network = inference.measure_network(foci, (1,), 0)
    sizes = network[0]["bytes"]
    assert sizes["sparse"] < 0.5 * sizes["folded"] < sizes["trained"]
    inference.show_network(network, console)
    assert "banded (CSR)" in console.export_text()


def test_second_run_uses_avx2_at_most() -> None:
    environment = inference.avx2_environment()
    assert "+avx512" not in environment["NUMBA_CPU_FEATURES"]
    assert environment["MKL_ENABLE_INSTRUCTIONS"] == "AVX2"
