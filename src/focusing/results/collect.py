"""All records below some folders; what did not change since the last time is not read again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from focusing.errors import UserError
from focusing.results.archive import ARCHIVE, Record, read_archive
from focusing.results.files import write_whole
from focusing.results.identity import config_hash
from focusing.results.record import FILE
from focusing.results.run import Run, run_of

CACHE_SCHEMA = 2


@dataclass(frozen=True)
class Collection:
    """What was found.

    Attributes:
        runs: finished runs, each once, in a fixed order.
        failed: runs that failed and were not repeated with success.
        skipped: files called ``result.json`` or as archives are that are none, and why.
        repeated: number of further copies of runs, not counted again.
        read: number of files that had to be read.
    """

    runs: tuple[Run, ...]
    failed: tuple[Run, ...] = ()
    skipped: tuple[tuple[Path, str], ...] = ()
    repeated: int = 0
    read: int = 0

    def warning(self) -> str | None:
        """One sentence about what was skipped."""
        if not self.skipped:
            return None
        (path, reason), count = self.skipped[0], len(self.skipped)
        files = "a file that is no record" if count == 1 else f"{count} files that are no records"
        return f"Skipped {files}: {path} ({reason}){', ...' if count > 1 else ''}"

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
                entry = [*mark, _read(path)]
            except OSError as error:
                entry = [None, None, error.strerror]  # next time it is tried again
            read += 1
        now[str(path)] = entry
    if cache is not None and now != known:
        text = json.dumps({"schema": CACHE_SCHEMA, "files": now}, separators=(",", ":"))
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_whole(cache, text.encode(), sync=False)
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
    skipped, repeated = [], 0
    best: dict[tuple[Any, ...], Run] = {}
    for path, found in _records(files):
        try:
            if isinstance(found, str):
                raise ValueError(found)
            run = run_of(*found)
        except ValueError as error:
            skipped.append((path, str(error)))
            continue
        same = (*_identity(run), run.source, run.fingerprint)
        earlier = best.get(same)
        repeated += earlier is not None
        if earlier is None or _rank(run) > _rank(earlier):
            best[same] = run
    runs = sorted(best.values(), key=_order)
    done = [run for run in runs if run.status == "done" and run.scores]
    repaired = set(map(_identity, done))  # a run may fail before it has data, thus a fingerprint
    failed = [run for run in runs if run.status == "failed" and _identity(run) not in repaired]
    return Collection(
        runs=tuple(done),
        failed=tuple(failed),
        skipped=tuple(skipped),
        repeated=repeated,
        read=read,
    )


def _records(
    files: dict[str, list[Any]],
) -> Iterator[tuple[Path, str | tuple[Path, Record, Path]]]:
    """Each file with a run folder and its record, or with what is wrong with it."""
    for name, (_, _, found) in files.items():
        file = Path(name)
        if isinstance(found, str):
            yield file, found
        elif file.name == ARCHIVE:
            yield from ((file, (file.parent / key, each, file)) for key, each in found.items())
        else:
            yield file, (file.parent, found, file)


def _identity(run: Run) -> tuple[Any, ...]:
    return run.experiment, run.config_hash, run.seed, run.model


def _rank(run: Run) -> tuple[bool, str]:
    return run.status == "done", run.finished


def _order(run: Run) -> tuple[Any, ...]:
    return run.experiment, run.data, run.model, run.config_hash, run.seed, str(run.path)


def record_files(folders: Sequence[Path]) -> Iterator[Path]:
    """All files below some folders that are records or archives, by their names."""
    for folder in folders:
        for place, below, files in os.walk(folder.absolute()):
            if FILE in files:
                below.clear()  # a run folder holds no others, but many files
                yield Path(place, FILE)
                continue
            if ARCHIVE in files:
                yield Path(place, ARCHIVE)
            below[:] = [each for each in below if not each.startswith(".")]


def _read(path: Path) -> dict[str, Any] | str:
    """The record without its series, or those of an archive, or why there are none."""
    if path.name == ARCHIVE:
        try:
            records = read_archive(path)
        except ValueError as error:
            return str(error)
        for each in records.values():
            each.pop("series", None)
        return records
    try:
        record = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return "not JSON"
    if not isinstance(record, dict) or "schema" not in record:
        return "not written by focusing"
    record.pop("series", None)
    return record


def _load(cache: Path | None) -> dict[str, list[Any]]:
    if cache is None:
        return {}
    try:
        content = json.loads(cache.read_bytes())
        files: dict[str, list[Any]] = content["files"]
        whole = content["schema"] == CACHE_SCHEMA and all(len(each) == 3 for each in files.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # there is none, or it is damaged: all is read again
    return files if whole else {}
