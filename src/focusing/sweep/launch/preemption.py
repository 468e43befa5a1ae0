"""A cluster's warning that time is up: save the middle of the epoch before the job is requeued."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Requeued(SystemExit):
    """The job leaves, to go on later."""


@contextmanager
def preemptible() -> Iterator[None]:
    """Inside a submitit job, stop properly before submitit's own handler ends the process.

    Submitit answers the warning (SIGUSR2 by default) by requeueing the job and leaving, wherever
    training is. Here the warning first asks training to stop, as SIGTERM does.
    """
    if "SUBMITIT_EXECUTOR" not in os.environ or (
        threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    warning = getattr(signal, "SIG" + os.environ.get("SUBMITIT_PREEMPT_SIGNAL", "USR2"))
    theirs: Any = signal.getsignal(warning)
    terminate = signal.getsignal(signal.SIGTERM)
    warned = False

    def ask_to_stop(signum: int, frame: FrameType | None) -> None:
        nonlocal warned
        warned = True
        if signal.getsignal(signal.SIGTERM) == terminate:  # not in training: nothing to save
            raise SystemExit(128 + signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)

    signal.signal(warning, ask_to_stop)
    try:
        yield
    except SystemExit:
        if warned and callable(theirs):
            try:
                theirs(warning, None)
            except SystemExit as leave:
                raise Requeued(leave.code) from None
        raise
    finally:
        signal.signal(warning, theirs)
