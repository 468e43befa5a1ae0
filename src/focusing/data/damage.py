"""Files that cannot be what they claim to be."""

from __future__ import annotations

import pickle
import shutil
import struct
import tarfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from focusing.errors import UserError
from focusing.validation import check_regular, format_bytes, max_read


class DamagedError(UserError):
    """A file is not what its name says.

    Args:
        path: the file.
        reason: a few words.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}.")
        self.path, self.reason = path, reason


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever decoders raise over a bad file becomes a :class:`DamagedError` that names it.

    What is no file at all, a pipe or a device, is refused first.
    """
    check_regular(path)
    try:
        yield
    except FileNotFoundError:
        raise  # it is not damaged but gone
    except (
        ArithmeticError,
        AttributeError,
        EOFError,
        IndexError,
        KeyError,
        MemoryError,  # a header that promises more than there can be
        OSError,
        RuntimeError,
        SyntaxError,
        TypeError,
        ValueError,
        pickle.UnpicklingError,
        struct.error,
        tarfile.TarError,
        tokenize.TokenError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DamagedError(path, reason.rstrip(".")) from error


def check_declared(path: Path, size: int) -> None:
    """Refuse a file whose header declares more than may be in memory, before it is inflated."""
    if size > max_read():
        raise DamagedError(path, f"it declares {format_bytes(size)}, far more than such files have")


def set_aside(path: Path) -> str:
    """Rename a damaged file to ``<name>.corrupt``, so that nothing reads it again.

    Returns:
        What became of it, to end a sentence with.
    """
    aside = path.with_name(f"{path.name}.corrupt")
    if aside.is_dir():  # of an earlier time
        shutil.rmtree(aside, ignore_errors=True)
    try:
        path.replace(aside)
    except OSError:
        return "it could not be moved aside, please remove it"
    return f"it is now {aside.name}"
