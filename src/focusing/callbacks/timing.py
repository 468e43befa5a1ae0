"""Time of training and testing, compared with the dense twin of a focused network."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

import pytorch_lightning as pl
import torch
from annotated_types import Ge
from torch import nn

from focusing.callbacks.analysis import Analysis
from focusing.callbacks.pruning_curve import folded
from focusing.callbacks.throughput import clock
from focusing.config import Optim
from focusing.data import Split
from focusing.models import DynamicNetwork
from focusing.nn import FocusConstraint, FocusedLinear, defocusify
from focusing.training.metrics import loss_of
from focusing.training.module import FocusingModule
from focusing.training.optimizer import build_optimizer

Action = Callable[[], object]


class Timing(Analysis):
    """Measures training and test time, and their ratio to the dense twin of a focused network.

    Times of two processes are comparable only on an idle machine. So both networks are timed in
    one process: after training, copies of the network and of its dense twin (the same layers
    without foci; behind windows, the dense network on the whole frame) alternate in training steps
    and tests. The record gets ``timing``:

    - ``epoch_seconds``: median time of the training batches of an epoch, over all ``epochs`` that
      were not interrupted.
    - ``test_seconds``: per 1000 samples, of the network ``as_is`` and ``folded``, and of the
      ``dense`` twin of a network with windows, which cannot be folded.
    - ``step_seconds``: of a training step of the network ``as_is`` and of its ``dense`` twin.
    - ``ratio``: time of the network over that of its dense twin, in ``train`` and ``test``, as a
      median over the rounds, with its ``quartiles``; null for a dense network.
    - ``device``, ``threads``, ``batch_size``, ``test_batch_size`` and ``rounds``.

    Args:
        rounds: measurements of each network, after one that warms up.
    """

    name = "timing"
    state = ("epoch_seconds",)

    def __init__(self, rounds: Annotated[int, Ge(1)] = 10) -> None:
        super().__init__()
        self.rounds = rounds
        self.epoch_seconds: list[float] = []
        self._start: float | None = None

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._start = clock(pl_module.device)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop the clock."""
        if self._start is not None:
            self.epoch_seconds.append(clock(pl_module.device) - self._start)
            self._start = None

    def analyse(self, module: FocusingModule, folder: Path) -> dict[str, Any]:
        """Time training steps and tests of the network and its twin."""
        training = take_turns(_training_steps(module), module.device, self.rounds)
        testing = take_turns(_test_passes(module), module.device, self.rounds)
        focused, dense = "dense" in training, testing.get("dense", testing["folded"])
        test = module.batches["test"]
        samples = min(test.size, len(test.split.targets))
        ratios = {
            "train": _quartiles(training["as_is"], training["dense"]) if focused else None,
            "test": _quartiles(testing["as_is"], dense) if focused else None,
        }
        return {
            "device": str(module.device),
            "threads": torch.get_num_threads(),
            "batch_size": module.batches["train"].size,
            "test_batch_size": samples,
            "rounds": self.rounds,
            "epochs": len(self.epoch_seconds),
            "epoch_seconds": median(self.epoch_seconds) if self.epoch_seconds else None,
            "test_seconds": {k: median(times) * 1000 / samples for k, times in testing.items()},
            "step_seconds": {k: median(times) for k, times in training.items()},
            "ratio": {k: values and values[1] for k, values in ratios.items()},
            "quartiles": {k: values and [values[0], values[2]] for k, values in ratios.items()},
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the times of the checkpoint; an interrupted epoch does not count."""
        super().load_state_dict(state_dict)
        self._start = None


def take_turns(
    actions: Mapping[str, Action], device: torch.device, rounds: int
) -> dict[str, list[float]]:
    """Time actions alternately, so that disturbances affect all of them.

    Args:
        actions: actions by name.
        device: device that they use.
        rounds: measurements of each, after one that warms up.

    Returns:
        Seconds of each round, by name.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds + 1):
        for name, act in actions.items():
            start = clock(device)
            act()
            seconds[name].append(clock(device) - start)
    return {name: times[1:] for name, times in seconds.items()}


def training_twins(net: nn.Module) -> dict[str, nn.Module]:
    """Copies in train mode: ``as_is`` and, if there are foci, ``dense`` without them."""
    twins = {"as_is": copy.deepcopy(net).float().train()}
    if isinstance(net, DynamicNetwork):
        twins["dense"] = _whole_frame(net).train()
    elif any(isinstance(layer, FocusedLinear) for layer in net.modules()):
        twins["dense"] = defocusify(copy.deepcopy(twins["as_is"]))
    return twins


def _whole_frame(net: DynamicNetwork) -> nn.Module:
    """A dense network of the same widths that sees the whole frame."""
    return net._dense(net.widths).to(next(net.parameters()).device)


def _training_steps(module: FocusingModule) -> dict[str, Action]:
    batch, twins = _first_batch(module, "train"), training_twins(module.net)
    return {name: training_step(net, module.optim, batch) for name, net in twins.items()}


def training_step(net: nn.Module, optim: Optim, batch: Split) -> Action:
    """A function that makes one training step on the same batch at each call."""
    optimizer = build_optimizer(net, optim)
    FocusConstraint(net, optimizer)  # clips the foci, which is part of a step

    def step() -> None:
        torch.autograd.backward(loss_of(net(batch.inputs), batch.targets))
        optimizer.step()
        optimizer.zero_grad()

    return step


def _test_passes(module: FocusingModule) -> dict[str, Action]:
    """Forward passes of a test batch through the network ``as_is``, ``folded`` and ``dense``."""
    inputs = _first_batch(module, "test").inputs
    nets = {"as_is": copy.deepcopy(module.net).float().eval(), "folded": folded(module.net)}
    if isinstance(module.net, DynamicNetwork):
        nets["dense"] = _whole_frame(module.net).eval()
    return {name: torch.no_grad()(lambda net=net: net(inputs)) for name, net in nets.items()}


def _first_batch(module: FocusingModule, split: str) -> Split:
    batches = module.batches[split]
    return next(next(iter(batches)).chunks(batches.size))


def _quartiles(times: list[float], others: list[float]) -> list[float]:
    """First quartile, median and third quartile of the ratios of all rounds."""
    ratios = [time / other for time, other in zip(times, others, strict=True)]
    return quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3
