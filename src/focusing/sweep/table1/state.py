"""What is known of a run of a trial: its record, or that there is none that can be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from focusing.errors import UserError
from focusing.results.collect import published
from focusing.results.identity import run_folder
from focusing.results.store import record_of


class State(NamedTuple):
    """Of a run.

    Attributes:
        status: of its record; None: there is none yet.
        error: a sentence, if it failed.
        record: of a run that has one.
    """

    status: str | None
    error: str | None
    record: dict[str, Any] | None


def state_of(config: Mapping[str, Any]) -> State:
    """Look at the folder of a run; a record of another version is a failure of its own."""
    try:
        record = record_of(run_folder(config))
    except UserError as error:
        return State("failed", f"{error} Delete it to run this again.", None)
    if record is None:
        archived = published(config)
        return State("done", None, archived.record()) if archived else State(None, None, None)
    return State(record["status"], record.get("error"), record)
