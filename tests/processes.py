"""Other processes, as Linux shows them, and waiting for what they do."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path


def children(pid: int) -> list[int]:
    listing = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listing.read_text().split()] if listing.exists() else []


def state(pid: int) -> str:
    """A letter: T is stopped; empty for a process that has ended."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    return "" if letter == "Z" else letter


def wait_until(
    condition: Callable[[], object], seconds: float = 60, process: object = None
) -> None:
    """Wait for something that a process, if one is named, does before it ends."""
    until = time.monotonic() + seconds
    while not condition():
        output = getattr(process, "output", "")
        assert process is None or process.poll() is None, output  # type: ignore[attr-defined]
        assert time.monotonic() < until, output
        time.sleep(0.01)


def wait_for_end(pids: Iterable[int]) -> None:
    wait_until(lambda: not any(map(state, pids)))
