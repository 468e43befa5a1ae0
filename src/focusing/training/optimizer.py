"""The optimizer: one learning rate for the weights, one for mu, one for sigma."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import Any

import torch
from torch import nn

from focusing.config import Optim
from focusing.errors import UserError
from focusing.nn import FocusedLinear


def build_optimizer(net: nn.Module, optim: Optim) -> torch.optim.Optimizer:
    """Make an optimizer with the parameter groups weight, other, mu and sigma.

    ``weight`` and ``other`` (biases, batch norm) learn alike, but only weights are penalised.
    """
    kind = _optimizer_class(optim.name)
    takes = inspect.signature(kind).parameters
    options = dict(optim.options)
    if optim.momentum is not None:
        options["momentum"] = optim.momentum
    for option in options:
        if option not in takes:
            hint = "null" if option == "momentum" else "without it"
            raise UserError(f"optim.{option}: {optim.name} has no such option, use {hint}.")
    groups = _groups(net, optim)
    if optim.l2:
        if "weight_decay" not in takes:
            raise UserError(f"optim.l2={optim.l2}: {optim.name} has no L2 penalty, use 0.")
        # Optimizers add weight_decay * w to the gradient, which is that of weight_decay / 2 * w^2.
        groups[0]["weight_decay"] = 2 * optim.l2
    if "weight_decay" in takes:  # AdamW decays by default; foci must not drift to 0
        for group in groups:
            if group["name"] != "weight":
                group["weight_decay"] = 0.0
    try:
        return kind(groups, lr=optim.lr, **options)  # type: ignore[call-arg]
    except (TypeError, ValueError) as error:
        raise UserError(f"optim.name={optim.name}: {error}") from None


def _optimizer_class(name: str) -> type[torch.optim.Optimizer]:
    known = [
        each
        for each, kind in vars(torch.optim).items()
        if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer) and each != "Optimizer"
    ]
    if name in known:
        return getattr(torch.optim, name)  # type: ignore[no-any-return]
    near = get_close_matches(name, known, n=1, cutoff=0.3)
    hint = f", did you mean {near[0]}?" if near else "."
    raise UserError(f"optim.name={name} is not an optimizer of torch.optim{hint}")


def _groups(net: nn.Module, optim: Optim) -> list[dict[str, Any]]:
    foci: dict[nn.Parameter, str] = {}
    for module in net.modules():
        if isinstance(module, FocusedLinear):
            foci |= {module.mu: "mu", module.sigma: "sigma"}
    rates = {"weight": optim.lr, "other": optim.lr, "mu": optim.lr_mu, "sigma": optim.lr_sigma}
    groups: dict[str, list[nn.Parameter]] = {name: [] for name in rates}
    for parameter in net.parameters():
        if parameter.requires_grad:
            kind = foci.get(parameter) or ("weight" if parameter.dim() > 1 else "other")
            groups[kind].append(parameter)
    return [
        {"name": name, "params": parameters, "lr": rates[name]}
        for name, parameters in groups.items()
        if parameters
    ]


def set_learning_rates(optimizer: torch.optim.Optimizer, optim: Optim, epoch: int) -> None:
    """Set each group's rate for an epoch: a function of the epoch, with nothing to remember."""
    hits = sum(epoch >= at for at in optim.decay_epochs)
    for group in optimizer.param_groups:
        rate, factor = {
            "mu": (optim.lr_mu, optim.decay_mu),
            "sigma": (optim.lr_sigma, optim.decay_sigma),
        }.get(group["name"], (optim.lr, None))
        group["lr"] = rate * (optim.decay if factor is None else factor) ** hits
