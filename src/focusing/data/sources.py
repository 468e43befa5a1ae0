"""Find the files of a data set in the data folder, or fetch them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from filelock import FileLock

from focusing.data.archives import extract
from focusing.data.catalogue import Entry, File
from focusing.data.damage import DamagedError, set_aside
from focusing.data.download import DownloadError, download, hash_of
from focusing.errors import UserError


class MissingError(UserError):
    """The files of a data set are neither there nor to be had."""


@dataclass(frozen=True)
class Found:
    """The files of a data set, in one place.

    Args:
        entry: which data set.
        choice: which of its sets of files.
        paths: where each of these is.
    """

    entry: Entry
    choice: tuple[File, ...]
    paths: tuple[Path, ...]

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        """The hash of each file, or of the content of each folder."""
        return tuple(map(_hash, self.paths))

    @property
    def source(self) -> str:
        """For the record: ``official`` if all is as published, else ``local``."""
        return "official" if self.published == set(self.paths) else "local"

    @cached_property
    def published(self) -> set[Path]:
        """Those of the files that are what was published."""
        return {path for number, path in enumerate(self.paths) if self._is_published(number)}

    def _is_published(self, number: int) -> bool:
        file, path = self.choice[number], self.paths[number]
        expected = file.tree or (_unpacked(path) if file.archive else file.sha256)
        return expected is not None and self.hashes[number] == expected


def find(entry: Entry, data_dir: Path) -> Found | None:
    """The files of a data set if all of one choice are in the data folder."""
    for choice in entry.choices:
        for folder in entry.folders:
            paths = tuple(data_dir / folder / file.name for file in choice)
            if all(path.exists() for path in paths):
                return Found(entry, choice, paths)
    return None


def obtain(entry: Entry, data_dir: Path, *, fetch: bool = True) -> Found:
    """The files of a data set, downloaded if need be.

    Args:
        entry: which data set.
        data_dir: where they may be, and where they go.
        fetch: whether what is missing may be downloaded.

    Raises:
        MissingError: with the names, the folder and the command, in a sentence.
    """
    found = find(entry, data_dir)
    if found:
        return found
    to_be_had = [choice for choice in entry.choices if all(file.urls for file in choice)]
    reasons = ["there is no address to download from"]
    for number, choice in enumerate(to_be_had if fetch else []):
        try:
            return _fetch(entry, choice, data_dir)
        except DownloadError as error:
            reasons[number:] = [str(error)]
        except OSError as error:
            reasons[number:] = [f"{error.filename}: {error.strerror}"]
    raise MissingError(_sentence(entry, data_dir, "; ".join(reasons), bool(to_be_had)))


def tree_hash(folder: Path, names: Sequence[str] | None = None) -> str:
    """The hash of all names and contents in a folder, or of some.

    It is what ``find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum`` prints there.
    """
    if names is None:
        files = (path for path in folder.rglob("*") if path.is_file())
        names = [path.relative_to(folder).as_posix() for path in files]
    digest = hashlib.sha256()
    for name in sorted(names, key=lambda each: f"./{each}".encode()):
        digest.update(f"{hash_of(folder / name)}  ./{name}\n".encode())
    return digest.hexdigest()


def _hash(path: Path) -> str:
    return tree_hash(path) if path.is_dir() else hash_of(path)


def _mark(folder: Path) -> Path:
    """Stands beside a folder that was unpacked from a verified archive, and holds its hash."""
    return folder.with_name(f".{folder.name}.official")


def _unpacked(folder: Path) -> str | None:
    """The hash of a folder when it was unpacked from a verified archive, if it was."""
    mark = _mark(folder)
    return mark.read_text(encoding="utf-8") if mark.exists() else None


def _fetch(entry: Entry, choice: tuple[File, ...], data_dir: Path) -> Found:
    folder = data_dir / entry.folders[0]
    for file in choice:
        target = folder / file.name
        if target.exists():
            continue
        if file.archive is None:
            download(file.urls, target, file.sha256)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{file.name}.lock"):
            if not target.exists():
                _fetch_folder(file, folder)
    return Found(entry, choice, tuple(folder / file.name for file in choice))


def _fetch_folder(file: File, folder: Path) -> None:
    assert file.archive is not None  # noqa: S101 - for the type checker
    archive, target = folder / file.archive, folder / file.name
    # Without a hash of the archive only its content tells which address has the right one.
    attempts = [file.urls] if file.sha256 else [(url,) for url in file.urls]
    reasons = []
    for urls in attempts:
        try:
            download(urls, archive, file.sha256)
            extract(archive, target, file.members)
        except DownloadError as error:
            reasons.append(str(error))
            continue
        except DamagedError as error:
            reasons.append(f"{file.archive}: {error.reason}, {set_aside(archive)}")
            continue
        archive.unlink()
        content = tree_hash(target)
        if file.sha256:
            _mark(target).write_text(content, encoding="utf-8")
        if file.tree in (None, content):
            return
        reasons.append(f"{file.archive} has another content than expected, {set_aside(target)}")
    raise DownloadError("; ".join(reasons))


def _sentence(entry: Entry, data_dir: Path, reason: str, to_be_had: bool) -> str:
    names = ", ".join(file.name for file in entry.choices[0])
    folder = data_dir / entry.folders[0]
    put = f"put {'them' if len(entry.choices[0]) > 1 else 'it'} there"
    command = f", or run `focusing data get {entry.name}` where there is a network"
    return (
        f"{entry.title}: {names} not found in {folder} ({reason}); "
        f"{put}{command if to_be_had else ''}."
    )
