"""Errors that are sentences for the user, and the parser of commands that raises them."""

from __future__ import annotations

import argparse
import math
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

UNPRINTABLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories: control, formatting (such as the direction of writing), half a character,
separators of lines and of paragraphs."""
MAX_LISTED = 40
"""Names that a sentence lists at most."""


def printable(text: str, max_length: int = 100_000) -> str:
    """Escape what could command a terminal or hide text, and shorten what is long.

    File names and contents may hold anything.
    """
    escaped = "".join(
        char
        if char in "\n\t" or unicodedata.category(char) not in UNPRINTABLE
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
    return escaped if len(escaped) <= max_length else f"{escaped[: max_length - 3]}..."


def suggest(wrong: str, known: Iterable[str], prefix: str = "", cutoff: float = 0.6) -> str:
    """The end of a sentence about a name that does not exist: the nearest that does, or all."""
    names = sorted(known)
    near = get_close_matches(wrong, names, n=1, cutoff=cutoff)
    if near:
        return f", did you mean {prefix}{near[0]}?"
    return f"; there are {', '.join(names)}." if 0 < len(names) <= MAX_LISTED else "."


class UserError(Exception):
    """Something the user can put right. Commands print the sentence without a traceback."""

    def __str__(self) -> str:
        return printable(super().__str__())  # it may quote a file


class OptionError(UserError, ValueError):
    """A value that an option cannot have: in Python a ValueError, like that of any library."""


class DamagedError(UserError):
    """A file is not what it should be.

    Args:
        path: the file.
        reason: follows the path in a sentence, without its full stop.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}.")
        self.path, self.reason = path, reason


class DivergedError(UserError):
    """The loss became NaN or infinite."""


class BusyError(UserError):
    """Another process works on the same run or file."""


class PrunedError(Exception):
    """A search has pruned this trial; nobody made a mistake."""


class Parser(argparse.ArgumentParser):
    """The arguments of a command; what is wrong with them is a UserError, as everywhere."""

    def error(self, message: str) -> NoReturn:
        """Refuse them."""
        raise UserError(f"{self.prog}: {message}; {self.prog} --help lists the options.")


def existing_folder(text: str) -> Path:
    """Reads the path of a folder that exists."""
    if not Path(text).is_dir():
        raise UserError(f"{text} is not a folder.")
    return Path(text)


def number_between(kind: type[int] | type[float], low: int, high: float = math.inf) -> Any:
    """Reads a number of a range, infinity excluded."""

    def read(text: str) -> float:
        if not low <= kind(text) <= high or math.isinf(kind(text)):
            where = f"from {low} to {high}" if high < math.inf else f"of at least {low}"
            raise argparse.ArgumentTypeError(f"{text} is not a number {where}")
        return kind(text)

    read.__name__ = kind.__name__  # argparse: invalid int value
    return read
