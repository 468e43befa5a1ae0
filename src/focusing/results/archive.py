"""``records.jsonl.xz``: the records of many runs in one small file, for publishing them."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from focusing.errors import UserError
from focusing.results.files import atomic_write
from focusing.results.record_schema import check_record, parse
from focusing.schema import below, fields

ARCHIVE = "records.jsonl.xz"
LARGEST = 2**30
"""Bytes of an archive that is unpacked; all published records have a thirtieth of that."""
LINE = fields({"folder": below})
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
    atomic_write(folder / ARCHIVE, lzma.compress(text.encode()))


def read_lines(file: Path) -> Iterator[tuple[str, Record | str]]:
    """Run folder and record of each line of an archive; of a bad line its number, and why.

    Raises:
        ValueError: the whole file is damaged.
    """
    try:
        unpacked = lzma.LZMADecompressor(memlimit=LARGEST)
        content = unpacked.decompress(file.read_bytes(), LARGEST)
        lines = content.decode().split("\n")
    except (EOFError, lzma.LZMAError, UnicodeDecodeError):
        raise ValueError("not an archive of records") from None
    if len(content) >= LARGEST:
        raise ValueError(f"an archive of more than {LARGEST >> 20} MiB")
    if not unpacked.eof:
        raise ValueError("not an archive of records: it is cut off")
    for place, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            record = parse(line)
            check_record(record)
            LINE({"folder": record.get("folder")})
            yield record.pop("folder"), record
        except ValueError as error:
            yield f"line {place}", str(error)


def read_archive(file: Path) -> dict[str, Record]:
    """The records of an archive by their run folders, without lines that hold none.

    Raises:
        ValueError: the whole file is damaged.
    """
    return {folder: record for folder, record in read_lines(file) if not isinstance(record, str)}


def read_run(folder: Path, file: Path) -> Record:
    """The record of one run, from its own file or from an archive.

    Args:
        folder: the run folder.
        file: where its record is.

    Raises:
        UserError: it is no longer there as it was.
    """
    try:
        if file.name == ARCHIVE:
            records = _open(file, file.stat().st_mtime_ns)
            return records[folder.relative_to(file.parent).as_posix()]
        record: Record = parse(file.read_bytes())
        check_record(record)
    except (KeyError, ValueError) as error:
        raise UserError(f"{file} has changed while it was read ({error}): try again.") from None
    return record


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
