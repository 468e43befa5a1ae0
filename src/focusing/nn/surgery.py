"""Replace the linear layers of any model by focused ones, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from focusing.nn.anchored import AnchoredLinear
from focusing.nn.linear import FocusedLinear

Where = str | Iterable[str] | Callable[[str, nn.Module], bool] | None
"""A name or pattern such as ``"encoder.*"``, several of them, or ``f(name, layer) -> bool``."""

HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def focusify(
    module: nn.Module, where: Where = None, *, keep_weights: bool = False, **focus_options: Any
) -> nn.Module:
    """Replace ``nn.Linear`` layers by focused ones of the same shape, device and dtype, in place.

    Subclasses of ``nn.Linear`` are not replaced: torch passes the weights of its own to functions
    that ignore foci.

    Args:
        module: the model, or a single ``nn.Linear``.
        where: which layers, by their names in ``named_modules``; all by default.
        keep_weights: keep weights and biases, and whether they are trained, instead of initialising
            them as ``FocusedLinear``.
        **focus_options: options of ``FocusedLinear``.

    Returns:
        The model, or the new layer if the model is itself a linear layer.
    """

    def focused(linear: nn.Module) -> nn.Module:
        assert isinstance(linear, nn.Linear)  # noqa: S101 - for the type checker
        layer = FocusedLinear(
            linear.in_features,
            linear.out_features,
            linear.bias is not None,
            device=linear.weight.device,
            dtype=linear.weight.dtype,
            **focus_options,
        )
        if keep_weights:
            with torch.no_grad():
                for name in ("weight", "bias"):
                    kept, parameter = getattr(linear, name), getattr(layer, name)
                    if kept is not None:
                        parameter.copy_(kept).requires_grad_(kept.requires_grad)
        return layer.train(linear.training)

    return _replace(module, where, (nn.Linear,), focused)


def defocusify(module: nn.Module, where: Where = None) -> nn.Module:
    """Fold focused layers into plain ``nn.Linear`` layers with the same outputs, in place.

    Args:
        module: the model, or a single ``FocusedLinear``.
        where: which layers, by name; all by default.

    Returns:
        The model, or the new layer if the model is itself a focused layer.
    """
    kinds = FocusedLinear, AnchoredLinear
    return _replace(module, where, kinds, lambda layer: layer.fold())  # type: ignore[operator]


def _selector(where: Where) -> Callable[[str, nn.Module], bool]:
    if callable(where):
        return where
    patterns = ["*"] if where is None else [where] if isinstance(where, str) else list(where)
    return lambda name, layer: any(fnmatchcase(name, pattern) for pattern in patterns)


def _replace(
    module: nn.Module,
    where: Where,
    kinds: tuple[type[nn.Module], ...],
    replace: Callable[[nn.Module], nn.Module],
) -> nn.Module:
    """Replace the selected layers of some types; shared layers stay shared."""
    selected = _selector(where)
    new: dict[nn.Module, nn.Module] = {}
    for name, layer in list(module.named_modules(remove_duplicate=False)):
        if layer not in new and type(layer) in kinds and selected(name, layer):
            if any(getattr(layer, hooks) for hooks in HOOKS):
                raise ValueError(
                    f"{name or 'The layer'} has hooks, which its replacement would lose: remove "
                    "them first."
                )
            new[layer] = replace(layer)
    if not new:
        for name, layer in module.named_modules():
            if name and where is not None and not callable(where) and selected(name, layer):
                types = " and ".join(kind.__name__ for kind in kinds)
                raise ValueError(
                    f"where selects {name}, a {type(layer).__name__}: only {types} layers can be "
                    "replaced."
                )
        raise ValueError("where selects no layer of the model: see named_modules() for the names.")
    if module in new:
        return new[module]
    for parent in list(module.modules()):
        if isinstance(parent, nn.TransformerEncoder) and not new.keys().isdisjoint(
            parent.modules()
        ):
            parent.use_nested_tensor = False  # only the fast path supports nested tensors
        # Not named_children(), which lists a shared layer only once.
        for key, child in parent._modules.items():
            if child in new:
                setattr(parent, key, new[child])
                if isinstance(parent, nn.TransformerEncoderLayer):
                    # Disables its fast path, which reads linear1.weight and would skip the focus.
                    parent.activation_relu_or_gelu = 0
    return module
