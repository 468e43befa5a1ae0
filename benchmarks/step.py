"""What oneDNN's products, fast dropout and the like save of a step on a CPU.

    python benchmarks/step.py [--out benchmarks/step.json] [--rounds 7] [--steps 10]

Each round times each variant once, in a process of its own, because torch chooses its pages at the
first tensor. The ratio is the median over rounds of (ours / without, in the same round). Run it on
an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.nn import functional

from focusing.config import Optim
from focusing.models import CNN, MLP, FastText, cnn
from focusing.models.network import Network
from focusing.nn import Dropout
from focusing.nn.ops import matmul
from focusing.results.record import machine
from focusing.training.optimizer import build_optimizer

AUTHOR = {"input_dropout": 0.2, "dropout": [0.25, 0.25]}
NETWORKS = {
    "3600-800-800-10, dense": lambda: MLP(3600, 10, [800, 800], **AUTHOR),
    "784-800-800-10, dense": lambda: MLP(784, 10, [800, 800], **AUTHOR),
    "784-800-800-10, focused": lambda: MLP(784, 10, [800, 800], focus={"sigma": 0.1}, **AUTHOR),
    "28x28, two convolutions": lambda: CNN((28, 28, 1), 10),
    "1.2 million embeddings": lambda: FastText(400, 10, 1_200_000),
}
BATCH, TEXTS = 512, 32
RATES = dict.fromkeys(("lr", "lr_mu", "lr_sigma"), 0.01)
VARIANTS = {"nothing": "1", "products of oneDNN": "1", "fast dropout": "1", "fused optimizer": "1",
            "channels last": "1", "huge pages": "0"}  # fmt: skip
"""What a variant lacks, and its THP_MEM_ALLOC_ENABLE."""


def milliseconds(net: Network, without: str, steps: int) -> float:
    """Median time of a training step."""
    settings: dict[str, Any] = {"name": "SGD", "momentum": 0.9}
    x = torch.rand(BATCH, *net.shape)
    if isinstance(net, FastText):
        settings = {"name": "Adam", "momentum": None}
        x = torch.randint(net.vocabulary, (TEXTS, *net.shape))
    elif isinstance(net, CNN):
        x = x.squeeze(3).unsqueeze(1).permute(0, 2, 3, 1)  # the strides that batches have
    y = torch.randint(10, (len(x),))
    options = {"fused": without != "fused optimizer"}  # also of SGD, which runs do not fuse
    optimizer = build_optimizer(net, Optim(**settings, **RATES, options=options))
    times = []
    for _ in range(steps + 2):
        start = time.perf_counter()
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times[2:])  # the first steps warm up


def lacking(without: str) -> AbstractContextManager[Any]:
    """Products of MKL, or grey images as they are, with any stride of their channel."""
    if without == "products of oneDNN":
        return patch.object(matmul, "onednn_is_faster", lambda: False)
    if without == "channels last":
        return patch.object(cnn, "channels_first", lambda images: images.permute(0, 3, 1, 2))
    return nullcontext()


def measure(without: str, steps: int) -> dict[str, float]:
    """Times of all networks in this process."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    times = {}
    for name, build in NETWORKS.items():
        net = build()
        if without == "fast dropout":
            for child, layer in net.named_children():
                if isinstance(layer, Dropout):
                    setattr(net, child, nn.Dropout(layer.p))
        with lacking(without):
            times[name] = milliseconds(net, without, steps)
    return times


def measure_elsewhere(without: str, steps: int) -> dict[str, float]:
    """The same in a new process."""
    command = [sys.executable, __file__, "--steps", str(steps), "--without", without]
    environment = {**os.environ, "THP_MEM_ALLOC_ENABLE": VARIANTS[without]}
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)  # noqa: S603
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--without", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.without:
        print(json.dumps(measure(arguments.without, arguments.steps)))
        return
    rounds = [
        {without: measure_elsewhere(without, arguments.steps) for without in VARIANTS}
        for _ in range(arguments.rounds)
    ]
    ratios = {
        network: {
            without: round(statistics.median(
                times["nothing"][network] / times[without][network] for times in rounds
            ), 3)
            for without in VARIANTS if without != "nothing"
        }
        for network in NETWORKS
    }  # fmt: skip
    report = {
        "torch": torch.__version__, "processor": machine()["processor"], "threads": 1,
        "batch": BATCH, "batch of texts": TEXTS, "time over that without": ratios,
    }  # fmt: skip
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
