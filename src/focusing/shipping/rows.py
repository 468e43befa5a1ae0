"""Tables (csv) as raw samples."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from focusing.errors import UserError
from focusing.validation import format_bytes, max_read

SHOWN = 30
"""Characters of a cell in a message."""


def read_rows(path: Path) -> NDArray[np.float64]:
    """A row per sample; a first row without any number names the columns."""
    if path.stat().st_size > max_read():
        raise UserError(f"{path} is too large: split it into files of {format_bytes(max_read())}.")
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.reader(file, skipinitialspace=True)
            lines = [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from None
    if lines and not any(map(_is_number, lines[0][1])):
        lines = lines[1:]
    if not lines:
        raise UserError(f"{path} has no rows of numbers.")
    wanted = len(lines[0][1])
    for line, row in lines:
        if len(row) != wanted:
            raise UserError(
                f"{path} is not a table of numbers: line {line} has {len(row)} columns, line "
                f"{lines[0][0]} has {wanted}."
            )
        for column, cell in enumerate(row, 1):
            if not _is_number(cell):
                shown = cell if len(cell) <= SHOWN else f"{cell[:SHOWN]}..."
                raise UserError(
                    f"{path} is not a table of numbers: line {line}, column {column} is {shown!r}."
                )
    return np.array([[float(cell) for cell in row] for _, row in lines])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
