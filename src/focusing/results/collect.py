"""Collect the records of all runs below some folders, with a cache for unchanged files."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from focusing.errors import UserError, printable
from focusing.results.identity import config_hash, upgrade_config
from focusing.results.record import METRIC_KEYS
from focusing.results.record_schema import check_record, parse, parse_record
from focusing.results.store import (
    ARCHIVE,
    ARCHIVE_LINE,
    RECORD_FILE,
    atomic_write,
    read_archive,
    read_run,
)

UNSTATED = "unstated"
CACHE_SCHEMA = 5
MAX_RECORD_BYTES = 2**28
"""Size of a record with a million epochs; larger files are rejected."""


@dataclass(frozen=True, eq=False)
class Run:
    """A run as tables and figures see it: its record without the long series.

    Attributes:
        path: the run folder.
        file: the file with its record: ``result.json``, or an archive.
        experiment: name of the experiment.
        status: ``done``, ``failed`` or ``pruned``.
        error: error message of a failed run.
        data: name of the data set.
        source: source of the data.
        fingerprint: hash of the data after splitting and preprocessing.
        content: hash of all samples before splitting; None in older records.
        model: name of the model.
        size: ``smoke``, ``quick``, ``short`` or ``full``.
        variant: ``text``, ``author`` or ``author2018``.
        protocol: protocol of the run.
        seed: seed of the run.
        metric: ``accuracy`` (a fraction) or ``mae`` (lower is better).
        scores: test score by protocol.
        validation: best score on the validation split; None without one.
        epochs: epoch of the score by protocol, counted from 0.
        config: the whole config.
        config_hash: hash of the config without the seed.
        sizes: ``train``, ``val``, ``test``, ``inputs``, ``classes``, ``informative``.
        focus: movement of the foci by focused layer.
        measured: results of callbacks.
        seconds: training time; without a GPU, CPU time.
        finished: UTC time.
    """

    path: Path
    file: Path
    experiment: str
    status: str
    error: str | None
    data: str
    source: str
    fingerprint: str
    model: str
    size: str
    variant: str
    protocol: str
    seed: int
    metric: str
    scores: Mapping[str, float]
    epochs: Mapping[str, int]
    config: Mapping[str, Any]
    config_hash: str
    sizes: Mapping[str, Any] = field(default_factory=dict)
    focus: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    content: str | None = None
    validation: float | None = None
    finished: str = ""

    @property
    def lower_is_better(self) -> bool:
        """Whether the score is an error."""
        return self.metric == "mae"

    @property
    def holdout(self) -> float:
        """Fraction of the training data held out for validation."""
        return float((self.config.get("protocol") or {}).get("holdout") or 0)

    @property
    def data_options(self) -> Mapping[str, Any]:
        """The options of the data set."""
        return self.config.get("data") or {}

    @property
    def trial(self) -> int | None:
        """Number of the random trial; None for other runs."""
        number: int | None = (self.config.get("sweep") or {}).get("trial")
        return number

    def record(self) -> dict[str, Any]:
        """Read the whole record."""
        return read_run(self.path, self.file)

    def series(self) -> dict[str, list[float]]:
        """Read the series of the record: metric -> value after every epoch."""
        series: dict[str, list[float]] = self.record().get("series") or {}
        return series


@dataclass(frozen=True)
class Collection:
    """All runs below some folders.

    Attributes:
        runs: finished runs without duplicates, in a fixed order.
        failed: failed runs that were not repeated successfully.
        unreadable: file and reason of every invalid record or archive.
        repeated: number of duplicate runs.
        read: number of files that were not in the cache.
    """

    runs: tuple[Run, ...]
    failed: tuple[Run, ...] = ()
    unreadable: tuple[tuple[Path, str], ...] = ()
    repeated: int = 0
    read: int = 0

    def warning(self) -> str | None:
        """A sentence about unreadable records; None if there are none."""
        if not self.unreadable:
            return None
        (path, reason), count = self.unreadable[0], len(self.unreadable)
        records = "a record that cannot be read" if count == 1 else f"{count} unreadable records"
        more = ", ..." if count > 1 else ""
        return f"Left out {records}: {printable(str(path))} ({reason}){more}"

    def of(self, experiment: str) -> list[Run]:
        """Finished runs of an experiment."""
        return [run for run in self.runs if run.experiment == experiment]


def run_from_record(path: Path, record: Mapping[str, Any], file: Path | None = None) -> Run:
    """Make a run from its record.

    Args:
        path: the run folder.
        record: the validated record, with or without its series.
        file: the archive with the record; None if the record is in the run folder.
    """
    config = upgrade_config(record["config"], (record.get("data") or {}).get("train"))
    # A run may fail before it has loaded its data.
    sizes = dict(record.get("data") or {"name": config["data"]["name"]})
    data, model, experiment = sizes.pop("name"), config["model"]["name"], record["experiment"]
    if experiment == f"{data}_{model}":  # the default name in version 0.1
        experiment = "learning_to_focus" if data == "synthetic" else data
    scores = {name: score for name, score in record["scores"].items() if score}
    on_gpu = "gpu" in (record.get("machine") or {})
    # Unlike wall time, CPU time does not depend on other processes and pauses.
    seconds = None if on_gpu else record.get("cpu_seconds")
    return Run(
        path=path,
        file=file or path / RECORD_FILE,
        experiment=experiment,
        status=record["status"],
        error=record.get("error"),
        data=data,
        source=sizes.pop("source", UNSTATED),
        fingerprint=sizes.pop("fingerprint", UNSTATED),
        content=sizes.pop("content", None),
        validation=_validation(record),
        model=model,
        size=config.get("size", UNSTATED),
        variant=config.get("variant", UNSTATED),
        protocol=config["protocol"]["name"],
        seed=record["seed"],
        metric=record.get("metric") or UNSTATED,
        scores={name: float(score["value"]) for name, score in scores.items()},
        epochs={name: score["epoch"] for name, score in scores.items()},
        config=config,
        config_hash=config_hash(config),
        sizes=sizes,
        focus=record.get("focus") or {},
        measured=record.get("measured") or {},
        seconds=record.get("wall_seconds") if seconds is None else seconds,
        finished=record.get("finished") or "",
    )


def collect(folders: Sequence[Path], cache: Path | None = None) -> Collection:
    """Find and read all records.

    Args:
        folders: folders to search recursively, except for subfolders that begin with a dot (where
            a run is moved while it is repeated).
        cache: cache file; created if needed.
    """
    cached = _load_cache(cache)
    files: dict[str, list[Any]] = {}
    read = 0
    for path in sorted(set(record_files(folders))):
        try:
            state = path.stat()
        except FileNotFoundError:  # a sweep that is running has moved it
            continue
        mark = [state.st_mtime_ns, state.st_size]
        entry = cached.get(str(path))
        if entry is None or entry[:2] != mark:
            try:
                entry = [*mark, _read(path, state)]
            except OSError as error:
                entry = [None, None, [["", str(error.strerror)]]]  # retried next time
            read += 1
        files[str(path)] = entry
    if cache is not None and files != cached:
        text = json.dumps({"schema": CACHE_SCHEMA, "files": files}, separators=(",", ":"))
        cache.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(cache, text.encode(), sync=False)
    return _assemble(files, read)


@cache
def _finished(folder: Path) -> dict[tuple[str, str, int], Run]:
    runs = collect([folder]).runs
    return {(run.experiment, run.config_hash, run.seed): run for run in runs}


def find_published(config: Mapping[str, Any]) -> Run | None:
    """Find the finished run of a config in the folder ``sweep.archive``, read once per process."""
    archive = config["sweep"]["archive"]
    if not archive:
        return None
    folder = Path(archive).expanduser().absolute()
    if not folder.is_dir():
        raise UserError(f"sweep.archive={archive} is not a folder.")
    return _finished(folder).get((config["name"], config_hash(config), config["seed"]))


def runs_at(folders: Iterable[Path], archive: Path | None = None) -> list[Run]:
    """Finished runs of some run folders, whose records are in them or in an archive."""
    wanted = set(folders)
    archived = [run for run in _finished(archive).values() if run.path in wanted] if archive else []
    return [*archived, *collect(sorted(wanted - {run.path for run in archived})).runs]


def record_files(folders: Sequence[Path]) -> Iterator[Path]:
    """Find all files below some folders that are named like a record or an archive."""
    for folder in folders:
        for place, subfolders, files in os.walk(folder.absolute()):
            if RECORD_FILE in files:
                subfolders.clear()  # a run folder contains no other runs
                yield Path(place, RECORD_FILE)
                continue
            if ARCHIVE in files:
                yield Path(place, ARCHIVE)
            subfolders[:] = [name for name in subfolders if not name.startswith(".")]


def _assemble(files: dict[str, list[Any]], read: int) -> Collection:
    """Keep one run per identity: finished rather than failed, later rather than earlier."""
    unreadable, repeated = [], 0
    best: dict[tuple[Any, ...], Run] = {}
    for name, (_, _, entries) in files.items():
        file = Path(name)
        for place, record in entries:
            if isinstance(record, str):
                unreadable.append((file, printable(f"{place}: {record}" if place else record)))
                continue
            run = run_from_record(file.parent / place, record, file)
            key = (*_identity(run), run.source, run.fingerprint)
            earlier = best.get(key)
            repeated += earlier is not None
            if earlier is None or _rank(run) > _rank(earlier):
                best[key] = run
    runs = sorted(best.values(), key=_order)
    done = [run for run in runs if run.status == "done"]
    repaired = set(map(_identity, done))  # without the fingerprint: a failed run may have none
    failed = [run for run in runs if run.status == "failed" and _identity(run) not in repaired]
    return Collection(tuple(done), tuple(failed), tuple(unreadable), repeated, read)


def _identity(run: Run) -> tuple[Any, ...]:
    return run.experiment, run.config_hash, run.seed, run.model


def _rank(run: Run) -> tuple[bool, str]:
    return run.status == "done", run.finished


def _order(run: Run) -> tuple[Any, ...]:
    return run.experiment, run.data, run.model, run.config_hash, run.seed, str(run.path)


def _read(path: Path, state: os.stat_result) -> list[list[Any]]:
    """Relative run folder, and record without series, of every run in a file.

    For an invalid record, the reason takes the place of the record.
    """
    try:
        if not stat.S_ISREG(state.st_mode):
            raise ValueError("not a file")
        if state.st_size > MAX_RECORD_BYTES:
            raise ValueError(f"larger than {MAX_RECORD_BYTES >> 20} MiB")
        if path.name == ARCHIVE:
            entries = [list(entry) for entry in read_archive(path)]
        else:
            record = parse_record(path.read_bytes())
            check_record(record)
            entries = [["", record]]
    except ValueError as error:
        return [["", str(error)]]
    for _, record in entries:
        if not isinstance(record, str):
            record["validation"] = _validation(record)
            record.pop("series", None)
    return entries


def _validation(record: Mapping[str, Any]) -> float | None:
    """Validation score at the chosen epoch; ``validation`` of a record without its series."""
    epoch = (record["scores"].get("holdout") or {}).get("epoch")
    metric = METRIC_KEYS.get(str(record.get("metric")), "")
    values = (record.get("series") or {}).get(f"val/{metric}")
    score = values[epoch] if epoch is not None and values else record.get("validation")
    return float(score) if isinstance(score, int | float) else None


def _load_cache(cache: Path | None) -> dict[str, list[Any]]:
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
                    ARCHIVE_LINE({"folder": place or "here"})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}  # missing or damaged: read all files again
    return files
