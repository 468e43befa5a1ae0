"""Optimizer, learning rate schedule, sigma annealing and focus penalties: the config group optim.

Weights, mu and sigma have their own learning rates.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from focusing.config import FociOptim, Optim
from focusing.errors import UserError, suggest
from focusing.nn import FocusedAttention, FocusedLinear, param_groups

FocusedLayer = FocusedLinear | FocusedAttention
FOCI_GROUPS = ("mu", "sigma", "dynamic")
"""Parameter groups of the optimizer that ``optim.foci`` names, if it names one."""
FUSED = (torch.optim.Adam, torch.optim.AdamW)
"""Optimizers whose fused kernel is used, unless an option chooses another.

It reads and writes each weight once. Torch's default on CPUs does so for each operation, which
takes most of a step of Adam with a million embeddings (benchmarks/step.py). SGD gains nothing, and
Adagrad makes its state before ``64-true`` converts the weights, which a fused kernel refuses.
"""
UNSUITED = {
    "LBFGS": "wants a function that computes the loss",
    "Muon": "trains matrices only",
    "SparseAdam": "wants sparse gradients",
}
OTHER_KERNELS = {"fused", "foreach", "differentiable"}
"""Options that choose a kernel."""


def build_optimizer(net: nn.Module, optim: Optim) -> torch.optim.Optimizer:
    """Build an optimizer with the parameter groups weight, other, mu, sigma and dynamic.

    ``weight`` and ``other`` (biases, batch norm) share a learning rate, but the L2 penalty applies
    to weights only. If ``optim.foci`` names an optimizer, it gets the groups mu, sigma and dynamic.
    """
    groups = param_groups(
        net,
        lr=optim.lr,
        lr_mu=optim.lr_mu,
        lr_sigma=optim.lr_sigma,
        lr_dynamic=optim.lr_dynamic,
        # torch adds weight_decay * w to the gradient: the penalty is weight_decay / 2 * w^2.
        weight_decay=2 * optim.l2 if optim.l2 else None,
    )
    if optim.foci.name is None:
        return _make("optim", optim, groups, optim)
    foci = [group for group in groups if group["name"] in FOCI_GROUPS]
    others = [group for group in groups if group["name"] not in FOCI_GROUPS]
    parts = [_make("optim", optim, others, optim)]
    if foci:  # they may be fixed
        parts.append(_make("optim.foci", optim.foci, foci, optim))
    return JointOptimizer(parts)


def check_optimizers(optim: Mapping[str, Any]) -> None:
    """Reject names of optimizers that do not exist; ``optim``: the group of a checked config."""
    _optimizer_class("optim", str(optim["name"]))
    if optim["foci"]["name"] is not None:
        _optimizer_class("optim.foci", str(optim["foci"]["name"]))


def _make(
    prefix: str, own: Optim | FociOptim, groups: list[dict[str, Any]], optim: Optim
) -> torch.optim.Optimizer:
    """Build the optimizer that ``<prefix>.name`` names, for some parameter groups."""
    optimizer_class = _optimizer_class(prefix, str(own.name))
    accepted = inspect.signature(optimizer_class).parameters
    options = dict(own.options)
    if optimizer_class in FUSED and not OTHER_KERNELS & options.keys():
        options["fused"] = True
    if own.momentum is not None:
        options["momentum"] = own.momentum
    for option in options:
        if option not in accepted:
            remedy = "use null" if option == "momentum" else "leave it out"
            raise UserError(f"{prefix}.{option}: {own.name} has no such option, {remedy}.")
        default = accepted[option].default
        if isinstance(default, int | float) and not isinstance(options[option], int | float):
            wrong = f"{prefix}.options.{option}={options[option]}"
            raise UserError(f"{wrong} must be a value like {default}.")
    if options.get("differentiable"):
        raise UserError(f"{prefix}.options.differentiable: steps cannot be, leave it out.")
    if optim.l2 and prefix == "optim" and "weight_decay" not in accepted:
        raise UserError(f"optim.l2={optim.l2}: {own.name} has no L2 penalty, use 0.")
    try:
        optimizer = optimizer_class(groups, lr=optim.lr, **options)  # type: ignore[call-arg]
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        raise UserError(f"{prefix}.name={own.name}: {error}") from None
    if isinstance(optimizer, torch.optim.SGD) and options.get("fused"):
        # torch would leave its buffers uninitialised if the scaler skips the first step.
        for group in optimizer.param_groups:
            for parameter in group["params"] if group["momentum"] else ():
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def fuse_optimizer(optim: Optim) -> Optim:
    """Use the fused kernel of the optimizer, if it has one, for ``16-mixed``.

    It skips steps with overflowed gradients on the device. Without it torch's scaler reads back
    after each step whether gradients have overflowed.
    """
    if "fused" not in inspect.signature(_optimizer_class("optim", optim.name)).parameters:
        return optim
    return replace(optim, options={"fused": True, **optim.options})


class JointOptimizer(torch.optim.Optimizer):
    """Several optimizers, each with its own parameter groups, that step as one.

    Groups and state are shared with the parts: changing a learning rate, saving or loading this
    optimizer does the same to the parts.

    Args:
        parts: the optimizers.
    """

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        self.parts = list(parts)
        super().__init__([group for part in parts for group in part.param_groups], {})
        for part in self.parts:
            self.state.update(part.state)
            part.state = self.state

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Step every part; step hooks are called once."""
        for part in self.parts:
            step: Any = type(part).step
            getattr(step, "__wrapped__", step)(part)  # without hooks

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Hand every part its share of a loaded state."""
        super().__setstate__(state)
        start = 0
        for part in self.parts:
            stop = start + len(part.param_groups)
            part.__setstate__({"state": self.state, "param_groups": self.param_groups[start:stop]})
            start = stop


def _optimizer_class(prefix: str, name: str) -> type[torch.optim.Optimizer]:
    known = [
        key
        for key, kind in vars(torch.optim).items()
        if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer)
        if key not in ("Optimizer", *UNSUITED)
    ]
    if name in UNSUITED:
        raise UserError(f"{prefix}.name={name} {UNSUITED[name]}: use another, such as Adam.")
    if name in known:
        return getattr(torch.optim, name)  # type: ignore[no-any-return]
    nearest = suggest(name, known, cutoff=0.3)
    raise UserError(f"{prefix}.name={name} is not an optimizer of torch.optim{nearest}")


def set_learning_rates(optimizer: torch.optim.Optimizer, optim: Optim, epoch: int) -> None:
    """Set the learning rates of an epoch. They depend only on the epoch: there is no state."""
    rates = learning_rates(optim, epoch)
    for group in optimizer.param_groups:
        group["lr"] = rates.get(group["name"], rates["weight"])


def learning_rates(optim: Optim, epoch: int) -> dict[str, float]:
    """Learning rates of an epoch, by parameter group."""
    decays = sum(epoch >= at for at in optim.decay_epochs)
    rates = {
        "weight": (optim.lr, None),
        "mu": (optim.lr_mu, optim.decay_mu),
        "sigma": (optim.lr_sigma, optim.decay_sigma),
        "dynamic": (optim.lr_dynamic, None),
    }
    return {
        name: rate * (optim.decay if factor is None else factor) ** decays
        for name, (rate, factor) in rates.items()
    }


@torch.no_grad()
def anneal_sigma(layers: Iterable[FocusedLayer], optim: Optim, epoch: int) -> None:
    """Widen sigma before the first epoch, and narrow it again over the following epochs.

    Before epoch 0 every sigma is multiplied by ``anneal_from``, before epochs 1 to
    ``anneal_epochs`` by ``anneal_from ** (-1 / anneal_epochs)``: the factors cancel out. In between
    sigma trains as usual. Sigma is clipped to its range, so if the first factor exceeds it, sigma
    ends narrower than it began.
    """
    epochs = optim.anneal_epochs
    if epochs < 1 or epoch > epochs:
        return
    factor = optim.anneal_from if epoch == 0 else optim.anneal_from ** (-1 / epochs)
    for layer in layers:
        layer.sigma.mul_(factor)
        layer.constrain_()


def focus_penalty(layers: Sequence[FocusedLayer], optim: Optim) -> Tensor:
    """Penalty of the options ``sigma_l1``, ``sigma_l2`` and ``mu_repulsion``, of shape ()."""
    strengths = {1: optim.sigma_l1, 2: optim.sigma_l2}
    terms = [s * layer.regularization(p) for p, s in strengths.items() for layer in layers]
    if optim.mu_repulsion:
        terms += [optim.mu_repulsion * repulsion(layer) for layer in layers]
    return torch.stack(terms).sum() if terms else torch.zeros(())


def repulsion(layer: FocusedLayer) -> Tensor:
    r"""Penalty on foci of a layer that are close together, of shape ().

    .. math::
        \frac{1}{n} \sum_{i < j} e^{-|\mu_i - \mu_j|^2 / 2 s^2}, \qquad s = n^{-1/d}

    The reach s is the distance between n foci that are spread evenly over d axes of length 1. Foci
    that far apart hardly repel each other.
    """
    neurons, axes = layer.mu.shape
    squares = (layer.mu[:, None] - layer.mu).square().sum(-1)
    crowding = torch.exp(squares * (-0.5 * neurons ** (2 / axes)))
    return (crowding.sum() - neurons) / (2 * neurons)  # leaves out i = j, counts each pair once
