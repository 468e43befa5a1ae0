"""A clock that stands still while the processes of a sweep are suspended."""

from __future__ import annotations

import multiprocessing as mp
import time
from typing import Any

_suspended: Any = None
"""Seconds of suspension, in memory that a sweep shares with the processes it forks."""


def running_seconds() -> float:
    """Seconds since some moment, without the time in which a sweep was paused."""
    return time.perf_counter() - (_suspended.value if _suspended else 0.0)


def share_suspension() -> Any:
    """Return the shared number to which the parent of forked processes adds their suspension."""
    global _suspended
    _suspended = mp.get_context("fork").RawValue("d", 0.0)
    return _suspended
