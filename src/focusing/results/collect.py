"""All records below some folders; what did not change since the last time is not read again."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from focusing.errors import UserError
from focusing.results.archive import ARCHIVE, read_lines
from focusing.results.files import atomic_write
from focusing.results.identity import config_hash
from focusing.results.record import FILE
from focusing.results.record_schema import check_record, parse
from focusing.results.run import Run, run_of
from focusing.schema import below, printable

CACHE_SCHEMA = 3
LARGEST = 2**28
"""Bytes of a record: those of a million epochs."""


@dataclass(frozen=True)
class Collection:
    """What was found.

    Attributes:
        runs: finished runs, each once, in a fixed order.
        failed: runs that failed and were not repeated with success.
        unreadable: files that are called as records and archives are but hold none, or lines of
            archives that hold none, and why.
        repeated: number of further copies of runs, not counted again.
        read: number of files that had to be read.
    """

    runs: tuple[Run, ...]
    failed: tuple[Run, ...] = ()
    unreadable: tuple[tuple[Path, str], ...] = ()
    repeated: int = 0
    read: int = 0

    def warning(self) -> str | None:
        """One sentence about what cannot be read."""
        if not self.unreadable:
            return None
        (path, reason), count = self.unreadable[0], len(self.unreadable)
        records = "a record that cannot be read" if count == 1 else f"{count} unreadable records"
        more = ", ..." if count > 1 else ""
        return f"Left out {records}: {printable(str(path))} ({reason}){more}"

    def of(self, experiment: str) -> list[Run]:
        """The finished runs of an experiment."""
        return [run for run in self.runs if run.experiment == experiment]


def collect(folders: Sequence[Path], cache: Path | None = None) -> Collection:
    """Find and read all records.

    Args:
        folders: searched with all that is below them, but not in folders that begin with a dot
            (what a run puts aside while it is repeated).
        cache: a file that remembers what was read; made if there is none.
    """
    known = _load(cache)
    now: dict[str, list[Any]] = {}
    read = 0
    for path in sorted(set(record_files(folders))):
        try:
            state = path.stat()
        except FileNotFoundError:  # a sweep that runs may put it aside
            continue
        mark = [state.st_mtime_ns, state.st_size]
        entry = known.get(str(path))
        if entry is None or entry[:2] != mark:
            try:
                entry = [*mark, _read(path, state)]
            except OSError as error:
                entry = [None, None, [["", str(error.strerror)]]]  # next time it is tried again
            read += 1
        now[str(path)] = entry
    if cache is not None and now != known:
        text = json.dumps({"schema": CACHE_SCHEMA, "files": now}, separators=(",", ":"))
        cache.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(cache, text.encode(), sync=False)
    return _assemble(now, read)


@cache
def _finished(folder: Path) -> dict[tuple[str, str, int], Run]:
    runs = collect([folder]).runs
    return {(run.experiment, run.config_hash, run.seed): run for run in runs}


def published(config: Mapping[str, Any]) -> Run | None:
    """The finished run of a config in the folder ``sweep.archive``; None without one.

    The folder is read once by each process.
    """
    archive = config["sweep"]["archive"]
    if not archive:
        return None
    folder = Path(archive).expanduser().absolute()
    if not folder.is_dir():
        raise UserError(f"sweep.archive={archive} is not a folder.")
    return _finished(folder).get((config["name"], config_hash(config), config["seed"]))


def _assemble(files: dict[str, list[Any]], read: int) -> Collection:
    unreadable, repeated = [], 0
    best: dict[tuple[Any, ...], Run] = {}
    for name, (_, _, entries) in files.items():
        file = Path(name)
        for place, record in entries:
            if isinstance(record, str):
                unreadable.append((file, printable(f"{place}: {record}" if place else record)))
                continue
            run = run_of(file.parent / place, record, file)
            same = (*_identity(run), run.source, run.fingerprint)
            earlier = best.get(same)
            repeated += earlier is not None
            if earlier is None or _rank(run) > _rank(earlier):
                best[same] = run
    runs = sorted(best.values(), key=_order)
    done = [run for run in runs if run.status == "done"]
    repaired = set(map(_identity, done))  # a run may fail before it has data, thus a fingerprint
    failed = [run for run in runs if run.status == "failed" and _identity(run) not in repaired]
    return Collection(
        runs=tuple(done),
        failed=tuple(failed),
        unreadable=tuple(unreadable),
        repeated=repeated,
        read=read,
    )


def _identity(run: Run) -> tuple[Any, ...]:
    return run.experiment, run.config_hash, run.seed, run.model


def _rank(run: Run) -> tuple[bool, str]:
    return run.status == "done", run.finished


def _order(run: Run) -> tuple[Any, ...]:
    return run.experiment, run.data, run.model, run.config_hash, run.seed, str(run.path)


def record_files(folders: Sequence[Path]) -> Iterator[Path]:
    """All files below some folders that are records or archives, by their names."""
    for folder in folders:
        for place, folders_below, files in os.walk(folder.absolute()):
            if FILE in files:
                folders_below.clear()  # a run folder holds no others, but many files
                yield Path(place, FILE)
                continue
            if ARCHIVE in files:
                yield Path(place, ARCHIVE)
            folders_below[:] = [name for name in folders_below if not name.startswith(".")]


def _read(path: Path, state: os.stat_result) -> list[list[Any]]:
    """Place and record, without its series, of each run in a file; or in its stead what is wrong.

    The place is the run folder, as seen from that of the file.
    """
    try:
        if not stat.S_ISREG(state.st_mode):
            raise ValueError("not a file")
        if state.st_size > LARGEST:
            raise ValueError(f"larger than {LARGEST >> 20} MiB")
        if path.name == ARCHIVE:
            entries = [list(each) for each in read_lines(path)]
        else:
            record = parse(path.read_bytes())
            check_record(record)
            entries = [["", record]]
    except ValueError as error:
        return [["", str(error)]]
    for _, record in entries:
        if not isinstance(record, str):
            record.pop("series", None)
    return entries


def _load(cache: Path | None) -> dict[str, list[Any]]:
    if cache is None:
        return {}
    try:
        content = parse(cache.read_bytes())
        if content["schema"] != CACHE_SCHEMA:
            return {}
        files: dict[str, list[Any]] = content["files"]
        for _, _, entries in files.values():
            for place, record in entries:
                if not isinstance(record, str):
                    check_record(record)
                    below(place or "here")
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}  # there is none, or it is damaged: all is read again
    return files
