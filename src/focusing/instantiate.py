"""Instantiate the ``_target_`` of a config: an allow-list of callables, with checked arguments.

A config may come from a stranger, so it must not be able to run programs. It may only name the
callables of an exact list: allowing a package would not do, as even torch has classes that start
processes. Hydra itself instantiates callbacks, loggers, launchers and sweepers, and sets
environment variables, some of which name programs; :func:`check_hydra` checks that part.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
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
"""The callables that conf/ names."""
ENTRY_POINTS = "focusing.targets"
"""Entry point group in which installed packages register their own targets."""
LOG_CLASSES = (
    "logging.FileHandler",
    "logging.Formatter",
    "logging.NullHandler",
    "logging.StreamHandler",
    "colorlog.ColoredFormatter",
)
"""Classes allowed in the logging config."""
LOG_FILE = "${hydra.runtime.output_dir}/${hydra.job.name}.log"
"""The log file in Hydra's own ``hydra/job_logging`` configs."""
STREAMS = ("ext://sys.stdout", "ext://sys.stderr")
PLAIN_TYPES = (bool, dict, float, int, list, str, tuple, NoneType)

T = TypeVar("T")
_trusted: set[str] = set()


def instantiate(node: Any, kind: type[T], **more: Any) -> T:
    """Call the ``_target_`` of a config with its other keys as arguments.

    Args:
        node: a dict without any nested targets.
        kind: the target must be a subclass of it, or a function annotated to return one.
        **more: further arguments.

    Raises:
        UserError: the target is not allowed, of another kind, or does not take the arguments.
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
    except ValueError as error:  # its message says what is allowed
        raise UserError(str(error)) from None


def trust(names: Iterable[str]) -> None:
    """Allow configs to name these callables, too, in this process.

    Never pass names from a config or a file: only the user may extend the list.
    """
    for name in names:
        if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", name):
            raise UserError(f"--trust-target {name} is not a name like my_module.MyClass.")
        _trusted.add(name)


def trusted() -> frozenset[str]:
    """The names passed to :func:`trust`, to be passed on to worker processes."""
    return frozenset(_trusted)


def _resolve(name: str) -> Any:
    """Import a callable, after checking that its name is allowed."""
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
    """Whether a callable returns an instance of a class, according to its annotation."""
    if not inspect.isclass(target):
        try:
            target = get_type_hints(target).get("return")
        except (NameError, TypeError):  # an unresolvable annotation, or not a function
            return False
    return inspect.isclass(target) and issubclass(target, kind)


def check_arguments(
    target: Callable[..., Any], options: Mapping[str, Any], prefix: str = ""
) -> None:
    """Check options against the annotations of the parameters that will receive them.

    As in JSON, "1" and true are not numbers, and 1.5 is not an integer; a list may be a tuple.

    Args:
        target: the callable; parameters without annotation accept anything.
        options: values by parameter name; only JSON types and tuples are checked.
        prefix: prefix of the option names in the error message, such as ``data.``.
    """
    types = _types(target)
    for name, value in options.items():
        if name not in types or not isinstance(value, PLAIN_TYPES):
            continue
        try:
            types[name].validate_json(json.dumps(value, default=str), strict=True)
        except ValidationError as error:
            for key in error.errors()[0]["loc"]:  # an option of a nested group
                if isinstance(value, dict) and key in value:
                    name, value = f"{name}.{key}", value[str(key)]
            fault = describe_errors(error)
            shown = value if fault.startswith("is not one of") else repr(value)
            raise OptionError(f"{prefix}{name}={shown} {fault}.") from None


@cache
def _types(target: Callable[..., Any]) -> dict[str, TypeAdapter[Any]]:
    """Validators of the annotated parameters of a callable, as far as pydantic supports them."""
    try:
        parameters = inspect.signature(target, eval_str=True).parameters.values()
    except (NameError, TypeError, ValueError):  # types imported under TYPE_CHECKING only
        return {}
    types = {}
    for parameter in parameters:
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.annotation is not parameter.empty:
            nested = is_dataclass(parameter.annotation)  # pydantic takes no config for these
            config = None if nested else ConfigDict(arbitrary_types_allowed=True)
            with suppress(PydanticUserError):  # a type that pydantic does not support
                types[parameter.name] = TypeAdapter(parameter.annotation, config=config)
    return types


def check_hydra(hydra: DictConfig, *, sweeps: bool) -> None:
    """Reject settings of Hydra that could run a program or write to arbitrary files.

    Args:
        hydra: the ``hydra`` node of a composed config.
        sweeps: whether Hydra will instantiate the launcher and the sweeper.

    Raises:
        UserError: names the option.
    """
    if hydra.job.env_set:
        raise UserError("hydra.job.env_set is refused: set variables in your shell instead.")
    for part in ("callbacks", "launcher", "sweeper") if sweeps else ("callbacks",):
        for name, value in _options(hydra, part, resolve=True):
            plugin = name in ("hydra.launcher._target_", "hydra.sweeper._target_")
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
    text = str(value)  # interpolations are not resolved yet, so they could become anything
    return "${" not in text and ("://" not in text or value in STREAMS)


def _options(hydra: DictConfig, part: str, *, resolve: bool) -> Iterator[tuple[str, Any]]:
    """Name and value of all options in one group of Hydra's."""
    if not resolve and OmegaConf.is_interpolation(hydra, part):
        raise _refusal(f"hydra.{part}", "${...}")
    if OmegaConf.is_config(hydra[part]):
        options = OmegaConf.to_container(hydra[part], resolve=resolve)
        yield from iter_leaves(options, "hydra", part, lists=True)


def _refusal(name: str, value: Any, more: str = "") -> UserError:
    return UserError(f"{name}={value!r} is refused: a config must not run programs.{more}")
