"""Whether the options of a config are of the types that a signature asks for."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from focusing.errors import UserError

STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)
"""As in JSON: "1" and true are no numbers, 1.5 is no integer; a list may be a tuple."""


def check_arguments(target: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse an option of another type than the target's parameter of that name.

    Args:
        target: what will be called; parameters without a type take anything.
        options: plain values.
    """
    types = _types(target)
    for name, value in options.items():
        if name not in types:
            continue
        try:
            types[name].validate_json(json.dumps(value, default=str))
        except ValidationError as error:
            faults = {
                fault["type"]: fault["msg"].removeprefix("Input ") for fault in error.errors()
            }
            if "missing" in faults:
                faults["missing"] = "has too few values"
            faults.pop("needs_python_object", None)  # a class, which no config can hold
            said = " or ".join(faults.values()) or "cannot be given in a config"
            raise UserError(f"{name}={value!r} {said}.") from None


@cache
def _types(target: Callable[..., Any]) -> dict[str, TypeAdapter[Any]]:
    """The parameters of a callable whose types can be checked."""
    try:
        parameters = inspect.signature(target, eval_str=True).parameters.values()
    except (NameError, TypeError, ValueError):  # types that exist for type checkers only
        return {}
    types = {}
    for parameter in parameters:
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.annotation is not parameter.empty:
            try:
                types[parameter.name] = TypeAdapter(parameter.annotation, config=STRICT)
            except PydanticUserError:  # of a library that pydantic does not know
                continue
    return types
