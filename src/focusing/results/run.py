"""One run as tables and figures see it: its record without the long lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from focusing.results.archive import read_run
from focusing.results.identity import config_hash, upgrade
from focusing.results.record import FILE

UNSTATED = "unstated"
NO_SIZES = ("name", "source", "fingerprint", "content")
"""What a record says about the data besides sizes."""


@dataclass(frozen=True, eq=False)
class Run:
    """What a record says.

    Attributes:
        path: the run folder.
        file: what its record is in: ``result.json``, or an archive.
        experiment: its name.
        status: ``done``, ``failed`` or ``pruned``.
        error: why it failed.
        data: name of the data set.
        source: where the data came from.
        fingerprint: of the data, as they were split and prepared.
        content: the same of all samples, however split; None in records that do not have it.
        model: name of the model.
        size: ``smoke``, ``quick``, ``short`` or ``paper``.
        variant: ``paper``, ``author`` or ``author2018``.
        protocol: the one it was run with.
        seed: its seed.
        metric: ``accuracy``, a fraction, or ``mae``, of which less is better.
        scores: test score under each protocol that there is.
        epochs: the epoch of each score, from 0.
        config: the whole config.
        config_hash: equal for configs that compute the same, whatever the seed.
        sizes: ``train``, ``val``, ``test``, ``inputs``, ``classes``, ``informative``.
        network: numbers of ``parameters`` and of ``trained`` ones, and what else is known.
        focus: movement of the foci of each focused layer.
        measured: what analysing callbacks found.
        seconds: of training; without a GPU those of the CPU.
        steps_per_second: training steps.
        peak_memory: in bytes.
        versions: of Python and packages.
        git: commit, and whether files were changed since; None outside a repository.
        started: UTC.
        finished: UTC.
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
    network: Mapping[str, Any] = field(default_factory=dict)
    focus: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    steps_per_second: float | None = None
    peak_memory: int | None = None
    content: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    git: Mapping[str, Any] | None = None
    started: str = ""
    finished: str = ""

    @property
    def lower_is_better(self) -> bool:
        """The score is an error."""
        return self.metric == "mae"

    @property
    def holdout(self) -> float:
        """Share of the training data that was kept for validation."""
        return float((self.config.get("protocol") or {}).get("holdout") or 0)

    def record(self) -> dict[str, Any]:
        """The whole record, read again."""
        return read_run(self.path, self.file)

    def series(self) -> dict[str, list[float]]:
        """Metric -> value of each epoch, read again."""
        series: dict[str, list[float]] = self.record().get("series") or {}
        return series


def _seconds(record: Mapping[str, Any]) -> float | None:
    """On a CPU its own time, which other processes and pauses do not lengthen."""
    machine = record.get("machine") or {}
    cpu: float | None = None if "gpu" in machine else record.get("cpu_seconds")
    return record.get("wall_seconds") if cpu is None else cpu


def run_of(path: Path, record: Mapping[str, Any], file: Path | None = None) -> Run:
    """A run from its record, which need not have its series.

    Args:
        path: the run folder.
        record: the record, checked.
        file: the archive that it is in; None: the run folder has it.
    """
    config = upgrade(record["config"], (record.get("data") or {}).get("train"))
    data = record.get("data") or {"name": config["data"]["name"]}  # it may fail before it has any
    given = {name: score for name, score in record["scores"].items() if score}
    return Run(
        path=path,
        file=file or path / FILE,
        experiment=record["experiment"],
        status=record["status"],
        error=record.get("error"),
        data=data["name"],
        source=data.get("source", UNSTATED),
        fingerprint=data.get("fingerprint", UNSTATED),
        model=config["model"]["name"],
        size=config.get("size", UNSTATED),
        variant=config.get("variant", UNSTATED),
        protocol=config["protocol"]["name"],
        seed=record["seed"],
        metric=record.get("metric") or UNSTATED,
        scores={name: float(score["value"]) for name, score in given.items()},
        epochs={name: score["epoch"] for name, score in given.items()},
        config=config,
        config_hash=config_hash(config),
        sizes={name: value for name, value in data.items() if name not in NO_SIZES},
        network=record.get("network") or {},
        focus=record.get("focus") or {},
        measured=record.get("measured") or {},
        seconds=_seconds(record),
        steps_per_second=record.get("steps_per_second"),
        peak_memory=record.get("peak_memory_bytes"),
        content=data.get("content"),
        versions=record.get("versions") or {},
        git=record.get("git"),
        started=record.get("started") or "",
        finished=record.get("finished") or "",
    )
