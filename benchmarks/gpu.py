"""A focused layer, a network and Table 1 on a GPU, beside nn.Linear and torch.compile(reference).

    python -m benchmarks.gpu [--device cuda] [--rounds 50] [--trials 750] [--out FILE.json]

As in benchmarks/layer.py only ratios of times from the same round are claimed: every candidate
takes its turn in each round. Times end with the last kernel, not with its launch.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.layer import make_step
from benchmarks.table1 import sweep_config
from focusing import FocusedLinear
from focusing.callbacks.timing import Action, take_turns, training_step
from focusing.data import Split
from focusing.doctor import OPTIM, devices
from focusing.experiments.table1 import run_stacked
from focusing.models import MLP, focused_mlp
from focusing.nn.ops import available_backends
from focusing.results.record import machine, versions

LAYERS = [(784, 800, 512), (784, 800, 128), (784, 800, 32), (3072, 800, 512), (40, 4, 128)]
"""Inputs, neurons and samples."""
SIGMA = 0.1
MNIST = (784, 10, [800, 800])
"""Inputs, classes and hidden layers."""


def measure(
    actions: dict[str, Action], base: str, device: torch.device, rounds: int, **about: Any
) -> Iterator[dict[str, Any]]:
    """Seconds of each action, and the quartiles of its ratios to the base, round by round."""
    turns = take_turns(actions, device, rounds)
    for name, times in turns.items():
        ratios = [time / other for time, other in zip(times, turns[base], strict=True)]
        low, middle, high = quantiles(ratios, n=4, method="inclusive")
        row = {"candidate": name, "ratio": middle, "quartiles": [low, high]}
        yield {**about, **row, "seconds": quantiles(times, n=2, method="inclusive")[0]}


def layer_rows(
    shape: tuple[int, int, int], device: torch.device, rounds: int, compiler: str = "inductor"
) -> list[dict[str, Any]]:
    """Forward and backward of one layer, in every engine that the device has."""
    inputs, neurons, batch = shape
    torch.manual_seed(0)
    x = torch.randn(batch, inputs, device=device, requires_grad=True)
    grad = torch.randn(batch, neurons, device=device)
    layers: dict[str, nn.Module] = {"nn.Linear": nn.Linear(inputs, neurons)}
    for backend in ("auto", *available_backends(device)):
        layers[backend] = FocusedLinear(inputs, neurons, sigma=SIGMA, backend=backend)
    layers["compiled reference"] = FocusedLinear(
        inputs, neurons, sigma=SIGMA, backend="reference"
    ).to(device)
    layers["compiled reference"].compile(backend=compiler, dynamic=False)
    actions = {name: make_step(layer.to(device), x, grad) for name, layer in layers.items()}
    return list(measure(actions, "nn.Linear", device, rounds, shape=shape))


def network_rows(
    sizes: tuple[int, int, list[int]],
    batch: int,
    device: torch.device,
    rounds: int,
    compiler: str = "inductor",
) -> list[dict[str, Any]]:
    """A training step of a network, dense and focused, compiled and not."""
    inputs, classes, hidden = sizes
    torch.manual_seed(0)
    targets = torch.arange(batch, device=device) % classes
    split = Split(torch.randn(batch, inputs, device=device), targets)
    actions = {}
    for prefix in ("", "compiled "):
        nets = {"dense": MLP(*sizes), "focused": focused_mlp(inputs, classes, hidden=hidden)}
        for name, net in nets.items():
            net.to(device).train()
            if prefix:
                net.compile(backend=compiler, dynamic=False)
            actions[f"{prefix}{name}"] = training_step(net, OPTIM, split)
    return list(measure(actions, "dense", device, rounds, batch=batch))


def table1_row(trials: int, device: torch.device, *more: str) -> dict[str, Any]:
    """Trials of Table 1 in stacks."""
    accelerator = {"cuda": "gpu"}.get(device.type, device.type)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        config = sweep_config(trials, folder, f"trainer.accelerator={accelerator}", *more)
        start = time.perf_counter()
        run_stacked(config)
        seconds = time.perf_counter() - start
    return {"trials": trials, "seconds": seconds, "trials_per_minute": 60 * trials / seconds}


def show(measured: dict[str, Any], console: Console) -> None:
    """Print what was measured."""
    for what, base in (("layers", "nn.Linear"), ("networks", "dense")):
        table = Table("", "", "ms", f"over {base}", "quartiles", title=what)
        for row in measured[what]:
            size = "x".join(map(str, row["shape"])) if "shape" in row else f"batch {row['batch']}"
            spread = "{:.2f} to {:.2f}".format(*row["quartiles"])
            times = f"{1000 * row['seconds']:.3f}", f"{row['ratio']:.2f}"
            table.add_row(size, row["candidate"], *times, spread)
        console.print(table)
    row = measured["table1"]
    console.print(f"Table 1: {row['trials_per_minute']:.0f} trials a minute ({row['trials']})")


def main() -> None:
    """Measure, print tables, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=torch.device, default=devices()[-1], help="(the last)")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--trials", type=int, default=750, help="of Table 1")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    arguments = parser.parse_args()
    device, rounds = arguments.device, arguments.rounds
    measured = {
        "machine": machine(),
        "versions": versions(),
        "device": str(device),
        "layers": [row for shape in LAYERS for row in layer_rows(shape, device, rounds)],
        "networks": [row for b in (32, 128, 512) for row in network_rows(MNIST, b, device, rounds)],
        "table1": table1_row(arguments.trials, device),
    }
    show(measured, Console())
    if arguments.out:
        arguments.out.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
