"""The parser of the command line, and the types of its arguments."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any, NoReturn

from focusing.errors import UserError


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UserError instead of printing the usage."""

    def error(self, message: str) -> NoReturn:
        """Raise a UserError."""
        raise UserError(f"{self.prog}: {message}; {self.prog} --help lists the options.")


def run_path(text: str) -> Path:
    """Argument type: a run folder, or a file in it, such as result.json."""
    path = Path(text)
    if not path.is_file():
        return path
    return next((folder for folder in path.parents if (folder / "config.yaml").exists()), path)


def existing_folder(text: str) -> Path:
    """Argument type: an existing folder, also as :func:`run_path`."""
    if not (path := run_path(text)).is_dir():
        raise UserError(f"{text} is not a folder.")
    return path


def number_between(kind: type[int] | type[float], low: int, high: float = math.inf) -> Any:
    """Argument type: a finite number in a range."""

    def read(text: str) -> float:
        if not low <= kind(text) <= high or math.isinf(kind(text)):
            expected = f"from {low} to {high}" if high < math.inf else f"of at least {low}"
            raise argparse.ArgumentTypeError(f"{text} is not a number {expected}")
        return kind(text)

    read.__name__ = kind.__name__  # argparse says: invalid int value
    return read
