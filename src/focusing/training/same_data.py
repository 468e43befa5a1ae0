"""A run goes on, and counts as finished, only with the data it was begun with."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from focusing.data import DataSet
from focusing.data.sources import MissingError
from focusing.errors import UserError
from focusing.results.store import atomic_write, set_aside
from focusing.training.assembly import load_data
from focusing.validation import fields, text

log = logging.getLogger(__name__)

BEGUN = fields({"source": text, "fingerprint": text})
FILE = "data.json"
"""Beside the checkpoints: what they were trained on. A record comes only at the end."""


def check_finished(record: Mapping[str, Any], config: Mapping[str, Any], run_dir: Path) -> None:
    """Refuse to take a run for finished whose data has changed since.

    This decodes nothing that is in the cache; files that are gone have not changed.
    """
    with suppress(MissingError):
        _compare(record["data"], load_data(config, peek=True), run_dir, "force=true runs it again")


def check_resumed(run_dir: Path, data: DataSet) -> None:
    """Refuse to go on from a checkpoint that was trained on other data."""
    folder = run_dir / "checkpoints"
    if not any(folder.glob("*.ckpt")):
        return
    path = folder / FILE
    if not path.exists():
        return
    try:
        begun = json.loads(path.read_bytes())
        BEGUN(begun)
    except (ValueError, RecursionError):
        kept = set_aside(path)
        log.warning("%s is damaged: it is kept as %s, and the run goes on.", path, kept.name)
        return
    _compare(begun, data, run_dir, "resume=never begins again")


def note_data(run_dir: Path, data: DataSet) -> None:
    """Leave word of the data for :func:`check_resumed`."""
    begun = {"source": data.source, "fingerprint": data.fingerprint}
    atomic_write(run_dir / "checkpoints" / FILE, json.dumps(begun).encode())


def _compare(begun: Mapping[str, Any], data: DataSet, run_dir: Path, remedy: str) -> None:
    if begun["fingerprint"] == data.fingerprint:
        return
    raise UserError(
        f"{run_dir} was trained on other data: {begun['source']}, fingerprint "
        f"{begun['fingerprint']}; now data={data.name} is {data.source}, fingerprint "
        f"{data.fingerprint}; {remedy}."
    )
