"""Files of the data sets: the catalogue, finding files on disk, and downloading missing ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

from focusing.data.decoders import DamagedError, set_aside
from focusing.data.download import DownloadError, download, extract, file_hash
from focusing.errors import UserError


class MissingError(UserError):
    """The files of a data set are missing and cannot be downloaded."""


@dataclass(frozen=True)
class File:
    """A file of a data set, or a folder that is extracted from an archive.

    Args:
        name: name of the file or folder, below the folder of the data set.
        sha256: hash of the official file or archive; None: not published.
        urls: the official URL, then mirrors; empty: the user has to provide the file.
        archive: name of the archive, if ``name`` is a folder that is extracted from it.
        members: regular expression of the members to extract; its group is the path below ``name``.
        tree: hash of the extracted folder, for archives that differ but have the same content.
    """

    name: str
    sha256: str | None = None
    urls: tuple[str, ...] = ()
    archive: str | None = None
    members: str = ""
    tree: str | None = None


@dataclass(frozen=True)
class Entry:
    """A data set that is read from files.

    Args:
        name: as in ``data=``; ``clt40`` and ``clt60`` are files that ``data=clt`` can read.
        title: name to display.
        folders: folders below the data folder that may hold the files; downloads go to the first.
        choices: alternative sets of files, the preferred one first.
    """

    name: str
    title: str
    folders: tuple[str, ...]
    choices: tuple[tuple[File, ...], ...]

    @property
    def downloads(self) -> list[tuple[File, ...]]:
        """Choices that can be downloaded."""
        return [choice for choice in self.choices if all(file.urls for file in choice)]


@cache
def catalogue() -> dict[str, Entry]:
    """All data sets that are read from files, by name."""
    text = Path(__file__).with_name("catalogue.yaml").read_text(encoding="utf-8")
    entries = {}
    for name, values in yaml.safe_load(text).items():
        choices = tuple(tuple(_file(**file) for file in choice) for choice in values["choices"])
        entries[name] = Entry(name, values["title"], tuple(values["folders"]), choices)
    return entries


@dataclass(frozen=True)
class DataFiles:
    """Files of a data set on this machine.

    Args:
        choice: one of its sets of files.
        paths: their paths.
    """

    choice: tuple[File, ...]
    paths: tuple[Path, ...]

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        """Hash of each file, or of the content of each folder."""
        return tuple(tree_hash(path) if path.is_dir() else file_hash(path) for path in self.paths)

    @cached_property
    def source(self) -> str:
        """For the record: ``official`` if all files are the published ones, else ``local``."""
        for number, (file, path) in enumerate(zip(self.choice, self.paths, strict=True)):
            expected = file.tree or file.sha256
            if file.archive and not file.tree:
                mark = _official_mark(path)
                expected = mark.read_text(encoding="utf-8") if mark.exists() else None
            if expected is None or self.hashes[number] != expected:
                return "local"
        return "official"


def find(entry: Entry, data_dir: Path) -> DataFiles | None:
    """Find a complete choice of files in the data folder; None if there is none."""
    for choice in entry.choices:
        for folder in entry.folders:
            paths = tuple(data_dir / folder / file.name for file in choice)
            if all(path.exists() for path in paths):
                return DataFiles(choice, paths)
    return None


def obtain(entry: Entry, data_dir: Path, *, fetch: bool = True) -> DataFiles:
    """Find the files of a data set, or download them to the data folder if ``fetch`` is true.

    Raises:
        MissingError: with the names, the folder and the command.
    """
    files = find(entry, data_dir)
    if files:
        return files
    reasons = []
    for choice in entry.downloads if fetch else []:
        try:
            return _fetch(entry, choice, data_dir)
        except DownloadError as error:
            reasons.append(str(error))
        except OSError as error:
            reasons.append(f"{error.filename}: {error.strerror}")
    names = ", ".join(file.name for file in entry.choices[0])
    reason = "; ".join(reasons) or "there is no address to download from"
    remedy = f"put {'them' if len(entry.choices[0]) > 1 else 'it'} there"
    if entry.downloads:
        remedy += f", or run `focusing data get {entry.name}` where there is a network"
    folder = data_dir / entry.folders[0]
    raise MissingError(f"{entry.title}: {names} not found in {folder} ({reason}); {remedy}.")


def tree_hash(folder: Path, names: Sequence[str] | None = None) -> str:
    """Hash of the names and contents of all files in a folder, or of the named ones.

    It equals the output of ``find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum``.
    """
    if names is None:
        files = (path for path in folder.rglob("*") if path.is_file())
        names = [path.relative_to(folder).as_posix() for path in files]
    digest = hashlib.sha256()
    for name in sorted(names, key=lambda name: f"./{name}".encode()):
        digest.update(f"{file_hash(folder / name)}  ./{name}\n".encode())
    return digest.hexdigest()


def _file(name: str, urls: tuple[str, ...] = (), **more: Any) -> File:
    return File(name, urls=tuple(url.format(name=name) for url in urls), **more)


def _official_mark(folder: Path) -> Path:
    """File beside a folder from a verified archive; holds the hash of the folder."""
    return folder.with_name(f".{folder.name}.official")


def _fetch(entry: Entry, choice: tuple[File, ...], data_dir: Path) -> DataFiles:
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
                _fetch_folder(file, folder / file.archive, target)
    return DataFiles(choice, tuple(folder / file.name for file in choice))


def _fetch_folder(file: File, archive: Path, target: Path) -> None:
    reasons = []
    for url in file.urls:  # one by one: an archive without a hash is verified by its content
        try:
            download([url], archive, file.sha256)
            extract(archive, target, file.members)
        except DownloadError as error:
            reasons.append(str(error))
            continue
        except DamagedError as error:
            reasons.append(f"{archive.name}: {error.reason}, {set_aside(archive)}")
            continue
        archive.unlink()
        content = tree_hash(target)
        if file.sha256:
            _official_mark(target).write_text(content, encoding="utf-8")
        if file.tree in (None, content):
            return
        reasons.append(f"{archive.name} does not have the expected content, {set_aside(target)}")
    raise DownloadError("; ".join(reasons))
