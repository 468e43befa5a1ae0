"""Files that are there whole or not at all, and where they should be or nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from focusing.errors import UserError
from focusing.schema import is_name as is_name


def atomic_write(path: Path, content: Any, *, sync: bool = True) -> None:
    """Write a file such that no reader, and no crash, ever sees half of it.

    Args:
        path: the file; what it held before stays until the new content is complete.
        content: bytes.
        sync: also survive a power failure.
    """
    part = path.with_name(f".{path.name}.part")
    if part.is_symlink():  # in a folder of somebody else's; what it leads to stays as it is
        part.unlink()
    try:
        with part.open("wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Rename a file that is damaged, so that nothing is lost and a new one can be written."""
    return path.replace(path.with_name(f"{path.name}.damaged"))


def inside(folder: Path, *names: str) -> Path:
    """The path of names below a folder, for names that come from a file.

    Raises:
        UserError: a name is a path, or a link leads out of the folder.
    """
    for name in names:
        if not is_name(name):
            raise UserError(f"{name!r} cannot be the name of a file in {folder}.")
    path = folder.joinpath(*names)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{path} is a link that leads out of {folder}: remove it.")
    return path


def remove(folder: Path, names: Iterable[Any]) -> None:
    """Remove the files of a folder that a list in a file names; what is no name is left out."""
    for name in names:
        if is_name(name) and ((path := folder / name).is_symlink() or path.is_file()):
            path.unlink()
