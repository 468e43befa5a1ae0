"""A network and its dense twin, ready to be timed against each other."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from focusing.data.dataset import Split
from focusing.nn import FocusedLinear, defocusify
from focusing.training.metrics import loss_of
from focusing.training.optimizer import build_optimizer
from focusing.training.pruning import folded

if TYPE_CHECKING:
    from focusing.training.module import FocusingModule


def training_steps(module: FocusingModule) -> dict[str, Callable[[], Any]]:
    """Functions that make a training step of a copy: of the network ``as_is``, and ``dense``.

    Clipping the foci is part of a step. The network of the module is not touched; one without foci
    has no twin.
    """
    batch = _first(module, "train")
    return {name: _step(net, module, batch) for name, net in training_twins(module.net).items()}


def training_twins(net: nn.Module) -> dict[str, nn.Module]:
    """Copies in train mode: ``as_is``, and ``dense`` without the foci."""
    twins = {"as_is": copy.deepcopy(net).float().train()}
    if any(isinstance(each, FocusedLinear) for each in net.modules()):
        twins["dense"] = defocusify(copy.deepcopy(twins["as_is"]))
    return twins


def test_passes(module: FocusingModule) -> dict[str, Callable[[], Any]]:
    """Functions that run a test batch through the network ``as_is``, and ``folded``."""
    inputs = _first(module, "test").inputs
    nets = {"as_is": copy.deepcopy(module.net).float().eval(), "folded": folded(module.net)}
    return {name: _pass(net, inputs) for name, net in nets.items()}


def _step(net: nn.Module, module: FocusingModule, batch: Split) -> Callable[[], None]:
    optimizer = build_optimizer(net, module.optim)
    foci = [each for each in net.modules() if isinstance(each, FocusedLinear)]

    def step() -> None:
        torch.autograd.backward(loss_of(net(batch.inputs), batch.targets))
        optimizer.step()
        optimizer.zero_grad()
        for layer in foci:
            layer.constrain_()

    return step


def _pass(net: nn.Module, inputs: torch.Tensor) -> Callable[[], None]:
    @torch.no_grad()
    def run() -> None:
        net(inputs)

    return run


def _first(module: FocusingModule, name: str) -> Split:
    """A batch of one of the splits."""
    batches = module.batches[name]
    return next(next(iter(batches)).chunks(batches.size))
