"""The folder of a run: claimed by one process, begun, continued or begun again."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from focusing.errors import BusyError, DamagedError
from focusing.results.files import set_aside
from focusing.results.record import read_record

log = logging.getLogger(__name__)
DRAWN = Path("figures", ".complete")
"""In a run folder: written last, when all figures are there."""


class FinishedError(Exception):
    """Another process has finished the run since this one looked."""


def record_of(run_dir: Path) -> dict[str, Any] | None:
    """The record of a run; one that is damaged is kept aside, and the run goes on without."""
    try:
        return read_record(run_dir)
    except DamagedError as error:
        kept = set_aside(error.path)
        log.warning("%s It is kept as %s; the run goes on.", error, kept.name)
        return None


def finished(run_dir: Path) -> dict[str, Any] | None:
    """The record of a run that is done, else None."""
    record = record_of(run_dir)
    return record if record and record["status"] == "done" else None


def has_figures(run_dir: Path) -> bool:
    """Whether all figures of a run have been drawn."""
    return (run_dir / DRAWN).exists()


def lock_of(run_dir: Path) -> FileLock:
    """What the process that runs in a folder holds; nobody waits for it."""
    return FileLock(run_dir.with_name(f".{run_dir.name}.lock"), timeout=0)


@contextmanager
def claim(run_dir: Path, *, resume: bool, again: bool = True) -> Iterator[Path | None]:
    """Have a run folder to oneself.

    A folder whose run is done is put aside, removed once the new run is done too, and put back if
    the new run fails, which is then kept as ``.<name>.failed``.

    Args:
        run_dir: made if needed.
        resume: go on from the last checkpoint if there is one, rather than begin again.
        again: also have a folder whose run is done.

    Yields:
        The checkpoint to go on from, or None.

    Raises:
        BusyError: another process has it.
        FinishedError: the run is done, which is not wanted again.
    """
    aside = run_dir.with_name(f".{run_dir.name}.previous")
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    lock = lock_of(run_dir)
    try:
        lock.acquire()
    except Timeout:
        raise BusyError(f"Another process is running {run_dir}.") from None
    try:
        if finished(run_dir):
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
            if aside.exists() and not finished(run_dir):
                failed = run_dir.with_name(f".{run_dir.name}.failed")
                shutil.rmtree(failed, ignore_errors=True)
                run_dir.rename(failed)
                aside.rename(run_dir)
            raise
        if finished(run_dir):
            shutil.rmtree(aside, ignore_errors=True)
    finally:
        lock.release()


def _empty(run_dir: Path) -> None:
    """Remove all that an earlier run left, but not what was set aside for somebody to look at."""
    for path in run_dir.iterdir() if run_dir.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.suffix != ".damaged":
            path.unlink(missing_ok=True)
