"""A clock that stands still while the processes of a sweep are suspended."""

from __future__ import annotations

import multiprocessing as mp
import time
from typing import Any

_suspended: Any = None
"""Seconds of suspension, in memory that a sweep shares with the processes it forks."""


def running_seconds() -> float:
    """Seconds since some moment, without the time in which a sweep was paused."""
    return time.perf_counter() - (0.0 if _suspended is None else _suspended.value)


def share_suspension() -> Any:
    """Return the shared number to which the parent of forked processes adds their suspension.

    A pool within a worker of another pool has the number of the outer one, which suspends both.
    """
    global _suspended
    if _suspended is None:
        _suspended = mp.get_context("fork").RawValue("d", 0.0)
    return _suspended
