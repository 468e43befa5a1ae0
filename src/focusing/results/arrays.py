"""Write ``.npz`` files atomically, and validate them when reading."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focusing.errors import DamagedError, printable
from focusing.results.store import atomic_write

MAX_FILE_BYTES = 2**31
"""Limit on the unpacked size of a file; a larger one is damaged or a zip bomb."""


def evenly_spaced(count: int, limit: int) -> NDArray[np.int64]:
    """Evenly spaced indices below ``count``, at most ``limit`` of them."""
    return np.linspace(0, count - 1, min(count, limit)).round().astype(np.int64)


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write an ``.npz`` file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    atomic_write(path, content.getbuffer())


def read_arrays(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, Any]:
    """Read an ``.npz`` file; float16 arrays, as archives store them, are returned as float32.

    Args:
        path: the file.
        wanted: selects arrays by name; others are not read.

    Raises:
        DamagedError: the file is truncated, or not an ``.npz`` file.
    """
    if not path.is_file():
        raise DamagedError(path, "is not a file")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            if sum(member.file_size for member in stored.zip.infolist()) > MAX_FILE_BYTES:
                raise ValueError(f"more than {MAX_FILE_BYTES >> 20} MiB")
            arrays = {name: stored[name] for name in stored.files if wanted(name)}
    except OSError:
        raise
    except Exception as error:  # numpy and zipfile raise many types for a damaged file
        reason = printable(f"{type(error).__name__}: {error}".splitlines()[0], 200)
        raise DamagedError(path, f"is damaged ({reason})") from None
    return {
        name: array.astype(np.float32) if array.dtype == np.float16 else array
        for name, array in arrays.items()
    }


def check_arrays(path: Path, arrays: Mapping[str, Any], kinds: Mapping[str, str]) -> None:
    """Check the dtypes and shapes of arrays.

    Args:
        path: their file.
        arrays: arrays by name.
        kinds: name -> allowed dtypes and named axes, as in ``"f n d"``. The dtypes are f (finite
            floats), F (any floats), i (integers), b (booleans) and U (strings). An axis has one
            size in all arrays, which is not 0. A last ``...`` allows further axes.

    Raises:
        DamagedError: an array is missing, or has another dtype or shape.
    """
    sizes: dict[str, int] = {}
    for name, kind in kinds.items():
        dtypes, *axes = kind.split()
        array = arrays.get(name)
        if array is None:
            raise DamagedError(path, f"lacks {name}")
        shape = array.shape[: len(axes) - 1] if axes[-1:] == ["..."] else array.shape
        named = [axis for axis in axes if axis != "..."]
        if array.dtype.kind not in dtypes.replace("F", "f") or len(shape) != len(named):
            raise DamagedError(path, f"has values of another kind or shape in {name}")
        if any(
            sizes.setdefault(axis, size) != size for axis, size in zip(named, shape, strict=True)
        ):
            raise DamagedError(path, f"has arrays that do not fit together: {name}")
        if not array.size:
            raise DamagedError(path, f"has an empty array: {name}")
        if "f" in dtypes and not np.isfinite(array).all():
            raise DamagedError(path, f"has numbers that are not finite in {name}")
