"""Decoders of idx, CIFAR-10, npz and npy files, which refuse damaged and malicious files.

A pickle can call any function that it can name. Our unpickler knows only four names, and replaces
each by a harmless stand-in.
"""

from __future__ import annotations

import gzip
import io
import math
import pickle
import shutil
import zipfile
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from focusing.errors import UserError
from focusing.validation import check_regular, format_bytes, max_read

Array = NDArray[Any]
IDX_BYTES = 8
"""Type code of unsigned bytes in idx files."""
CIFAR_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")


class DamagedError(UserError):
    """A file is damaged or has another content than expected.

    Args:
        path: the file.
        reason: what is wrong, in a few words.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}.")
        self.path, self.reason = path, reason


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn all exceptions of a decoder into a :class:`DamagedError` that names the file.

    Pipes and devices are refused first.
    """
    check_regular(path)
    try:
        yield
    except (FileNotFoundError, UserError):
        raise  # the file is missing, or refused already
    except Exception as error:  # decoders raise many types, such as MemoryError
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DamagedError(path, reason.rstrip(".")) from error


def check_declared(path: Path, size: int) -> None:
    """Refuse a file whose header declares more than fits in memory, before decompressing it."""
    if size > max_read():
        raise DamagedError(path, f"it declares {format_bytes(size)}, far more than such files have")


def set_aside(path: Path) -> str:
    """Rename a damaged file to ``<name>.corrupt``, so that nothing reads it again.

    Returns:
        End of an error message that says what happened to the file.
    """
    aside = path.with_name(f"{path.name}.corrupt")
    if aside.is_dir():  # left from an earlier attempt
        shutil.rmtree(aside, ignore_errors=True)
    try:
        path.replace(aside)
    except OSError:
        return "it could not be moved aside, please remove it"
    return f"it is now {aside.name}"


def refuse_corrupt(folder: Path) -> None:
    """Refuse a folder that is incomplete because a damaged file in it was renamed."""
    aside = next(folder.rglob("*.corrupt"), None)
    if aside is not None:
        raise UserError(f"{aside} was damaged: put a good copy in its place, and remove it.")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, gzipped or not.

    Raises:
        DamagedError: if the file is not exactly as long as its header declares.
    """
    with reading(path), _open(path) as file:
        head = file.read(4)
        if len(head) < 4 or head[:2] != b"\0\0" or head[2] != IDX_BYTES or not head[3]:
            raise DamagedError(path, "it is not an idx file of bytes")
        sizes = file.read(4 * head[3])
        if len(sizes) < 4 * head[3]:
            raise DamagedError(path, "its header is cut off")
        shape = tuple(np.frombuffer(sizes, ">u4").tolist())
        expected = math.prod(shape)
        check_declared(path, expected)
        content = file.read(expected + 1)  # one byte more shows that the file is too long
        if len(content) != expected:
            length = "more" if len(content) > expected else len(content)
            raise DamagedError(path, f"{length} bytes instead of {expected}")
        return np.frombuffer(content, np.uint8).reshape(shape)


def read_digits(*paths: Path) -> dict[str, Array]:
    """Read images (N, H, W, 1) and labels from the four files of MNIST, training data first."""
    images, labels = [], []
    for image_path, label_path in (paths[:2], paths[2:]):
        image, label = read_idx(image_path), read_idx(label_path)
        if image.ndim != 3 or label.ndim != 1:
            raise DamagedError(image_path if image.ndim != 3 else label_path, "wrong shape")
        if len(image) != len(label):
            raise UserError(  # neither is renamed, as only one of them is wrong
                f"{image_path.name} and {label_path.name} in {image_path.parent} do not belong "
                f"together ({len(label)} labels for {len(image)} images): put good copies there."
            )
        if len(label) and label.max() > 9:
            raise DamagedError(label_path, f"it has a class {label.max()}")
        images.append(image[..., None])
        labels.append(label.astype(np.int64))
    if images[0].shape[1:] != images[1].shape[1:]:
        raise DamagedError(paths[2], "its images are of another size")
    return {
        "inputs": np.concatenate(images),
        "targets": np.concatenate(labels),
        "train": np.array(len(labels[0])),
    }


def read_cifar(folder: Path) -> dict[str, Array]:
    """Read CIFAR-10's images (N, 32, 32, 3) and labels, training data first.

    Raises:
        DamagedError: if a batch is truncated or holds anything but data.
    """
    images, labels = zip(*(_read_cifar_batch(folder / name) for name in CIFAR_BATCHES), strict=True)
    targets = np.concatenate(labels)
    train = np.array(len(targets) - len(labels[-1]))
    return {"inputs": np.concatenate(images), "targets": targets, "train": train}


def load_pickle(file: IO[bytes]) -> Any:
    """Unpickle numbers, strings, lists, dicts and arrays; refuse anything else."""
    return _ArrayUnpickler(file, encoding="latin-1").load()


def npz_names(path: Path) -> list[str]:
    """Names of the arrays in an npz file."""
    with reading(path), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def load_npz(path: Path, names: Container[str] | None = None) -> dict[str, Array]:
    """Read all or some arrays of an npz file, even arrays of lists, safely.

    Raises:
        DamagedError: if the file is truncated, or holds anything but numbers.
    """
    with reading(path), zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        wanted = {name: info for name, info in members.items() if names is None or name in names}
        check_declared(path, sum(info.file_size for info in wanted.values()))
        arrays = {}
        for name, info in wanted.items():
            with archive.open(info) as member:  # reads no more than the declared size
                arrays[name] = _load_npy(io.BytesIO(member.read(info.file_size)))
    if not arrays:
        raise DamagedError(path, "it holds no array")
    return arrays


def load_npy(path: Path) -> Array:
    """Read the array of numbers in an npy file."""
    with reading(path):
        check_declared(path, path.stat().st_size)
        return _load_npy(io.BytesIO(path.read_bytes()))


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _read_cifar_batch(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    with reading(path), path.open("rb") as file:
        batch = load_pickle(file)
        images, labels = batch["data"], np.asarray(batch["labels"], dtype=np.int64)
        if images.dtype != np.uint8 or images.shape != (len(labels), 3072):
            raise DamagedError(path, f"its images are {images.dtype} {images.shape}")
        if labels.min() < 0 or labels.max() > 9:
            raise DamagedError(path, "its labels are not 0 to 9")
    # Channels last, as the author flattened the images.
    return np.ascontiguousarray(images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels


def _load_npy(file: io.BytesIO) -> Array:
    version = np.lib.format.read_magic(file)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = read_header(file)
    if dtype.hasobject:
        loaded = load_pickle(file)
        if not isinstance(loaded, np.ndarray):
            raise ValueError("it holds no array")
        return np.asarray(loaded)
    if dtype.kind not in "biuf":
        raise ValueError(f"it holds {dtype}, not numbers")
    declared, available = math.prod(shape) * dtype.itemsize, len(file.getbuffer()) - file.tell()
    if declared > available:
        raise ValueError(f"its header declares {format_bytes(declared)}, {available} bytes follow")
    file.seek(0)
    array: Array = np.lib.format.read_array(file, allow_pickle=False)
    return array


class _Type:
    """Stand-in for ``numpy.dtype``, whose pickled state could make numpy read any memory."""

    def __init__(self, code: str, *_: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array(np.ndarray[Any, Any]):
    """Stand-in for ``numpy.ndarray``: empty until numpy fills it, with a checked dtype."""

    def __new__(cls, *_: Any) -> _Array:
        return super().__new__(cls, (0,), np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        version, shape, kind, fortran, content = state
        super().__setstate__((version, shape, kind.dtype, fortran, content))


def _encode(text: str, encoding: str = "latin-1") -> bytes:
    """Stand-in for ``_codecs.encode``, with which Python 3 writes bytes into old pickles."""
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
