"""From a config to an object, if the object is one of ours or of the libraries we build on."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from focusing.errors import UserError

ALLOWED = ("focusing", "torch", "pytorch_lightning", "torchmetrics")
"""Packages a ``_target_`` may come from. A config is data: it must not be able to run programs."""


def instantiate(node: Mapping[str, Any], **more: Any) -> Any:
    """Call the ``_target_`` of a config with its other keys as arguments.

    Args:
        node: plain containers; targets in them are built first.
        **more: further arguments.

    Raises:
        UserError: if the target, or one inside, is not allowed or does not take the arguments.
    """
    given = {key: _build(value) for key, value in node.items() if key != "_target_"}
    target = _resolve(str(node["_target_"]))
    try:
        inspect.signature(target).bind(**given, **more)
    except TypeError as error:
        raise UserError(f"{node['_target_']}: {error}.") from None
    try:
        return target(**given, **more)
    except ValueError as error:  # the constructors say what is allowed
        raise UserError(str(error)) from None


def _build(value: Any) -> Any:
    if isinstance(value, Mapping):
        if "_target_" in value:
            return instantiate(value)
        return {key: _build(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_build(each) for each in value]
    return value


def _resolve(name: str) -> Any:
    root = name.partition(".")[0]
    refusal = UserError(
        f"_target_: {name} is refused: a config may only name classes of {', '.join(ALLOWED)}."
    )
    if root not in ALLOWED:
        raise refusal
    from hydra.utils import get_object

    try:
        found = get_object(name)
    except Exception as error:  # Hydra raises whatever the import did
        raise UserError(f"_target_: {name} cannot be found: {error}") from None
    # focusing.x.os.system begins well and ends elsewhere; torch.hub.load is no class.
    home = str(getattr(found, "__module__", "")).partition(".")[0]
    if home != root or not (inspect.isclass(found) or (root == "focusing" and callable(found))):
        raise refusal
    return found
