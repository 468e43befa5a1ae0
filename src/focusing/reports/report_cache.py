"""What the parts of a report were made from: a part whose inputs did not change is kept.

The tables, the figures and the page of a report are each made by one function, which begins with
``if unchanged(out, part, state): return`` and ends with ``remember(out, part, state, files)``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from focusing.compose import config_dir
from focusing.results.collect import Collection
from focusing.results.store import atomic_write

FILE = ".made.json"
PACKAGE = Path(__file__).parents[1]
SOURCES = ("drawing.py", "reports", "results", "nn/focus.py")
"""Code that decides what a report looks like, below the package."""
LIBRARIES = ("matplotlib", "numpy", "pandas", "scipy", "jinja2")


@lru_cache(maxsize=1)
def code_version() -> str:
    """A digest that changes when a report may look different: our code, libraries, experiments."""
    digest = hashlib.sha256("".join(map(version, LIBRARIES)).encode())
    roots = [*(PACKAGE / name for name in SOURCES), config_dir()]
    files = {path for root in roots for path in (root, *root.rglob("*"))}
    for path in sorted(files):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1)
def report_state(collection: Collection) -> str:
    """A digest of all that a report on some runs is made from: records, arrays and code."""
    runs = (*collection.runs, *collection.failed)
    files = {run.file for run in runs}
    for run in runs:
        files.update(run.path.glob("*.npz"))
    digest = hashlib.sha256(code_version().encode())
    for path in sorted(files):
        try:
            stat = path.stat()
            digest.update(f"{path}\0{stat.st_mtime_ns}\0{stat.st_size}\n".encode())
        except FileNotFoundError:  # a sweep that runs may put it aside
            digest.update(f"{path}\n".encode())
    digest.update(repr([(run.path, run.seed) for run in runs]).encode())
    digest.update(repr((collection.unreadable, collection.repeated)).encode())
    return digest.hexdigest()[:16]


def unchanged(out: Path, part: str, state: str) -> bool:
    """Whether a part of the report in ``out`` was made from ``state``, and all its files exist."""
    made = _load(out).get(part, {})
    return made.get("state") == state and all((out / name).exists() for name in made["files"])


def remember(out: Path, part: str, state: str, files: Iterable[Path]) -> None:
    """Note that a part of the report was made from ``state``, and the files that it consists of.

    Files that it consisted of before are removed, but none outside ``out``: names come from a file.
    """
    made = _load(out)
    names = sorted(str(path.relative_to(out)) for path in files)
    for old in set(made.get(part, {}).get("files", ())) - set(names):
        path = out / old
        below = path.parent.resolve().is_relative_to(out.resolve())
        if below and (path.is_symlink() or path.is_file()):
            path.unlink()
    content = {**made, part: {"state": state, "files": names}}
    atomic_write(out / FILE, json.dumps(content).encode(), sync=False)


def _load(out: Path) -> dict[str, dict[str, Any]]:
    """State and files by part; of a damaged file nothing: all is made again."""
    try:
        content = json.loads((out / FILE).read_bytes())
        return {
            str(part): {"state": str(made["state"]), "files": list(map(str, made["files"]))}
            for part, made in content.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
