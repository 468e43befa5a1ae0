"""What our training loop costs over a bare one: same network, data, batches and evaluation.

python benchmarks/loop.py [--rounds 7] [--json FILE]

Ours is everything that a run does: Lightning, the default callbacks, metrics.csv and a checkpoint
per epoch. The two take turns, and the ratio is that of their fastest rounds: on a shared machine
both have slow rounds that are not their fault.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional

from focusing.callbacks import ClipFoci, FocusTrajectory, StuckNeurons, Throughput
from focusing.config import Optim
from focusing.data import Batches, Split
from focusing.models import MLP
from focusing.training.loggers import build_loggers, close_loggers
from focusing.training.module import FocusingModule
from focusing.training.optimizer import build_optimizer
from focusing.training.trainer import build_trainer, fit


@dataclass
class Case:
    """A network and its data; ``allowed`` is the ratio we allow ourselves."""

    sizes: tuple[int, int, int]  # inputs, neurons of a hidden layer, outputs
    hidden: int
    batch: int
    samples: int
    epochs: int
    allowed: float

    @property
    def name(self) -> str:
        inputs, width, outputs = self.sizes
        sizes = [inputs, *[width] * self.hidden, outputs]
        return f"{'-'.join(map(str, sizes))}, batch {self.batch}"

    def net(self) -> MLP:
        torch.manual_seed(0)
        inputs, width, outputs = self.sizes
        return MLP(inputs, outputs, [width] * self.hidden, focus={"mu": "spread", "sigma": 0.1})

    def data(self) -> tuple[Split, Split]:
        torch.manual_seed(0)
        inputs, _, outputs = self.sizes
        train, test = (
            Split(torch.randn(count, inputs), torch.randint(outputs, (count,)))
            for count in (self.samples, self.samples // 5)
        )
        return train, test

    def optim(self) -> Optim:
        rates = {"lr": 0.01, "lr_mu": 0.001, "lr_sigma": 0.001}
        return Optim(name="SGD", momentum=0.9, batch_size=self.batch, **rates)


CASES = [
    Case((784, 800, 10), 2, 512, 20480, 1, allowed=1.10),
    Case((40, 40, 4), 1, 100, 2000, 20, allowed=1.80),
]


def bare(case: Case) -> float:
    """Seconds of the loop that everybody writes first."""
    net, (train, test) = case.net(), case.data()
    optimizer = build_optimizer(net, case.optim())
    layers = list(net.focused_layers().values())
    batches = Batches(train, case.batch, seed=0)
    start = time.perf_counter()
    for epoch in range(case.epochs):
        batches.epoch = epoch
        net.train()
        total, right = torch.zeros(()), torch.zeros((), dtype=torch.int64)
        for inputs, targets in batches:
            output = net(inputs)
            loss = functional.cross_entropy(output, targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            for layer in layers:
                layer.constrain_()
            total += loss.detach() * len(targets)
            right += (output.argmax(1) == targets).sum()
        net.eval()
        with torch.no_grad():
            for inputs, targets in Batches(test, 1024):
                output = net(inputs)
                functional.cross_entropy(output, targets).item()
                (output.argmax(1) == targets).sum().item()
        total.item(), right.item()
    return time.perf_counter() - start


def ours(case: Case) -> float:
    """Seconds of our loop, with all that a run leaves."""
    net, (train, test) = case.net(), case.data()
    module = FocusingModule(net, case.optim())
    options = {
        "max_epochs": case.epochs,
        "accelerator": "cpu",
        "devices": 1,
        "precision": "32-true",
        "deterministic": True,
    }
    callbacks = [ClipFoci(), FocusTrajectory(), StuckNeurons(), Throughput()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "checkpoints").mkdir()
        loggers = build_loggers({}, folder, config={}, experiment="benchmark")
        trainer = build_trainer(options, folder, callbacks=callbacks, best_of="test/acc")
        trainer.loggers = loggers
        start = time.perf_counter()
        fit(trainer, module, {"train": train, "test": test})
        seconds = time.perf_counter() - start
        close_loggers(loggers, 0)
    return seconds


def measure(case: Case, rounds: int) -> dict[str, object]:
    """Let the two loops take turns."""
    bare(case), ours(case)  # warm up
    seconds: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(rounds):
        seconds["bare"].append(bare(case))
        seconds["ours"].append(ours(case))
    steps = case.epochs * -(-case.samples // case.batch)
    best = {name: min(values) / steps * 1e3 for name, values in seconds.items()}
    return {
        "case": case.name,
        "bare_ms_per_step": best["bare"],
        "ours_ms_per_step": best["ours"],
        "ratio": best["ours"] / best["bare"],
        "ratios": [b / a for a, b in zip(seconds["bare"], seconds["ours"], strict=True)],
        "allowed": case.allowed,
    }


def main() -> None:
    """Measure, print a table, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':26} {'bare':>9} {'ours':>9} {'ratio':>7} {'allowed':>8}   ms per step, 1 thread")
    rows = []
    for case in CASES:
        row = measure(case, arguments.rounds)
        rows.append(row)
        print(
            f"{row['case']:26} {row['bare_ms_per_step']:9.3f} {row['ours_ms_per_step']:9.3f} "
            f"{row['ratio']:7.2f} {row['allowed']:8.2f}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
