"""What values may be: those of files, and those that ask much of this machine.

A check is a function that raises :class:`Wrong` for a value it refuses. What it lets pass is safe
to format, to draw, and to name files after.
"""

from __future__ import annotations

import math
import operator
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from focusing.errors import UserError, printable

SCHEMA = 1
MAX_INTEGER, MAX_NUMBER = 2**63 - 1, 1e100
"""No network computes with larger numbers, and statistics of these do not overflow."""
MAX_TEXT, MAX_NAME, MAX_DEPTH = 100_000, 100, 20
"""Characters of a text and of a file name; containers inside one another."""
MAX_READ = 4 * 1024**3
"""Bytes of a file that are read, or inflated, into memory; the data sets here need a tenth."""
GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""What a container or a job of a cluster may have, on Linux."""
UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters but newline and tab, and halves of characters, which no file can hold."""

Check = Callable[[Any], None]


class Wrong(ValueError):
    """A value that is not as it should be.

    Args:
        reason: follows the path of the value in a sentence.
        path: keys that lead to it, the innermost first.
    """

    def __init__(self, reason: str, *path: str | int) -> None:
        super().__init__(reason, *path)
        self.reason, self.path = reason, path

    def under(self, key: str | int) -> Wrong:
        """This error seen from the container that has the value under a key."""
        return Wrong(self.reason, *self.path, key)

    def __str__(self) -> str:
        where = ".".join(printable(str(key), 40) for key in reversed(self.path))
        return f"{where} {self.reason}" if where else f"it {self.reason}"


def is_name(text: Any) -> bool:
    """Whether a text names a file of a folder, and not one of another folder."""
    if not isinstance(text, str) or not text.isprintable():
        return False
    return text not in ("", ".", "..") and not {"/", "\\"} & set(text) and len(text.encode()) < 256


def name(value: Any) -> None:
    """The name of a file or a folder."""
    if not is_name(value) or value[0] == "." or len(value) > MAX_NAME:
        raise Wrong(f"is not a name of 1 to {MAX_NAME} letters without separators: {short(value)}")


def below(value: Any) -> None:
    """A folder below another: names with slashes between them."""
    try:
        for folder in value.split("/"):
            name(folder)
    except (AttributeError, Wrong):
        raise Wrong(f"is not a folder below this one: {short(value)}") from None


def text(value: Any) -> None:
    """A text that a file can hold."""
    if type(value) is not str:
        raise Wrong(f"is not a text: {short(value)}")
    if len(value) > MAX_TEXT:
        raise Wrong(f"is longer than {MAX_TEXT} characters")
    if not value.isprintable() and UNWRITABLE.search(value):
        raise Wrong(f"has control characters: {short(value)}")


def label(value: Any) -> None:
    """A text that fits into a cell of a table."""
    text(value)
    if not value or len(value) > 200:
        raise Wrong(f"is not a text of 1 to 200 characters: {short(value)}")


_key = lru_cache(maxsize=4096)(label)  # records have the same keys, by the thousand


def truth(value: Any) -> None:
    """True or false."""
    if type(value) is not bool:
        raise Wrong(f"is not true or false: {short(value)}")


def number(low: float = -MAX_NUMBER, high: float = MAX_NUMBER) -> Check:
    """A finite number in a range."""

    def check(value: Any) -> None:
        if type(value) not in (int, float):
            raise Wrong(f"is not a number: {short(value)}")
        if not low <= value <= high:  # NaN is in no range
            raise Wrong(f"is {short(value)}, not a number {_range(low, high)}")

    return check


def whole(low: int = 0, high: int = MAX_INTEGER) -> Check:
    """A whole number in a range."""

    def check(value: Any) -> None:
        if type(value) is not int or not low <= value <= high:
            raise Wrong(f"is not a whole number {_range(low, high)}: {short(value)}")

    return check


def one_of(*allowed: str) -> Check:
    """One of some texts."""

    def check(value: Any) -> None:
        if type(value) is not str or value not in allowed:
            raise Wrong(f"is not one of {', '.join(allowed)}: {short(value)}")

    return check


def optional(check: Check) -> Check:
    """Null, or what passes a check."""
    return lambda value: None if value is None else check(value)


def items(check: Check, low: int = 0, high: float = math.inf) -> Check:
    """A list whose items all pass a check."""

    def check_list(value: Any) -> None:
        if type(value) is not list:
            raise Wrong(f"is not a list: {short(value)}")
        if not low <= len(value) <= high:
            raise Wrong(f"has {len(value)} values")
        for index, item in enumerate(value):
            _check_at(index, check, item)

    return check_list


def numbers(value: Any) -> None:
    """A list of finite numbers, or of null where there is none; fast, it may be long."""
    if type(value) is not list:
        raise Wrong(f"is not a list: {short(value)}")
    kinds = set(map(type, value))
    if not kinds <= {int, float, type(None)}:
        raise Wrong("is not a list of numbers")
    present = value if type(None) not in kinds else [item for item in value if item is not None]
    has_nan = any(map(operator.ne, present, present))
    if has_nan or (present and not -MAX_NUMBER <= min(present) <= max(present) <= MAX_NUMBER):
        raise Wrong("has a number that is not finite")


def mapping(check: Check) -> Check:
    """An object of any names whose values all pass a check."""

    def check_object(value: Any) -> None:
        if type(value) is not dict:
            raise Wrong(f"is not an object: {short(value)}")
        for key, item in value.items():
            _check_at(key, _key, key)
            _check_at(key, check, item)

    return check_object


def fields(required: Mapping[str, Check] = {}, **known: Check) -> Check:  # noqa: B006 - only read
    """An object with known names; other names may hold anything that is plain.

    Args:
        required: names that must be there.
        **known: names that may be.
    """
    checks = {**required, **known}

    def check(value: Any) -> None:
        if type(value) is not dict:
            raise Wrong(f"is not an object: {short(value)}")
        for key in required:
            if key not in value:
                raise Wrong("is missing", key)
        for key, item in value.items():
            _check_at(key, checks.get(key, plain), item)
            if key not in checks:
                _check_at(key, _key, key)

    return check


def _check_at(key: str | int, check: Check, value: Any) -> None:
    """Check a value of a container, and name its key if it is refused."""
    try:
        check(value)
    except Wrong as error:
        raise error.under(key) from None


def plain(value: Any, depth: int = MAX_DEPTH) -> None:
    """Anything made of finite numbers, texts, lists and objects."""
    kind = type(value)
    if kind is str:
        text(value)
    elif kind is float:
        if not -MAX_NUMBER <= value <= MAX_NUMBER:  # NaN is in no range
            raise Wrong(f"is {value}: it must be finite, and at most {MAX_NUMBER:g}")
    elif kind is int:
        if abs(value) > MAX_INTEGER:
            raise Wrong(f"is too large: {short(value)}")
    elif kind is list or kind is dict:
        if not depth:
            raise Wrong("is nested too deeply")
        for key, item in value.items() if kind is dict else enumerate(value):
            try:
                if kind is dict:
                    _key(key)
                plain(item, depth - 1)
            except Wrong as error:
                raise error.under(key) from None
    elif value is not None and kind is not bool:
        raise Wrong(f"is not plain: {kind.__name__}")


def leaves(value: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value in containers inside one another, after the keys that lead to it."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, *path, str(key))
    else:
        yield path, value


def _range(low: float, high: float) -> str:
    if high in (MAX_NUMBER, MAX_INTEGER):
        return f"of at least {low}" if low > -MAX_NUMBER else "that is finite"
    return f"between {low} and {high}"


def short(value: Any) -> str:
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
        from pydantic_core import core_schema

        return core_schema.literal_schema(list(self.choices))


FAULTS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "missing": "has too few values",
    "too_short": "has too few values",
    "too_long": "has too many values",
    "literal_error": "is not one of {expected}",
}
"""What pydantic's kinds of faults are called here."""


def describe_fault(error: Any) -> str:
    """What is wrong with a value, to follow it in a sentence.

    Args:
        error: pydantic's ``ValidationError``.
    """
    faults = {}
    for fault in error.errors():
        context = dict(fault.get("ctx", {}))
        if "expected" in context:
            context["expected"] = context["expected"].replace(" or ", ", ").replace("'", "")
        if fault["type"] in FAULTS:
            faults[fault["type"]] = FAULTS[fault["type"]].format(**context)
        elif fault["type"] != "needs_python_object":  # a class, which no config can hold
            faults[fault["type"]] = fault["msg"].removeprefix("Input ")
    return " or ".join(faults.values()) or "cannot be given in a config"


@cache
def machine_memory() -> int:
    """Bytes of memory that this process could have at most; an unknown limit is none."""
    limits = [2**63]
    with suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):  # "max"
        limits.append(int(GROUP_LIMIT.read_text()))
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
