"""A sweep from its jobs to its end: launch, wait for what others run, tell what failed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from filelock import Timeout
from omegaconf import DictConfig, OmegaConf

from focusing.compose import check_devices
from focusing.errors import UserError
from focusing.results.store import RECORD_FILE as RECORD
from focusing.results.store import lock_of
from focusing.sweep.failures import print_failures
from focusing.sweep.outcome import Job, Outcome

Launch = Callable[[Sequence[Job]], Sequence[Outcome]]
PATIENCE = 1.0
"""Seconds between two looks at what another process runs."""


def settle(jobs: Sequence[Job], launch: Launch) -> list[tuple[Job, Outcome]]:
    """Launch jobs until each is done or has failed, here or in another process."""
    results: dict[int, tuple[Job, Outcome]] = {}
    ready = left = list(jobs)
    while left:
        outcomes = launch(ready)
        results.update((job.index, (job, out)) for job, out in zip(ready, outcomes, strict=True))
        left = [job for job in left if results[job.index][1].status == "busy"]
        if left:
            count = len(left)
            print(f"Waiting for {count} jobs that another process runs.", file=sys.stderr)
            ready = _wait_for_any([results[job.index] for job in left])
    return [results[job.index] for job in jobs]


def _wait_for_any(busy: Sequence[tuple[Job, Outcome]]) -> list[Job]:
    while True:
        free = [job for job, outcome in busy if outcome.run_dir and _is_free(Path(outcome.run_dir))]
        if free:
            return free
        time.sleep(PATIENCE)


def _is_free(run_dir: Path) -> bool:
    try:
        with lock_of(run_dir):
            return True
    except Timeout:
        return False


def conclude(
    results: Sequence[tuple[Job, Outcome]],
    *,
    total: int | None = None,
    options: Collection[str] = (),
    again: bool = False,
) -> None:
    """Tell which jobs failed.

    Args:
        results: jobs and what became of them.
        total: number of jobs, if not all are among the results.
        options: those that name a job, if not those in which the results differ.
        again: ``sweep.retry_failed=true`` runs also those that left no record.

    Raises:
        UserError: if any did, so that the command exits with 1.
    """
    failed = print_failures(results, options)
    if not failed:
        return
    if len(results) == 1 and results[0][1].runs:  # a stack, which has counted its own
        text = str(results[0][1].error)
    else:
        count = sum(outcome.status == "failed" for _, outcome in results)
        text = f"{count} of {len(results) if total is None else total} jobs failed"
    again = again or any(o.run_dir and Path(o.run_dir, RECORD).exists() for o in failed)
    raise UserError(f"{text}{'; sweep.retry_failed=true runs them again.' if again else '.'}")


def check_sweep(config: DictConfig) -> None:
    """Refuse what no job of a sweep can have: with several devices, Hydra would hang."""
    devices = config.trainer.devices
    check_devices(OmegaConf.to_container(devices) if OmegaConf.is_config(devices) else devices)
