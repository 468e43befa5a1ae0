"""SIGTERM and Ctrl-C: stop between two batches, where nothing is half done; see middle.py."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_received: list[int] = []


class Interrupted(SystemExit):
    """The run was told to stop; the exit code is 128 + signal, as a shell has it."""

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.signum = signum


@contextmanager
def interruptible() -> Iterator[None]:
    """Let signals ask the training loop to stop; a second signal does not wait for the loop."""

    def ask(signum: int, frame: FrameType | None) -> None:
        if _received:
            raise Interrupted(signum)
        _received.append(signum)

    _received.clear()
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # Python allows it nowhere else
        before = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
        raise_if_interrupted()
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        _received.clear()


def interrupted() -> bool:
    """Whether a signal has asked to stop."""
    return bool(_received)


def raise_if_interrupted() -> None:
    """Stop here if a signal has asked for it."""
    if _received:
        raise Interrupted(_received[0])
