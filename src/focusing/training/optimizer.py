"""The optimizer: one learning rate for the weights, one for mu, one for sigma."""

from __future__ import annotations

import inspect
from difflib import get_close_matches

import torch
from torch import nn

from focusing.config import Optim
from focusing.errors import UserError
from focusing.nn import param_groups


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
    if optim.l2 and "weight_decay" not in takes:
        raise UserError(f"optim.l2={optim.l2}: {optim.name} has no L2 penalty, use 0.")
    groups = param_groups(
        net,
        lr=optim.lr,
        lr_mu=optim.lr_mu,
        lr_sigma=optim.lr_sigma,
        # Optimizers add weight_decay * w to the gradient, which is that of weight_decay / 2 * w^2.
        weight_decay=2 * optim.l2 if optim.l2 else None,
    )
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


def set_learning_rates(optimizer: torch.optim.Optimizer, optim: Optim, epoch: int) -> None:
    """Set each group's rate for an epoch: a function of the epoch, with nothing to remember."""
    hits = sum(epoch >= at for at in optim.decay_epochs)
    for group in optimizer.param_groups:
        rate, factor = {
            "mu": (optim.lr_mu, optim.decay_mu),
            "sigma": (optim.lr_sigma, optim.decay_sigma),
        }.get(group["name"], (optim.lr, None))
        group["lr"] = rate * (optim.decay if factor is None else factor) ** hits
