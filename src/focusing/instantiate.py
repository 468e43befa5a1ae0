"""From a config to an object, if the object is one that configs may build.

A config is data, and may come from anybody: it must not be able to run programs. So it names
callables of a list, not of a package: even torch has classes that start processes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar, get_type_hints

from focusing.errors import UserError
from focusing.signature import check_arguments

TARGETS = frozenset(
    {
        "focusing.callbacks.ClipFoci",
        "focusing.callbacks.DeadInputs",
        "focusing.callbacks.Explanation",
        "focusing.callbacks.FocusTrajectory",
        "focusing.callbacks.Progress",
        "focusing.callbacks.PruningCurve",
        "focusing.callbacks.SearchTrial",
        "focusing.callbacks.StuckNeurons",
        "focusing.callbacks.Throughput",
        "focusing.callbacks.Timing",
        "focusing.data.boston",
        "focusing.data.catsdogs",
        "focusing.data.cifar10",
        "focusing.data.clt",
        "focusing.data.dna",
        "focusing.data.fashion",
        "focusing.data.fsdd",
        "focusing.data.imdb",
        "focusing.data.lfw",
        "focusing.data.mnist",
        "focusing.data.reuters",
        "focusing.data.synthetic",
        "focusing.models.CNN",
        "focusing.models.FastText",
        "focusing.models.dense_mlp",
        "focusing.models.dense_transfer",
        "focusing.models.focused_cnn",
        "focusing.models.focused_fasttext",
        "focusing.models.focused_mlp",
        "focusing.models.focused_transfer",
    }
)
"""What conf/ names, and nothing else."""
ENTRY_POINTS = "focusing.targets"
"""Installed packages add their own under this name."""

T = TypeVar("T")
_trusted: set[str] = set()


def instantiate(node: Any, kind: type[T], **more: Any) -> T:
    """Call the ``_target_`` of a config with its other keys as arguments.

    Args:
        node: plain containers; there is no other target inside.
        kind: what the target must be a class of, or be annotated to return.
        **more: further arguments.

    Raises:
        UserError: if the target is not allowed, of another kind or does not take the arguments.
    """
    if not (isinstance(node, Mapping) and isinstance(node.get("_target_"), str)):
        raise UserError(f"{node} is not a _target_ with its options.")
    name: str = node["_target_"]
    target = _resolve(name)
    if not _makes(target, kind):
        raise UserError(f"_target_: {name} is refused: it is not a {kind.__name__}.")
    given = {key: value for key, value in node.items() if key != "_target_"}
    if _holds_target(given):
        raise UserError(f"{name} is given another _target_, which is refused: give plain values.")
    try:
        inspect.signature(target).bind(**given, **more)
    except TypeError as error:
        raise UserError(f"{name}: {error}.") from None
    check_arguments(target, given)
    try:
        return target(**given, **more)  # type: ignore[no-any-return]
    except ValueError as error:  # the constructors say what is allowed
        raise UserError(str(error)) from None


def trust(names: Iterable[str]) -> None:
    """Let configs name these callables too, in this process.

    Never call it with what a config or a file says: only the user can trust.
    """
    for name in names:
        if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", name):
            raise UserError(f"--trust-target {name} is not a name like my_module.MyClass.")
        _trusted.add(name)


def trusted() -> frozenset[str]:
    """What :func:`trust` was told, for a process that goes on with the work of this one."""
    return frozenset(_trusted)


def _resolve(name: str) -> Any:
    """The callable of a name; nothing is imported before the name is known to be allowed."""
    if name not in TARGETS | _trusted and name not in _installed():
        raise UserError(
            f"_target_: {name} is refused: a config may only name what conf/ does, and what "
            f"--trust-target {name} allows."
        )
    home, _, attribute = name.rpartition(".")
    try:
        return getattr(import_module(home), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"_target_: {name} cannot be found ({error}): is its folder in PYTHONPATH?"
        ) from None


@cache
def _installed() -> set[str]:
    return {f"{point.module}.{point.attr}" for point in entry_points(group=ENTRY_POINTS)}


def _holds_target(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "_target_" in value or any(map(_holds_target, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_target, value))


def _makes(target: Any, kind: type) -> bool:
    """Whether a call gives an object of this kind, known without calling."""
    if not inspect.isclass(target):
        try:
            target = get_type_hints(target).get("return")
        except (NameError, TypeError):  # an annotation of something else, or no function
            return False
    return inspect.isclass(target) and issubclass(target, kind)
