"""Download files (resumable, verified, atomic) and extract archives safely."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO

from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from focusing.data.decoders import DamagedError, reading, set_aside
from focusing.errors import UserError
from focusing.validation import check_regular, format_bytes

CHUNK = 1 << 20
TIMEOUT = 30
"""Seconds without data after which a server counts as unreachable."""
MAX_EXTRACTED = 16 * 1024**3
"""Most bytes to extract; the largest archive of the catalogue holds less than one GiB."""


class DownloadError(UserError):
    """No URL provided the file."""


def download(urls: Iterable[str], target: Path, sha256: str | None) -> None:
    """Download a file from the first URL that has it.

    An interrupted download leaves ``<name>.part`` and continues from there. If two processes want
    the same file, the second waits for the first.

    Args:
        urls: URLs in the order in which to try them.
        target: path of the file; its folder is created.
        sha256: expected hash. None is for archives whose content is verified instead; their
            download always starts from the beginning.

    Raises:
        DownloadError: if no URL has the file. A file with another hash is kept as
            ``<name>.corrupt``.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(f".{target.name}.lock")):
        if target.exists():
            return
        partial = target.with_name(f"{target.name}.part")
        if sha256 is None:  # without a hash, a wrong continuation would go unnoticed
            partial.unlink(missing_ok=True)
        reasons = []
        for url in urls:
            host = url.split("/")[2] if url.count("/") > 2 else url
            resumed = partial.exists()
            try:
                _transfer(url, partial)
                if resumed and not _matches(partial, sha256):  # it continued another file
                    partial.unlink()
                    _transfer(url, partial)
            except (OSError, HTTPException) as error:
                reasons.append(f"{host}: {_brief(error)}")
                continue
            verified = _matches(partial, sha256)
            partial.replace(target)
            if verified:
                return
            reasons.append(f"{host} sent another file, {set_aside(target)}")
        raise DownloadError("; ".join(reasons))


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    check_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def extract(archive: Path, folder: Path, members: str) -> None:
    """Extract files from an archive; the folder appears once it is complete.

    Only regular files whose full name matches ``members`` are extracted, and only below the folder:
    links, devices, absolute paths and ``..`` are ignored.

    Args:
        archive: a zip archive, or a tar archive, compressed or not.
        folder: the destination; must not exist.
        members: regular expression; its group is the path of the file below the folder.
    """
    pattern = re.compile(members)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as workspace:
        temporary = Path(workspace) / folder.name
        size = 0
        with reading(archive):
            for name, declared, content in _members(archive):
                match = pattern.fullmatch(name)
                if not match or not _stays_inside(match[1]):
                    continue
                size += declared  # at most this much is read
                if size > MAX_EXTRACTED:
                    raise DamagedError(archive, f"it would take {format_bytes(size)} or more")
                target = temporary / match[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    shutil.copyfileobj(content, file)
        if not temporary.exists():
            raise DamagedError(archive, "it holds none of the expected files")
        temporary.replace(folder)


def _matches(path: Path, sha256: str | None) -> bool:
    return sha256 is None or file_hash(path) == sha256


def _transfer(url: str, partial: Path) -> None:
    """Download the missing bytes, or everything if the server cannot resume."""
    if not url.startswith(("https://", "http://")):
        raise OSError(f"{url} is not a web address")
    received = partial.stat().st_size if partial.exists() else 0
    headers = {"User-Agent": "focusing", "Accept-Encoding": "identity"}
    if received:
        headers["Range"] = f"bytes={received}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - checked above
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == 416 and received:  # nothing is missing; the hash is checked later
            return
        raise
    with response:
        resumes = response.status == 206
        received = received if resumes else 0
        length = response.headers.get("Content-Length")
        total = received + int(length) if length else None
        with partial.open("ab" if resumes else "wb") as file, _progress() as progress:
            task = progress.add_task(partial.stem, completed=received, total=total)
            while chunk := response.read(CHUNK):
                file.write(chunk)
                received += len(chunk)
                progress.update(task, completed=received)
    if total is not None and received < total:
        raise OSError(f"the connection broke after {received} of {total} bytes")


def _progress() -> Progress:
    text = TextColumn("{task.description}")
    columns = (text, BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty())


def _brief(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    text = str(getattr(reason, "strerror", None) or reason)
    return " ".join(text.split()) or type(error).__name__


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Name, declared size and content of each regular file in an archive."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    with packed.open(info) as content:
                        yield info.filename, info.file_size, content
        return
    with tarfile.open(archive) as opened:
        for member in opened:
            extracted = opened.extractfile(member) if member.isreg() else None
            if extracted is not None:
                yield member.name.removeprefix("./"), member.size, extracted
