"""What values may be: those of files, and those that ask much of this machine.

Files may come from strangers. What passes a :func:`make_validator` is safe to format, to draw, and
to name files after.
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
"""No network computes with larger numbers, and statistics of these do not overflow."""
MAX_TEXT, MAX_LABEL, MAX_NAME, MAX_DEPTH = 100_000, 200, 100, 20
"""Characters of a text, a label and a file name; containers inside one another."""
MAX_READ = 4 * 1024**3
"""Bytes of a file that are read, or inflated, into memory; the data sets here need a tenth."""
CGROUP_MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""What a container or a job of a cluster may have, on Linux."""


class InvalidValueError(ValueError):
    """A value that is not as it should be.

    Args:
        reason: follows the path of the value in a sentence.
        path: keys that lead to it.
    """

    def __init__(self, reason: str, *path: str | int) -> None:
        super().__init__(reason, *path)
        self.reason, self.path = reason, path

    def __str__(self) -> str:
        where = ".".join(printable(str(key), 40) for key in self.path)
        return f"{where} {self.reason}" if where else f"it {self.reason}"


def is_name(text: Any) -> bool:
    """Whether a text names a file of a folder, and not one of another folder."""
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
"""A text that fits into a cell of a table."""
NAME = core_schema.no_info_after_validator_function(_check_name, TEXT)
"""The name of a file or a folder."""
FOLDER = core_schema.no_info_after_validator_function(_check_folder, TEXT)
"""A folder below another: names with slashes between them."""


def object_schema(required: Mapping[str, CoreSchema], **known: CoreSchema) -> CoreSchema:
    """An object with known names; other names may hold anything that is plain.

    Args:
        required: names that must be there.
        **known: names that may be.
    """
    schemas = {**required, **known}
    return core_schema.typed_dict_schema(
        {
            name: core_schema.typed_dict_field(schema, required=name in required)
            for name, schema in schemas.items()
        }
    )


def make_validator(schema: CoreSchema) -> Callable[[Any], None]:
    """A function that raises Wrong for values that are not plain, or not as a schema says.

    Nothing is converted: "1" and true are no numbers.
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
    """Refuse what is not made of finite numbers, texts, lists and objects.

    Raises:
        Wrong: with the path of the first value that is not plain.
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
    """Whether a list holds nothing but finite numbers; fast, as the series of runs are long."""
    if set(map(type, values)) != {float}:
        return False
    return not math.isnan(sum(values)) and max(map(abs, values)) <= MAX_NUMBER


def _check_text(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise InvalidValueError(f"is longer than {MAX_TEXT} characters")
    if not text.isprintable() and printable(text) != text:  # it could command a terminal
        raise InvalidValueError(f"has characters that cannot be printed: {short_repr(text)}")


@lru_cache(maxsize=4096)  # records have the same keys, by the thousand
def _check_key(key: Any) -> None:
    if type(key) is not str or not 0 < len(key) <= MAX_LABEL:
        raise InvalidValueError(f"is not a text of 1 to {MAX_LABEL} characters: {short_repr(key)}")
    _check_text(key)


def iter_leaves(
    value: Any, *path: str, separator: str = ".", lists: bool = False
) -> Iterator[tuple[str, Any]]:
    """Every value in objects inside one another, after the keys that lead to it.

    Args:
        value: an object; an empty one is a value.
        *path: keys that lead to it.
        separator: stands between two keys.
        lists: look into lists, too.
    """
    look_inside = isinstance(value, dict | list) if lists else isinstance(value, dict)
    if not look_inside or not value:
        yield separator.join(path), value
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from iter_leaves(item, *path, str(key), separator=separator, lists=lists)


def short_repr(value: Any) -> str:
    """A value as it is quoted in a sentence."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    try:
        return printable(repr(value), 60)
    except ValueError:  # a whole number of thousands of digits
        return "a number that is too large"


class OneOf:
    """Annotates an option that takes some values: ``Annotated[str, OneOf("auto", "never")]``.

    OmegaConf does not know ``Literal``.
    """

    def __init__(self, *choices: str | bool) -> None:
        self.choices = choices

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.literal_schema(list(self.choices))


FAULTS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "too_short": "has too few values",
    "too_long": "has too many values",
    "literal_error": "is not one of {expected}",
}
"""What pydantic's kinds of faults are called here."""


def describe_errors(error: ValidationError) -> str:
    """What is wrong with an option, to follow it in a sentence."""
    # A class is among the types of a parameter, but no config can hold one.
    faults = [fault for fault in error.errors() if fault["type"] != "needs_python_object"]
    return " or ".join(dict.fromkeys(map(_describe, faults))) or "cannot be given in a config"


def _describe(fault: Mapping[str, Any]) -> str:
    kind, context = fault["type"], dict(fault.get("ctx", {}))
    if kind == "missing":  # a key of an object, or a place of a tuple
        return "is missing" if isinstance(fault["loc"][-1], str) else "has too few values"
    if kind == "literal_error":
        context["expected"] = context["expected"].replace(" or ", ", ").replace("'", "")
    if kind in FAULTS:
        return FAULTS[kind].format(**context)
    return re.sub(r"^(Input|String|Value error,) ", "", fault["msg"])


@cache
def machine_memory() -> int:
    """Bytes of memory that this process could have at most; an unknown limit is none."""
    limits = [2**63]
    with suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):  # "max"
        limits.append(int(CGROUP_MEMORY_LIMIT.read_text()))
    return min(limits)


def check_memory(needed: int, what: str) -> None:
    """Refuse what cannot fit.

    Args:
        needed: bytes that it takes at the very least.
        what: the options that ask for it, to begin the sentence with.
    """
    if needed > machine_memory():
        raise UserError(
            f"{what} would take {format_bytes(needed)} of memory or more: "
            f"this machine has {format_bytes(machine_memory())}."
        )


def check_regular(path: Path) -> None:
    """Refuse pipes, devices and sockets, which may never end; what does not exist passes."""
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
            raise UserError(f"{path} is {kind}, not a file.")


def max_read() -> int:
    """Bytes of a file that may be read into memory."""
    return min(MAX_READ, machine_memory() // 2)


def format_bytes(count: float) -> str:
    """A number of bytes as people read it: 7.3 TiB."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = 0
    while count >= 1024 and power < len(units) - 1:
        count, power = count / 1024, power + 1
    return f"{count:.3g} {units[power]}"
