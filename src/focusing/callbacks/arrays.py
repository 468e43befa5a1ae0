"""Arrays beside the record."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from focusing.results.files import write_whole


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write an ``.npz`` file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_whole(path, content.getbuffer())


def read_arrays(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, Any]:
    """Read an ``.npz`` file; what an archive keeps in half precision comes back in single.

    Args:
        path: the file.
        wanted: which arrays; others are not read.
    """
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files if wanted(name)}
    return {
        name: each.astype(np.float32) if each.dtype == np.float16 else each
        for name, each in arrays.items()
    }
