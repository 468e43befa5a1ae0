"""What a config may call: an exact list of callables, with arguments of the declared types.

A config is data, and may come from anybody: it must not be able to run programs. So it names
callables of a list, not of a package: even torch has classes that start processes. Hydra calls
what its own part of a config names (callbacks, loggers, launchers, sweepers) and sets the
environment of a job, which tells git, for one, what to run; :func:`check_hydra` guards that.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import NoneType
from typing import Any, TypeVar, get_type_hints

from omegaconf import DictConfig, OmegaConf
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from focusing.config import SCHEMA_TARGETS
from focusing.errors import OptionError, UserError
from focusing.validation import describe_errors, iter_leaves

CALLBACKS = (
    "ClipFoci",
    "DeadInputs",
    "Explanation",
    "FocusTrajectory",
    "Progress",
    "PruningCurve",
    "SearchTrial",
    "StuckNeurons",
    "Throughput",
    "Timing",
    "WindowTrajectory",
)
TARGETS = frozenset(
    {
        *(target for targets in SCHEMA_TARGETS.values() for target in targets.values()),
        *(f"focusing.callbacks.{name}" for name in CALLBACKS),
    }
)
"""What conf/ names, and nothing else."""
ENTRY_POINTS = "focusing.targets"
"""Installed packages add their own under this name."""
LOG_CLASSES = (
    "logging.FileHandler",
    "logging.Formatter",
    "logging.NullHandler",
    "logging.StreamHandler",
    "colorlog.ColoredFormatter",
)
"""Classes that loggers may be made of."""
LOG_FILE = "${hydra.runtime.output_dir}/${hydra.job.name}.log"
"""The file of Hydra's own choices of ``hydra/job_logging``."""
STREAMS = ("ext://sys.stdout", "ext://sys.stderr")
PLAIN_TYPES = (bool, dict, float, int, list, str, tuple, NoneType)

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
    options = {key: value for key, value in node.items() if key != "_target_"}
    if any("_target_" in path.split(".") for path, _ in iter_leaves(options, lists=True)):
        raise UserError(f"{name} is given another _target_, which is refused: give plain values.")
    try:
        inspect.signature(target).bind(**options, **more)
    except TypeError as error:
        raise UserError(f"{name}: {error}.") from None
    groups = [group for group, targets in SCHEMA_TARGETS.items() if name in targets.values()]
    check_arguments(target, options, f"{groups[0]}." if groups else "")
    try:
        return target(**options, **more)  # type: ignore[no-any-return]
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
    """What :func:`trust` allows, for a process that goes on with the work of this one."""
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


def _makes(target: Any, kind: type) -> bool:
    """Whether a call gives an object of this kind, known without calling."""
    if not inspect.isclass(target):
        try:
            target = get_type_hints(target).get("return")
        except (NameError, TypeError):  # an annotation of something else, or no function
            return False
    return inspect.isclass(target) and issubclass(target, kind)


def check_arguments(
    target: Callable[..., Any], options: Mapping[str, Any], prefix: str = ""
) -> None:
    """Refuse an option that the annotation of the target's parameter excludes.

    As in JSON, "1" and true are no numbers, 1.5 is no integer; a list may be a tuple.

    Args:
        target: what will be called; parameters without a type take anything.
        options: values; only plain ones are checked.
        prefix: stands before the name of an option in the error, as in ``data.``.
    """
    types = _types(target)
    for name, value in options.items():
        if name not in types or not isinstance(value, PLAIN_TYPES):
            continue
        try:
            types[name].validate_json(json.dumps(value, default=str), strict=True)
        except ValidationError as error:
            for key in error.errors()[0]["loc"]:  # an option of a group inside
                if isinstance(value, dict) and key in value:
                    name, value = f"{name}.{key}", value[str(key)]
            fault = describe_errors(error)
            shown = value if fault.startswith("is not one of") else repr(value)
            raise OptionError(f"{prefix}{name}={shown} {fault}.") from None


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
            group = is_dataclass(parameter.annotation)  # options inside, with types of their own
            foreign = None if group else ConfigDict(arbitrary_types_allowed=True)
            try:
                types[parameter.name] = TypeAdapter(parameter.annotation, config=foreign)
            except PydanticUserError:  # of a library that pydantic does not know
                continue
    return types


def check_hydra(hydra: DictConfig, *, sweeps: bool) -> None:
    """Refuse what could run a program or write to any file.

    Args:
        hydra: Hydra's part of a composed config.
        sweeps: whether Hydra goes on to make the launcher and the sweeper.

    Raises:
        UserError: with the option.
    """
    if hydra.job.env_set:
        raise UserError("hydra.job.env_set is refused: set variables in your shell instead.")
    for part in ("callbacks", "launcher", "sweeper") if sweeps else ("callbacks",):
        for name, value in _options(hydra, part, resolve=True):
            plugin = name in ("hydra.launcher._target_", "hydra.sweeper._target_")  # Hydra's own
            if name.endswith("._target_") and not plugin and value not in trusted():
                raise _refusal(name, value, f" If it is your own, add --trust-target {value}.")
    for part in ("hydra_logging", "job_logging"):
        for name, value in _options(hydra, part, resolve=False):
            if not _may_log(name.rpartition(".")[2], value):
                raise _refusal(name, value)


def _may_log(key: str, value: Any) -> bool:
    if key in ("class", "()"):
        return value in LOG_CLASSES
    if key in ("filename", "mode"):
        return value in (LOG_FILE, "a")
    text = str(value)  # an interpolation may become anything later
    return "${" not in text and ("://" not in text or value in STREAMS)


def _options(hydra: DictConfig, part: str, *, resolve: bool) -> Iterator[tuple[str, Any]]:
    """Name and value of the options below a part of Hydra's."""
    if not resolve and OmegaConf.is_interpolation(hydra, part):
        raise _refusal(f"hydra.{part}", "${...}")
    if OmegaConf.is_config(hydra[part]):
        options = OmegaConf.to_container(hydra[part], resolve=resolve)
        yield from iter_leaves(options, "hydra", part, lists=True)


def _refusal(name: str, value: Any, more: str = "") -> UserError:
    return UserError(f"{name}={value!r} is refused: a config must not run programs.{more}")
