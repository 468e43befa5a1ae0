"""Exceptions whose message is a sentence for the user."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

UNPRINTABLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories: control, format (such as writing direction), surrogate, line and paragraph
separators."""
MAX_LISTED = 40
"""Most names that an error message lists."""


def printable(text: str, max_length: int = 100_000) -> str:
    """Escape characters that could control a terminal or hide text, and truncate long texts."""
    escaped = "".join(
        char
        if char in "\n\t" or unicodedata.category(char) not in UNPRINTABLE
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
    return escaped if len(escaped) <= max_length else f"{escaped[: max_length - 3]}..."


def suggest(unknown: str, known: Iterable[str], prefix: str = "", cutoff: float = 0.6) -> str:
    """End of a sentence about an unknown name: the closest known name, or a list of all."""
    names = sorted(known)
    near = get_close_matches(unknown, names, n=1, cutoff=cutoff)
    if near:
        return f", did you mean {prefix}{near[0]}?"
    return f"; there are {', '.join(names)}." if 0 < len(names) <= MAX_LISTED else "."


class UserError(Exception):
    """An error that the user can fix. Commands print its sentence without a traceback."""

    def __str__(self) -> str:
        return printable(super().__str__())  # it may quote the content of a file


class OptionError(UserError, ValueError):
    """An invalid value of an option; also a ValueError, for users of the Python API."""


class DamagedError(UserError):
    """A file is damaged or of another format.

    Args:
        path: the file.
        reason: predicate of the sentence, whose subject is the path; without a full stop.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}.")
        self.path, self.reason = path, reason


class DivergedError(UserError):
    """The loss became NaN or infinite."""


class BusyError(UserError):
    """Another process holds the lock of this run or file."""


class PrunedError(Exception):
    """The hyperparameter search has pruned this trial."""
