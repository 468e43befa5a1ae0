"""What options and files may ask of this machine, checked before anything is allocated or read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path

from focusing.errors import UserError

MAX_READ = 4 * 1024**3
"""Bytes of a file that are read, or inflated, into memory; the data sets here need a tenth."""
GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""What a container or a job of a cluster may have, on Linux."""


@cache
def machine_memory() -> int:
    """Bytes of memory that this process could have at most; what cannot be told is no limit."""
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
    """For people: 7.3 TiB."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = 0
    while count >= 1024 and power < len(units) - 1:
        count, power = count / 1024, power + 1
    return f"{count:.3g} {units[power]}"
