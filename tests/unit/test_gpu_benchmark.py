"""The benchmark for GPUs runs, here on whatever device the tests run on."""

import pytest
import torch
from rich.console import Console

from benchmarks import gpu
from focusing.nn.ops import available_backends


def test_rows_and_tables(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "SIGMA", 0.2)
    layers = gpu.layer_rows((12, 4, 8), device, 2, compiler="aot_eager")
    names = {"nn.Linear", "auto", "compiled reference", *available_backends(device)}
    assert {row["candidate"] for row in layers} == names
    networks = gpu.network_rows((12, 3, [4]), 8, device, 2, compiler="aot_eager")
    assert [row["candidate"] for row in networks] == [
        *("dense", "focused", "compiled dense", "compiled focused")
    ]
    for row in (*layers, *networks):
        assert row["seconds"] > 0
        assert row["quartiles"][0] <= row["ratio"] <= row["quartiles"][1]
    table1 = gpu.table1_row(2, device, "trainer.max_epochs=1")
    assert table1["trials_per_minute"] > 0
    console = Console(record=True, width=120)
    gpu.show({"layers": layers, "networks": networks, "table1": table1}, console)
    assert "compiled reference" in console.export_text()
