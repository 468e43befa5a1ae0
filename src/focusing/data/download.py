"""Fetch one file: resumable, verified, whole or not at all."""

from __future__ import annotations

import hashlib
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path
from typing import Any

from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from focusing.data.damage import set_aside
from focusing.errors import UserError
from focusing.validation import check_regular

CHUNK = 1 << 20
TIMEOUT = 30
"""Seconds without a byte after which a server is given up."""


class DownloadError(UserError):
    """No address had the file."""


def download(urls: Iterable[str], target: Path, sha256: str | None) -> None:
    """Fetch a file into place, from the first address that has it.

    A transfer that broke off left ``<name>.part`` and goes on from there. Two processes that want
    the same file fetch it once: the second waits, and finds it.

    Args:
        urls: addresses, in the order in which to try them.
        target: where it goes; its folder is made.
        sha256: what its hash must be; None is for archives whose content is verified instead, and
            which begin again.

    Raises:
        DownloadError: if no address has the file, or only one with another hash; that is kept as
            ``<name>.corrupt``.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(f".{target.name}.lock")):
        if target.exists():
            return
        part = target.with_name(f"{target.name}.part")
        if sha256 is None:  # nothing would tell that two halves are not of one file
            part.unlink(missing_ok=True)
        reasons = []
        for url in urls:
            resumed = part.exists()
            try:
                _transfer(url, part)
                if resumed and not _is(part, sha256):  # it went on from another file's beginning
                    part.unlink()
                    _transfer(url, part)
            except (OSError, HTTPException) as error:
                reasons.append(f"{_host(url)}: {_brief(error)}")
                continue
            if _is(part, sha256):
                part.replace(target)
                return
            part.replace(target)
            reasons.append(f"{_host(url)} sent another file, {set_aside(target)}")
        raise DownloadError("; ".join(reasons))


def hash_of(path: Path) -> str:
    """The SHA-256 of a file."""
    check_regular(path)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _is(path: Path, sha256: str | None) -> bool:
    return sha256 is None or hash_of(path) == sha256


def _transfer(url: str, part: Path) -> None:
    """Append what is missing, or begin again if the server cannot go on from there."""
    if not url.startswith(("https://", "http://")):
        raise OSError(f"{url} is no web address")
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "focusing", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - checked above
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is missing; the hash will tell
            return
        raise
    with response:
        goes_on = response.status == 206
        have = have if goes_on else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        with part.open("ab" if goes_on else "wb") as file, _progress() as progress:
            task = progress.add_task(part.stem, completed=have, total=total)
            received = have
            while chunk := response.read(CHUNK):
                file.write(chunk)
                received += len(chunk)
                progress.update(task, completed=received)
    if total is not None and received < total:
        raise OSError(f"the connection broke after {received} of {total} bytes")


def _progress() -> Progress:
    columns: list[Any] = [
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    ]
    return Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty())


def _host(url: str) -> str:
    return url.split("/")[2] if url.count("/") > 2 else url


def _brief(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return (
        " ".join(str(getattr(reason, "strerror", None) or reason).split()) or type(error).__name__
    )
