"""Validation of untrusted values, and limits on memory and file sizes.

Files may come from strangers. A value that passes a function of :func:`make_validator` is safe to
print, to plot and, if it is a ``NAME``, to use as a file name.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema

from focusing.errors import UserError, printable

MAX_INTEGER, MAX_NUMBER = 2**63 - 1, 1e100
"""Small enough that statistics of such numbers do not overflow."""
MAX_TEXT, MAX_LABEL, MAX_NAME, MAX_DEPTH = 100_000, 200, 100, 20
"""Maximum length of a text, a label and a file name; maximum nesting of containers."""
MAX_READ = 4 * 1024**3
"""Maximum bytes of a file read or decompressed into memory; our data sets need a tenth of it."""
CGROUP_MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""Memory limit of a container or a cluster job on Linux."""


class InvalidValueError(ValueError):
    """A value of the wrong type, out of range, or unsafe to print.

    Args:
        reason: predicate of the error sentence, whose subject is the path.
        path: keys that lead to the value.
    """

    def __init__(self, reason: str, *path: str | int) -> None:
        super().__init__(reason, *path)
        self.reason, self.path = reason, path

    def __str__(self) -> str:
        where = ".".join(printable(str(key), 40) for key in self.path)
        return f"{where} {self.reason}" if where else f"it {self.reason}"


def is_name(text: Any) -> bool:
    """Whether a text is a file name without any path components."""
    if not isinstance(text, str) or not text.isprintable():
        return False
    return text not in ("", ".", "..") and not {"/", "\\"} & set(text) and len(text.encode()) < 256


def _check_name(text: str) -> str:
    if not is_name(text) or text[0] == "." or len(text) > MAX_NAME:
        raise ValueError(f"is not a name of 1 to {MAX_NAME} letters without separators")
    return text


def _check_folder(text: str) -> str:
    try:
        for name in text.split("/"):
            _check_name(name)
    except ValueError:
        raise ValueError("is not a folder below this one") from None
    return text


COUNT, AT_LEAST_ONE = core_schema.int_schema(ge=0), core_schema.int_schema(ge=1)
SHARE, NON_NEGATIVE = core_schema.float_schema(ge=0, le=1), core_schema.float_schema(ge=0)
PROTOCOL = core_schema.literal_schema(["best_test", "holdout", "last"])
TEXT = core_schema.str_schema()
LABEL = core_schema.str_schema(min_length=1, max_length=MAX_LABEL)
"""Text that fits into a table cell."""
NAME = core_schema.no_info_after_validator_function(_check_name, TEXT)
"""Name of a file or folder."""
FOLDER = core_schema.no_info_after_validator_function(_check_folder, TEXT)
"""Relative path of a subfolder, with slashes."""


def object_schema(required: Mapping[str, CoreSchema], **optional: CoreSchema) -> CoreSchema:
    """Schema of an object; keys that are not named here may hold any JSON value."""
    return core_schema.typed_dict_schema(
        {
            name: core_schema.typed_dict_field(schema, required=name in required)
            for name, schema in {**required, **optional}.items()
        }
    )


def make_validator(schema: CoreSchema) -> Callable[[Any], None]:
    """Make a function that raises InvalidValueError for values that do not match a schema.

    Values must also be JSON values. Nothing is converted: "1" and true are not numbers.
    """
    validator = SchemaValidator(schema)

    def check(value: Any) -> None:
        check_json_value(value)
        try:
            validator.validate_python(value, strict=True)
        except ValidationError as error:
            fault, *_ = error.errors()
            shown = "" if fault["type"] == "missing" else f": {short_repr(fault['input'])}"
            raise InvalidValueError(f"{_describe(fault)}{shown}", *fault["loc"]) from None

    return check


def check_json_value(value: Any, depth: int = MAX_DEPTH) -> None:
    """Check that a value consists of finite numbers, strings, lists and dicts only.

    Raises:
        InvalidValueError: with the path of the first value that is anything else.
    """
    kind = type(value)
    if kind is str:
        _check_text(value)
    elif kind is float:
        if not -MAX_NUMBER <= value <= MAX_NUMBER:  # NaN is in no range
            raise InvalidValueError(f"is {value}: it must be finite, and at most {MAX_NUMBER:g}")
    elif kind is int:
        if abs(value) > MAX_INTEGER:
            raise InvalidValueError(f"is too large: {short_repr(value)}")
    elif kind is list or kind is dict:
        if not depth:
            raise InvalidValueError("is nested too deeply")
        if kind is list and _are_finite(value):
            return
        for key, item in value.items() if kind is dict else enumerate(value):
            try:
                if kind is dict:
                    _check_key(key)
                check_json_value(item, depth - 1)
            except InvalidValueError as error:
                raise InvalidValueError(error.reason, key, *error.path) from None
    elif value is not None and kind is not bool:
        raise InvalidValueError(f"is not plain: {kind.__name__}")


def _are_finite(values: list[Any]) -> bool:
    """Fast path for lists of finite floats: the metric series of runs are long."""
    if set(map(type, values)) != {float}:
        return False
    return not math.isnan(sum(values)) and max(map(abs, values)) <= MAX_NUMBER


def _check_text(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise InvalidValueError(f"is longer than {MAX_TEXT} characters")
    if not text.isprintable() and printable(text) != text:  # such as escape sequences
        raise InvalidValueError(f"has characters that cannot be printed: {short_repr(text)}")


@lru_cache(maxsize=4096)  # thousands of records share their keys
def _check_key(key: Any) -> None:
    if type(key) is not str or not 0 < len(key) <= MAX_LABEL:
        raise InvalidValueError(f"is not a text of 1 to {MAX_LABEL} characters: {short_repr(key)}")
    _check_text(key)


def iter_leaves(
    value: Any, *path: str, separator: str = ".", lists: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield (joined keys, value) for every leaf of nested dicts; an empty dict is a leaf.

    Args:
        value: the dict.
        *path: keys to put in front.
        separator: joins the keys.
        lists: descend into lists, too.
    """
    if not value or not isinstance(value, dict | list if lists else dict):
        yield separator.join(path), value
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from iter_leaves(item, *path, str(key), separator=separator, lists=lists)


def short_repr(value: Any) -> str:
    """A short representation of a value for error messages."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    try:
        return printable(repr(value), 60)
    except ValueError:  # an integer of thousands of digits
        return "a number that is too large"


class OneOf:
    """Choices of an option, ``Annotated[str, OneOf("auto", "never")]``: OmegaConf lacks Literal."""

    def __init__(self, *choices: str | bool) -> None:
        self.choices = choices

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.literal_schema(list(self.choices))


ERROR_MESSAGES = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "too_short": "has too few values",
    "too_long": "has too many values",
    "literal_error": "is not one of {expected}",
}
"""Our wording of pydantic's error types."""


def describe_errors(error: ValidationError) -> str:
    """Predicate of a sentence about an invalid option."""
    # No config can hold an instance of a class, even if the parameter takes one.
    faults = [fault for fault in error.errors() if fault["type"] != "needs_python_object"]
    return " or ".join(dict.fromkeys(map(_describe, faults))) or "cannot be given in a config"


def _describe(fault: Mapping[str, Any]) -> str:
    kind, context = fault["type"], dict(fault.get("ctx", {}))
    if kind == "missing":  # a key of an object, or an element of a tuple
        return "is missing" if isinstance(fault["loc"][-1], str) else "has too few values"
    if kind == "literal_error":
        context["expected"] = context["expected"].replace(" or ", ", ").replace("'", "")
    if kind in ERROR_MESSAGES:
        return ERROR_MESSAGES[kind].format(**context)
    return re.sub(r"^(Input|String|Value error,) ", "", fault["msg"])


@cache
def machine_memory() -> int:
    """Bytes of memory available to this process at most, as far as the limits are known."""
    limits = [2**63]
    with suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):  # "max"
        limits.append(int(CGROUP_MEMORY_LIMIT.read_text()))
    return min(limits)


def check_memory(needed: int, what: str) -> None:
    """Raise a UserError if something cannot fit into memory.

    Args:
        needed: lower bound of the bytes.
        what: the options that need them, as subject of the sentence.
    """
    if needed > machine_memory():
        raise UserError(
            f"{what} would take {format_bytes(needed)} of memory or more: "
            f"this machine has {format_bytes(machine_memory())}."
        )


def check_regular(path: Path) -> None:
    """Reject folders, pipes, devices and sockets; a path that does not exist passes."""
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
            raise UserError(f"{path} is {kind}, not a file.")


def max_read() -> int:
    """Maximum bytes of a file that may be read into memory on this machine."""
    return min(MAX_READ, machine_memory() // 2)


def format_bytes(count: float) -> str:
    """Format a number of bytes, as in 7.3 TiB."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = 0
    while count >= 1024 and power < len(units) - 1:
        count, power = count / 1024, power + 1
    return f"{count:.3g} {units[power]}"
