"""What went wrong, in a sentence for the user."""

from __future__ import annotations

import argparse
from typing import NoReturn


class UserError(Exception):
    """Something the user can put right. The commands print the sentence, and no traceback."""


class DivergedError(UserError):
    """The loss became NaN or infinite."""


class BusyError(UserError):
    """Another process is at work where this one wants to."""


class PrunedError(Exception):
    """A search has given a trial up; not an error of anybody."""


class Parser(argparse.ArgumentParser):
    """The arguments of a command; what is wrong with them is a UserError, as everywhere."""

    def error(self, message: str) -> NoReturn:
        """Refuse them."""
        raise UserError(f"{self.prog}: {message}; {self.prog} --help lists the options.")
