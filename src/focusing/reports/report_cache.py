"""Remembers what a report was made from, so that an unchanged report is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from focusing.compose import config_dir
from focusing.results.collect import Collection
from focusing.results.store import atomic_write

STATE_FILE = ".made.json"
PACKAGE = Path(__file__).parents[1]
SOURCES = ("drawing.py", "reports", "results", "nn/focus.py")
"""Code below the package that determines what a report looks like."""
LIBRARIES = ("matplotlib", "numpy", "pandas", "scipy", "jinja2")


@lru_cache(maxsize=1)
def code_version() -> str:
    """Digest of everything but records that a report depends on: code, libraries, experiments."""
    digest = hashlib.sha256("".join(map(version, LIBRARIES)).encode())
    roots = [*(PACKAGE / name for name in SOURCES), config_dir()]
    files = {path for root in roots for path in (root, *root.rglob("*"))}
    for path in sorted(files):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1)
def report_state(collection: Collection) -> str:
    """Digest of everything that a report is made from: records, arrays and code."""
    runs = (*collection.runs, *collection.failed)
    files = {run.file for run in runs}
    for run in runs:
        files.update(run.path.glob("*.npz"))
    digest = hashlib.sha256(code_version().encode())
    for path in sorted(files):
        try:
            stat = path.stat()
            digest.update(f"{path}\0{stat.st_mtime_ns}\0{stat.st_size}\n".encode())
        except FileNotFoundError:  # a running sweep may move it away
            digest.update(f"{path}\n".encode())
    digest.update(repr([(run.path, run.seed) for run in runs]).encode())
    digest.update(repr((collection.unreadable, collection.repeated)).encode())
    return digest.hexdigest()[:16]


def is_up_to_date(out: Path, state: str) -> bool:
    """Whether the report in ``out`` was made from ``state`` and all its files exist."""
    known, files = _load(out)
    return known == state and all((out / name).exists() for name in files)


def save_state(out: Path, state: str, files: Iterable[Path]) -> None:
    """Save what the report in ``out`` was made from, and its files.

    Files that it no longer consists of are removed, but never outside ``out``.
    """
    names = sorted(str(path.relative_to(out)) for path in files)
    for old in set(_load(out)[1]) - set(names):
        path = out / old
        below = path.parent.resolve().is_relative_to(out.resolve())
        if below and (path.is_symlink() or path.is_file()):
            path.unlink()
    content = json.dumps({"state": state, "files": names})
    atomic_write(out / STATE_FILE, content.encode(), sync=False)


def _load(out: Path) -> tuple[str, list[str]]:
    """State and files of a report; empty if the file is missing or damaged."""
    try:
        made = json.loads((out / STATE_FILE).read_bytes())
        return str(made["state"]), list(map(str, made["files"]))
    except (OSError, ValueError, TypeError, KeyError):
        return "", []
