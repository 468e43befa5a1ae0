"""``records.jsonl.xz``: the records of many runs in one small file, for publishing them."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from focusing.results.files import write_whole

ARCHIVE = "records.jsonl.xz"
DIGITS = 5
"""Of each value of a series, more than a figure shows; scores are exact."""

Record = dict[str, Any]


def write_archive(folder: Path, records: Iterable[tuple[str, Record]]) -> None:
    """Write the archive of a folder; equal records make equal files.

    Args:
        folder: made if needed.
        records: run folder, as seen from this folder, and record of each run. Paths of the machine
            that a config holds are left out.
    """
    lines = (
        json.dumps({"folder": name, **_published(record)}, separators=(",", ":"), allow_nan=False)
        for name, record in records
    )
    text = "".join(f"{line}\n" for line in lines)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / ARCHIVE, lzma.compress(text.encode()))


def read_archive(file: Path) -> dict[str, Record]:
    """The records of an archive by their run folders.

    Raises:
        ValueError: it is damaged.
    """
    try:
        lines = lzma.decompress(file.read_bytes()).decode().splitlines()
        records = [json.loads(line) for line in lines]
        return {record.pop("folder"): record for record in records}
    except (EOFError, lzma.LZMAError, ValueError, KeyError, AttributeError, TypeError):
        raise ValueError("not an archive of records") from None


def read_run(folder: Path, file: Path) -> Record:
    """The record of one run, from its own file or from an archive.

    Args:
        folder: the run folder.
        file: where its record is.
    """
    if file.name != ARCHIVE:
        record: Record = json.loads(file.read_text())
        return record
    return _open(file, file.stat().st_mtime_ns)[folder.relative_to(file.parent).as_posix()]


@lru_cache(maxsize=4)
def _open(file: Path, changed: int) -> dict[str, Record]:
    return read_archive(file)


def _published(record: Mapping[str, Any]) -> Record:
    config = {name: value for name, value in record["config"].items() if name != "paths"}
    series = {
        name: [value if value is None else float(f"{value:.{DIGITS}g}") for value in values]
        for name, values in (record.get("series") or {}).items()
    }
    return {**record, "config": config, "series": series}
