"""Parameter groups and the constraint for training focused layers with any torch optimizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from focusing.nn.attention import FocusedAttention
from focusing.nn.linear import FocusedLinear
from focusing.nn.windows import WindowReader


def param_groups(
    model: nn.Module,
    *,
    lr: float | None = None,
    lr_mu: float | None = None,
    lr_sigma: float | None = None,
    lr_dynamic: float | None = None,
    weight_decay: float | None = None,
) -> list[dict[str, Any]]:
    """Parameter groups of a model: ``weight``, ``other``, ``mu``, ``sigma`` and ``dynamic``.

    ``weight`` holds matrices and kernels, ``other`` vectors (biases, batch norms), ``mu`` and
    ``sigma`` the foci of all :class:`FocusedLinear` and :class:`FocusedAttention` layers. The group
    ``dynamic`` holds :class:`DynamicFocus` and :class:`SpatialTransformer`, because windows
    collapse at the learning rate of the weights. Frozen parameters and empty groups are left out.

    Args:
        model: any model, with focused layers or without.
        lr: learning rate of ``weight`` and ``other``; None: the optimizer's default.
        lr_mu: learning rate of the centres; None: ``lr``.
        lr_sigma: learning rate of the apertures; None: ``lr``.
        lr_dynamic: learning rate of dynamic foci; None: ``lr`` / 30.
        weight_decay: weight decay of ``weight``; None: the optimizer's default. The other groups
            have none, because foci would drift to 0.

    Example:
        >>> model = nn.Sequential(FocusedLinear(784, 800), nn.ReLU(), nn.Linear(800, 10))
        >>> groups = param_groups(model, lr=0.1, lr_mu=0.01, lr_sigma=0.001, weight_decay=1e-4)
        >>> [(group["name"], group["lr"], group["weight_decay"]) for group in groups]
        [('weight', 0.1, 0.0001), ('other', 0.1, 0.0), ('mu', 0.01, 0.0), ('sigma', 0.001, 0.0)]
        >>> optimizer = torch.optim.SGD(groups, momentum=0.9)
    """
    foci: dict[nn.Parameter, str] = {}
    for module in model.modules():
        if isinstance(module, FocusedLinear | FocusedAttention):
            foci |= {module.mu: "mu", module.sigma: "sigma"}
        elif isinstance(module, WindowReader):
            foci |= dict.fromkeys(module.parameters(), "dynamic")
    members: dict[str, list[nn.Parameter]] = {
        name: [] for name in ("weight", "other", "mu", "sigma", "dynamic")
    }
    for parameter in model.parameters():
        if parameter.requires_grad:
            default = "weight" if parameter.dim() > 1 else "other"
            members[foci.get(parameter, default)].append(parameter)
    rates = {
        "weight": lr,
        "other": lr,
        "mu": lr if lr_mu is None else lr_mu,
        "sigma": lr if lr_sigma is None else lr_sigma,
        "dynamic": lr / 30 if lr_dynamic is None and lr is not None else lr_dynamic,
    }
    groups = []
    for name, parameters in members.items():
        decay = weight_decay if name == "weight" else 0.0
        options = {"lr": rates[name], "weight_decay": decay}
        group = {key: value for key, value in options.items() if value is not None}
        if parameters:
            groups.append({"name": name, "params": parameters, **group})
    return groups


class FocusConstraint:
    """Calls ``constrain_()`` of all focused layers of a model after each optimizer step.

    Args:
        model: the model.
        optimizer: its optimizer.

    Example:
        >>> model = nn.Sequential(FocusedLinear(6, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> optimizer = torch.optim.SGD(param_groups(model, lr=100.0))
        >>> constraint = FocusConstraint(model, optimizer)
        >>> model(torch.randn(8, 6)).square().sum().backward()
        >>> optimizer.step()
        >>> bool((model[0].sigma >= 0.01).all())
        True
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Register the constraint on the optimizer."""
        kinds = (FocusedLinear, FocusedAttention, WindowReader)
        self.layers = [layer for layer in model.modules() if isinstance(layer, kinds)]
        self._handle = optimizer.register_step_post_hook(self)

    def __call__(self, *_: object) -> None:
        """Clip all foci into their ranges."""
        for layer in self.layers:
            layer.constrain_()

    def remove(self) -> None:
        """Remove the constraint from the optimizer."""
        self._handle.remove()
