"""Read pickles of arrays from outside without executing them.

A pickle is a program that may call anything it can name. Here it can name four things, each of
which is a stand-in of our own that only stores its arguments.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from focusing.data.damage import DamagedError, reading

Array = NDArray[Any]


class _Type:
    """Stands in for ``numpy.dtype``."""

    def __init__(self, code: str | bytes, *_: Any) -> None:
        self.code = code.decode("ascii") if isinstance(code, bytes) else str(code)
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        self.order = order.decode("ascii") if isinstance(order, bytes) else str(order)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype = np.dtype(self.code)
        return dtype.newbyteorder(self.order) if self.order in ("<", ">") else dtype  # type: ignore[arg-type]


class _Array:
    """Stands in for ``numpy.ndarray``."""

    def __init__(self, *_: Any) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def build(self) -> Array:
        _, shape, kind, fortran, content = self.state
        dtype = kind.dtype
        if dtype.hasobject:
            array = np.empty(len(content), dtype=object)
            array[:] = [_plain(each) for each in content]
        elif isinstance(content, bytes):
            array = np.frombuffer(content, dtype=dtype)
        else:  # text, if a Python 2 string was read as latin-1
            array = np.frombuffer(content.encode("latin-1"), dtype=dtype)
        return array.reshape(shape, order="F" if fortran else "C")


def _encode(text: str, encoding: str = "latin-1") -> bytes:
    """Stands in for ``_codecs.encode``, by which Python 3 writes bytes into old pickles."""
    if encoding not in ("latin-1", "latin1"):
        raise pickle.UnpicklingError(f"encoding {encoding} is not allowed")
    return text.encode("latin-1")


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it wants to run {module}.{name}") from None


def load_pickle(file: IO[bytes]) -> Any:
    """Numbers, strings, lists, dicts and arrays from a pickle; anything else is refused."""
    return _plain(_ArrayUnpickler(file, encoding="latin-1").load())


def load_npz(path: Path) -> dict[str, Array]:
    """All arrays of an npz file; arrays of lists too, which numpy would have to execute.

    Raises:
        DamagedError: if the file is not a whole npz file, or is not only data.
    """
    with reading(path), zipfile.ZipFile(path) as archive:
        arrays = {}
        for name in archive.namelist():
            with archive.open(name) as member:
                arrays[name.removesuffix(".npy")] = _load_npy(io.BytesIO(member.read()))
    if not arrays:
        raise DamagedError(path, "it holds no array")
    return arrays


def _load_npy(file: io.BytesIO) -> Array:
    version = np.lib.format.read_magic(file)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    _, _, dtype = read_header(file)
    if not dtype.hasobject:
        file.seek(0)
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
        return array
    loaded = load_pickle(file)
    if not isinstance(loaded, np.ndarray):
        raise ValueError("it holds no array")
    return loaded


def _plain(value: Any) -> Any:
    """Replace the stand-ins, in place where possible: there may be millions of lists."""
    if isinstance(value, _Array):
        return value.build()
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(each, _Array) for each in value):
        return [_plain(each) for each in value]
    return value
