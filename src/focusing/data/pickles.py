"""Read pickles of arrays from outside without executing them.

A pickle is a program that may call anything it can name. Here it can name four things, each of
which is a stand-in of our own that only stores its arguments.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections.abc import Callable, Container
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from focusing.data.damage import DamagedError, check_declared, reading
from focusing.validation import format_bytes

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


def npz_names(path: Path) -> list[str]:
    """The names of the arrays in an npz file."""
    with reading(path), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def load_npz(path: Path, names: Container[str] | None = None) -> dict[str, Array]:
    """Arrays of an npz file; arrays of lists too, which numpy would have to execute.

    Args:
        path: of the file.
        names: of the arrays to read; None: all.

    Raises:
        DamagedError: if the file is not a whole npz file, or is not only numbers.
    """
    with reading(path), zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        wanted = {name: info for name, info in members.items() if names is None or name in names}
        check_declared(path, sum(info.file_size for info in wanted.values()))
        arrays = {}
        for name, info in wanted.items():
            with archive.open(info) as member:  # which inflates no more than it is asked for
                arrays[name] = _load_npy(io.BytesIO(member.read(info.file_size)))
    if not arrays:
        raise DamagedError(path, "it holds no array")
    return arrays


def load_npy(path: Path) -> Array:
    """The array of an npy file, if it is one of numbers."""
    with reading(path):
        check_declared(path, path.stat().st_size)
        return _load_npy(io.BytesIO(path.read_bytes()))


def _load_npy(file: io.BytesIO) -> Array:
    version = np.lib.format.read_magic(file)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = read_header(file)
    declared, there = math.prod(shape) * dtype.itemsize, len(file.getbuffer()) - file.tell()
    if not dtype.hasobject:
        if dtype.kind not in "biuf":
            raise ValueError(f"it holds {dtype}, not numbers")
        if declared > there:
            raise ValueError(f"its header declares {format_bytes(declared)}, {there} bytes follow")
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
