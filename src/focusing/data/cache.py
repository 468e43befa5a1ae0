"""Cache of decoded data sets: memory-mapped arrays on disk, shared by all runs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray
from platformdirs import user_cache_dir
from rich.console import Console

from focusing.data.decoders import DamagedError, set_aside
from focusing.data.sources import tree_hash
from focusing.errors import UserError

Arrays = Mapping[str, NDArray[Any]]
VERSION = 3
"""Part of every key; increase it when a decoder's results change."""


@dataclass(frozen=True)
class CacheEntry:
    """Arrays and the hash of their content."""

    arrays: Arrays
    content: str


def cache_dir() -> Path:
    """``FOCUSING_CACHE_DIR``, or a folder in the user's cache."""
    folder = os.environ.get("FOCUSING_CACHE_DIR")
    return Path(folder) if folder else Path(user_cache_dir("focusing")) / "decoded"


def cached(name: str, origin: Mapping[str, Any], build: Callable[[], Arrays]) -> CacheEntry:
    """Read arrays from the cache, or build them and add them to it.

    Concurrent runs build an entry once, and never see an incomplete one. If the cache cannot be
    written, the arrays stay in memory.

    Args:
        name: readable part of the entry's name.
        origin: everything that the arrays depend on, as JSON: hashes of files, options. Its hash is
            the other part of the name.
        build: decodes files or generates the arrays.

    Raises:
        UserError: if a file is damaged; it is renamed.
    """
    text = json.dumps([VERSION, origin], sort_keys=True)
    folder = cache_dir() / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    entry = _open(folder)
    if entry:
        return entry
    with ExitStack() as locks:
        with suppress(OSError):  # a read-only cache is no reason to fail
            folder.parent.mkdir(parents=True, exist_ok=True)
            locks.enter_context(FileLock(folder.with_name(f".{folder.name}.lock")))
        entry = _open(folder)
        if entry:
            return entry
        with Console(stderr=True).status(f"Decoding {name}, this once"):
            arrays = _build(build)
        with suppress(OSError):  # nor is a full disk
            _write(folder, arrays)
        return _open(folder) or CacheEntry(arrays, _content(arrays))


def decode_files(
    name: str,
    folder: Path,
    names: Sequence[str],
    targets: NDArray[np.int64],
    origin: Mapping[str, Any],
    read: Callable[[Path], NDArray[Any]],
) -> CacheEntry:
    """Decode one sample per file, through the cache.

    Args:
        name: readable part of the entry's name.
        folder: folder of the files.
        names: paths of the files below the folder.
        targets: targets of the samples.
        origin: what the samples depend on besides the files.
        read: decodes a file.
    """

    def build() -> Arrays:
        first = read(folder / names[0])
        inputs = np.empty((len(names), *first.shape), dtype=first.dtype)

        def fill(row: int) -> None:
            inputs[row] = read(folder / names[row])

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # image and audio decoders release the GIL
            list(pool.map(fill, range(len(names))))
        return {"inputs": inputs, "targets": targets}

    return cached(name, {"files": tree_hash(folder, names), **origin}, build)


def _build(build: Callable[[], Arrays]) -> Arrays:
    try:
        return build()
    except DamagedError as error:
        raise UserError(
            f"{error.path} is damaged ({error.reason}): {set_aside(error.path)}; put a good copy "
            "there, or see focusing data list for what can be downloaded again."
        ) from None


def _write(folder: Path, arrays: Arrays) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as workspace:
        temporary = Path(workspace) / folder.name
        temporary.mkdir()
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        about = {"content": _content(arrays), "arrays": list(arrays)}
        (temporary / "about.json").write_text(json.dumps(about))
        shutil.rmtree(folder, ignore_errors=True)
        temporary.replace(folder)


def _open(folder: Path) -> CacheEntry | None:
    # A damaged entry counts as missing.
    with suppress(OSError, ValueError, KeyError, EOFError):
        about = json.loads((folder / "about.json").read_text())
        # Mode "c" is copy-on-write, because torch needs writable memory.
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False)
            for name in about["arrays"]
        }
        return CacheEntry(arrays, about["content"])
    return None


def _content(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
