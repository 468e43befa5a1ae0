"""Take files out of an archive that somebody else made."""

from __future__ import annotations

import re
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from focusing.data.damage import DamagedError, reading
from focusing.validation import format_bytes

MAX_EXTRACTED = 16 * 1024**3
"""Bytes of all files together; the largest archive here holds less than one GiB."""


def extract(archive: Path, folder: Path, members: str) -> None:
    """Extract some files of an archive; the folder appears when all are there.

    Only regular files whose whole name fits the pattern are taken, below the folder and nowhere
    else: links, devices, absolute names and ``..`` in an archive have no effect.

    Args:
        archive: a tar archive, compressed or not, or a zip archive.
        folder: where they go; must not exist.
        members: a pattern; its group is the path of the file below the folder.
    """
    pattern = re.compile(members)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as made:
        temporary = Path(made) / folder.name
        count = size = 0
        with reading(archive):
            for name, declared, content in _files(archive):
                fits = pattern.fullmatch(name)
                if not fits or not _stays_inside(fits[1]):
                    continue
                size += declared  # of which no more is read
                if size > MAX_EXTRACTED:
                    raise DamagedError(archive, f"it would take {format_bytes(size)} or more")
                target = temporary / fits[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    shutil.copyfileobj(content, file)
                count += 1
        if not count:
            raise DamagedError(archive, "it holds none of the files it should")
        temporary.replace(folder)


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name


def _files(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    with packed.open(info) as content:
                        yield info.filename, info.file_size, content
        return
    with tarfile.open(archive) as opened:
        for member in opened:
            taken = opened.extractfile(member) if member.isreg() else None
            if taken is not None:
                yield member.name.removeprefix("./"), member.size, taken
