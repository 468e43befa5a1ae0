"""Arrays beside the record."""

from __future__ import annotations

import io
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
