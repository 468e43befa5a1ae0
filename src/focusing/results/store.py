"""Files of runs: atomic writes, records, claims of run folders, archives, Optuna studies.

A run writes ``result.json`` last, and atomically: if it exists with status ``done``, the run is
done. ``records.jsonl.xz`` is an archive: the records of many runs in one small file.
"""

from __future__ import annotations

import json
import logging
import lzma
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from focusing.errors import BusyError, DamagedError, UserError, printable
from focusing.results.record_schema import SCHEMA, check_record, parse_record
from focusing.validation import FOLDER, is_name, make_validator, object_schema, short_repr

if TYPE_CHECKING:
    import optuna

log = logging.getLogger(__name__)
RECORD_FILE = "result.json"
ARCHIVE = "records.jsonl.xz"
FIGURES_COMPLETE = Path("figures", ".complete")
"""Marker in a run folder, written after all figures."""
STUDY_SUFFIX = ".journal"
MAX_ARCHIVE_BYTES = 2**30
"""Limit on the unpacked size of an archive; all published records take a thirtieth of it."""
ARCHIVE_LINE = make_validator(object_schema({"folder": FOLDER}))
SERIES_DIGITS = 5
TRIAL_SERIES_DIGITS = 3
"""Significant digits of series in an archive: of runs, and of random trials, of which there are
thousands. Scores are exact."""

Record = dict[str, Any]


class FinishedError(Exception):
    """The run is already done."""


def atomic_write(path: Path, content: Any, *, sync: bool = True) -> None:
    """Write a file such that readers see either the old or the new content, even after a crash.

    Args:
        path: the file.
        content: bytes.
        sync: also survive a power failure.
    """
    temporary = path.with_name(f".{path.name}.part")
    if temporary.is_symlink():  # never write through a link that a stranger has placed
        temporary.unlink()
    try:
        with temporary.open("wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Rename a damaged file, so that a new one can be written and nothing is lost."""
    return path.replace(path.with_name(f"{path.name}.damaged"))


def safe_join(folder: Path, *names: str) -> Path:
    """Join a folder with names from an untrusted file.

    Raises:
        UserError: a name is not a plain file name, or a link leads out of the folder.
    """
    for name in names:
        if not is_name(name):
            raise UserError(f"{name!r} cannot be the name of a file in {folder}.")
    path = folder.joinpath(*names)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{path} is a link that leads out of {folder}: remove it.")
    return path


def write_record(run_dir: Path, record: Mapping[str, Any]) -> Record:
    """Write the record of a run.

    Returns:
        The record as it will be read.

    Raises:
        UserError: the record is invalid, such as with NaN or with objects that are not JSON.
    """
    error_text = record.get("error") and printable(str(record["error"]))
    try:
        text = json.dumps({"schema": SCHEMA, **record, "error": error_text}, indent=1)
        written: Record = parse_record(text)
        check_record(written)
    except (TypeError, ValueError) as error:
        raise UserError(f"The record of this run cannot be written: {error}.") from None
    atomic_write(run_dir / RECORD_FILE, text.encode())
    return written


def read_record(run_dir: Path) -> Record | None:
    """Read the record of a run; None if there is none.

    Raises:
        DamagedError: it is not a valid record.
        UserError: it has the schema of another version.
    """
    path = run_dir / RECORD_FILE
    try:
        record: Record = parse_record(path.read_bytes())
        if isinstance(record, dict) and record.get("schema", SCHEMA) != SCHEMA:
            raise UserError(
                f"{path} has schema {short_repr(record['schema'])}, this version reads {SCHEMA}."
            )
        check_record(record)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DamagedError(path, f"is not a record: {error}") from None
    return record


def load_record(run_dir: Path) -> Record | None:
    """Read the record of a run; set a damaged one aside with a warning, and return None."""
    try:
        return read_record(run_dir)
    except DamagedError as error:
        kept = set_aside(error.path)
        log.warning("%s It is kept as %s; the run continues.", error, kept.name)
        return None


def finished_record(run_dir: Path) -> Record | None:
    """Read the record of a run; None unless the run is done."""
    record = load_record(run_dir)
    return record if record and record["status"] == "done" else None


def has_figures(run_dir: Path) -> bool:
    """Whether a run folder has all its figures."""
    return (run_dir / FIGURES_COMPLETE).exists()


def run_lock(run_dir: Path) -> FileLock:
    """The lock that a process holds while it works in a run folder; acquiring does not wait."""
    return FileLock(run_dir.with_name(f".{run_dir.name}.lock"), timeout=0)


@contextmanager
def claim(run_dir: Path, *, resume: bool, again: bool = True) -> Iterator[Path | None]:
    """Claim a run folder for this process.

    The folder of a finished run is moved aside. It is removed when the new run is done, and moved
    back if the new run fails; the failed run is kept as ``.<name>.failed``.

    Args:
        run_dir: the run folder; created if needed.
        resume: resume from the last checkpoint if there is one; else start from scratch.
        again: repeat the run if it is done.

    Yields:
        The checkpoint to resume from, or None.

    Raises:
        BusyError: another process holds the folder.
        FinishedError: the run is done, and ``again`` is false.
    """
    aside = run_dir.with_name(f".{run_dir.name}.previous")
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    lock = run_lock(run_dir)
    try:
        lock.acquire()
    except Timeout:
        raise BusyError(f"Another process is running {run_dir}.") from None
    try:
        if finished_record(run_dir):
            if not again:
                raise FinishedError
            shutil.rmtree(aside, ignore_errors=True)
            run_dir.rename(aside)
        elif not resume:
            _empty(run_dir)
        (run_dir / "checkpoints").mkdir(parents=True, exist_ok=True)
        last = run_dir / "checkpoints" / "last.ckpt"
        try:
            yield last if last.exists() or last.with_name("best.ckpt").exists() else None
        except Exception:
            if aside.exists() and not finished_record(run_dir):
                failed = run_dir.with_name(f".{run_dir.name}.failed")
                shutil.rmtree(failed, ignore_errors=True)
                run_dir.rename(failed)
                aside.rename(run_dir)
            raise
        if finished_record(run_dir):
            shutil.rmtree(aside, ignore_errors=True)
    finally:
        lock.release()


def _empty(run_dir: Path) -> None:
    """Remove the files of an earlier run, except damaged files that were set aside."""
    for path in run_dir.iterdir() if run_dir.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.suffix != ".damaged":
            path.unlink(missing_ok=True)


def write_archive(folder: Path, records: Iterable[tuple[str, Record]]) -> None:
    """Write an archive of relative run folders and their records, without ``config.paths``.

    Equal records give equal files.
    """
    lines = (
        json.dumps({"folder": name, **_published(record)}, separators=(",", ":"), allow_nan=False)
        for name, record in records
    )
    text = "".join(f"{line}\n" for line in lines)
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / ARCHIVE, lzma.compress(text.encode()))


def read_archive(file: Path) -> Iterator[tuple[str, Record | str]]:
    """Yield run folder and record of every line; for an invalid line, its number and the reason.

    Raises:
        ValueError: the whole file is damaged.
    """
    try:
        decompressor = lzma.LZMADecompressor(memlimit=MAX_ARCHIVE_BYTES)
        content = decompressor.decompress(file.read_bytes(), MAX_ARCHIVE_BYTES)
        lines = content.decode().split("\n")
    except (EOFError, lzma.LZMAError, UnicodeDecodeError):
        raise ValueError("not an archive of records") from None
    if len(content) >= MAX_ARCHIVE_BYTES:
        raise ValueError(f"an archive of more than {MAX_ARCHIVE_BYTES >> 20} MiB")
    if not decompressor.eof:
        raise ValueError("not an archive of records: it is cut off")
    for line_number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            record = parse_record(line)
            check_record(record)
            ARCHIVE_LINE({"folder": record.get("folder")})
            yield record.pop("folder"), record
        except ValueError as error:
            yield f"line {line_number}", str(error)


def read_run(folder: Path, file: Path) -> Record:
    """Read the record of a run folder from its own file or from an archive.

    Raises:
        UserError: the file has changed since it was collected.
    """
    try:
        if file.name == ARCHIVE:
            records = _cached_archive(file, file.stat().st_mtime_ns)
            return records[folder.relative_to(file.parent).as_posix()]
        record: Record = parse_record(file.read_bytes())
        check_record(record)
    except (KeyError, ValueError) as error:
        raise UserError(f"{file} has changed while it was read ({error}): try again.") from None
    return record


@lru_cache(maxsize=4)
def _cached_archive(file: Path, changed: int) -> dict[str, Record]:
    """Records of an archive by run folder, without invalid lines."""
    return {folder: record for folder, record in read_archive(file) if not isinstance(record, str)}


def _published(record: Mapping[str, Any]) -> Record:
    config = {name: value for name, value in record["config"].items() if name != "paths"}
    one_of_many = (config.get("sweep") or {}).get("trial") is not None
    digits = TRIAL_SERIES_DIGITS if one_of_many else SERIES_DIGITS
    series = {
        name: [value if value is None else float(f"{value:.{digits}g}") for value in values]
        for name, values in (record.get("series") or {}).items()
    }
    return {**record, "config": config, "series": series}


def require_optuna() -> None:
    """Raise a UserError if Optuna is not installed."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise UserError("hydra/sweeper=optuna needs: pip install 'focusing[optuna]'") from None


def open_study(path: Path, *, after_trials: int, after_epochs: int, **options: Any) -> optuna.Study:
    """Open an Optuna study in a file that many processes share; created if needed.

    Args:
        path: the file.
        after_trials: number of first trials that are never pruned.
        after_epochs: number of epochs before a trial may be pruned.
        **options: options of ``optuna.create_study``.
    """
    require_optuna()
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Take over the lock of a killed process after this many seconds.
    lock = JournalFileSymlinkLock(str(path), grace_period=5)
    return optuna.create_study(
        study_name="focusing",
        storage=JournalStorage(JournalFileBackend(str(path), lock)),
        pruner=optuna.pruners.MedianPruner(after_trials, after_epochs),
        load_if_exists=True,
        **options,
    )
