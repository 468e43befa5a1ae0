"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: Any, *, sync: bool = True) -> None:
    """Write a file such that no reader, and no crash, ever sees half of it.

    Args:
        path: the file; what it held before stays until the new content is complete.
        content: bytes.
        sync: also survive a power failure.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
