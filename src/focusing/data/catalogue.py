"""The files of every data set, as catalogue.yaml lists them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class File:
    """A file, or a folder that comes in an archive.

    Args:
        name: of the file or folder, below the folder of the data set.
        sha256: of the official file, of the archive if it comes in one; None: not published.
        urls: the official address first, then mirrors; none: the user has to bring the file.
        archive: name of the archive it comes in; then ``name`` is a folder.
        members: which members of the archive are taken: a pattern whose group is the path below
            ``name``.
        tree: hash of the extracted folder, where archives of the same content differ.
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
        name: as in ``data=``; ``clt40`` and ``clt60`` are the files that ``data=clt`` can read.
        title: for people.
        folders: where its files may be, below the data folder; downloads go to the first.
        choices: sets of files of which one is enough, the best first.
    """

    name: str
    title: str
    folders: tuple[str, ...]
    choices: tuple[tuple[File, ...], ...]


@cache
def catalogue() -> dict[str, Entry]:
    """All data sets by name."""
    text = Path(__file__).with_name("catalogue.yaml").read_text(encoding="utf-8")
    return {name: _entry(name, values) for name, values in yaml.safe_load(text).items()}


def replacement(path: Path) -> str:
    """How to replace a damaged file, to end a sentence with."""
    to_be_had = [
        file
        for entry in catalogue().values()
        for choice in entry.choices
        for file in choice
        if file.urls
    ]
    if any(file.name == path.name for file in to_be_had if not file.archive):
        return "run again to download it, or put a good copy there"
    for folder in path.parents:
        if any(file.name == folder.name for file in to_be_had if file.archive):
            return f"put a good copy there, or remove {folder} and run again to download it whole"
    return "put a good copy there"


def _entry(name: str, values: dict[str, Any]) -> Entry:
    choices = tuple(tuple(_file(**each) for each in choice) for choice in values["choices"])
    return Entry(name, values["title"], tuple(values["folders"]), choices)


def _file(name: str, urls: tuple[str, ...] = (), **more: Any) -> File:
    return File(name, urls=tuple(url.format(name=name) for url in urls), **more)
