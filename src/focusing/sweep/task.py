"""One job of a sweep: skip it if it is done, else run it, and return what became of it.

This happens where the job runs, on whatever machine: composing a config takes a tenth of a second,
and the folder of a run follows from the hash of its config.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import Timeout
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import run_job, setup_globals
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf

from focusing.compose import check, check_devices, prepare_hydra
from focusing.errors import BusyError, PrunedError, UserError
from focusing.instantiate import trust, trusted
from focusing.results.collect import published
from focusing.results.identity import run_folder
from focusing.results.store import has_figures, lock_of, read_record, record_of
from focusing.sweep.expansion import Composer, is_stack
from focusing.sweep.jobs import (
    Job,
    Outcome,
    Result,
    RunsFailedError,
    describe_error,
    record_failure,
)

TaskFunction = Callable[[DictConfig], Any]
Announce = Callable[[Path, dict[str, Any]], None]
Launch = Callable[[Sequence[Job]], Sequence[Outcome]]
SIGNAL_EXIT_CODES = (130, 143)
"""Exit codes of a process that Ctrl-C or SIGTERM stopped."""
POLL_SECONDS = 1.0
"""How often to check whether another process has released a run."""


class SweepTask:
    """A task function that always returns an :class:`Outcome`, whatever its job does.

    Args:
        task: the function that Hydra would call.
        prepare: writes into a job's config what the config asks for, such as a random trial.

    Attributes:
        threads: of a job; None: torch's default.
        folder: the working directory of the sweep, for machines where jobs start elsewhere.
        announce: called with the run folder and the config before the job begins.
    """

    def __init__(self, task: TaskFunction, prepare: Callable[[DictConfig], None]) -> None:
        # Our sweeper wraps the task, and so do our launchers: other sweepers do not.
        self.task: TaskFunction = task.task if isinstance(task, SweepTask) else task
        self.prepare = prepare
        self.threads: int | None = None
        self.folder: Path | None = None
        self.trusted = trusted()  # goes along to processes that the user did not start
        self.announce: Announce | None = None

    def __call__(self, cfg: DictConfig) -> Outcome:
        """Run one job."""
        trust(self.trusted)
        if self.folder is not None:
            os.chdir(self.folder)
        if self.threads is not None:
            import torch

            torch.set_num_threads(self.threads)
        prepare_hydra()
        with named_warnings():
            return self._skip_or_run(cfg)

    def _skip_or_run(self, cfg: DictConfig) -> Outcome:
        if is_stack(cfg):
            return self._run(cfg, None, {})  # many runs in one job: it handles its own records
        try:
            config, run_dir = self.locate(cfg)
            outcome, done = self._earlier(config, run_dir)
        except Exception as error:
            return Outcome.from_error(error)
        if outcome is not None:
            return outcome
        if self.announce is not None:
            self.announce(run_dir, config)
        return self._run(cfg, run_dir, config, earlier=done)

    def peek(self, cfg: DictConfig) -> Outcome | None:
        """What earlier calls left of a job; None: there is something to run."""
        if is_stack(cfg):
            return None
        config, run_dir = self.locate(cfg)
        outcome, done = self._earlier(config, run_dir)
        if done and (has_figures(run_dir) or not config["figures"]):
            return self._run(cfg, run_dir, config, earlier=True)  # only compares its data
        return outcome

    def _earlier(self, config: dict[str, Any], run_dir: Path) -> tuple[Outcome | None, bool]:
        """What became of a job that is not to be run, and whether it is done in its folder."""
        rerun = config["force"] or config["resume"] == "never"
        record = record_of(run_dir) or {}
        status = record.get("status")
        archived = None if record else published(config)
        outcome = None
        if archived is not None and not rerun:
            score, where = archived.scores[config["protocol"]["name"]], str(archived.path)
            outcome = Outcome("done", True, run_dir=where, score=score, metric=archived.metric)
        elif status == "failed" and not rerun and not config["sweep"]["retry_failed"]:
            outcome = Outcome("failed", True, run_dir=str(run_dir), error=record["error"])
        elif status == "pruned" and not rerun and config["callbacks"].get("trial"):
            outcome = Outcome("pruned", True, run_dir=str(run_dir))
        return outcome, status == "done" and not config["force"]

    def locate(self, cfg: DictConfig) -> tuple[dict[str, Any], Path]:
        """The config of a job as its record will have it, and its run folder."""
        from focusing.training.trainer import resolve_source

        self.prepare(cfg)
        config = check(cfg)
        resolve_source(config, strict=True)
        return config, run_folder(config)

    def _run(
        self, cfg: DictConfig, run_dir: Path | None, config: dict[str, Any], earlier: bool = False
    ) -> Outcome:
        where = None if run_dir is None else str(run_dir)
        try:
            score = self.task(cfg)
        except BusyError as error:
            return Outcome("busy", run_dir=where, error=str(error))
        except PrunedError:
            return Outcome("pruned", run_dir=where)
        except SystemExit as leave:
            if leave.code in SIGNAL_EXIT_CODES:
                raise
            text = f"The job left with exit code {leave.code}."
            record_failure(run_dir, config, text)
            return Outcome("failed", run_dir=where, error=text)
        except Exception as error:
            if not isinstance(error, UserError):
                record_failure(run_dir, config, repr(error), traceback.format_exc())
            runs = error.runs if isinstance(error, RunsFailedError) else ()
            return Outcome("failed", run_dir=where, error=describe_error(error), runs=runs)
        metric = None
        if run_dir is not None:
            with suppress(UserError):
                metric = (read_record(run_dir) or {}).get("metric")
        return Outcome("done", earlier=earlier, run_dir=where, score=score, metric=metric)


@contextmanager
def named_warnings() -> Iterator[None]:
    """Put the options of the job before each of its warnings: several jobs share a terminal."""
    task = HydraConfig.get().overrides.task if HydraConfig.initialized() else ()
    name = " ".join(word for word in task if not word.startswith("+callbacks.trial="))

    def add_name(record: logging.LogRecord) -> bool:
        if not hasattr(record, "job"):  # it goes through several handlers
            record.job, record.msg, record.args = name, f"{name}: {record.getMessage()}", ()
        return True

    handlers = list(logging.getLogger().handlers) if name else []
    for handler in handlers:
        handler.addFilter(add_name)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(add_name)


def execute(context: HydraContext, compose: Composer, task: SweepTask, job: Job) -> Outcome:
    """Compose a job and run it in this process; a value that cannot be composed fails this job."""
    setup_globals()
    try:
        returned = run_job(
            hydra_context=context,
            task_function=task,
            config=compose(job),
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )
    except Exception as error:
        return Outcome.from_error(error)
    return Outcome.from_return(returned)


def launch_until_finished(jobs: Sequence[Job], launch: Launch) -> list[Result]:
    """Launch jobs until each has finished or failed, here or in another process."""
    results: dict[int, Result] = {}
    ready = waiting = list(jobs)
    while waiting:
        outcomes = launch(ready)
        results.update((job.index, (job, out)) for job, out in zip(ready, outcomes, strict=True))
        waiting = [job for job in waiting if results[job.index][1].status == "busy"]
        if waiting:
            count = len(waiting)
            print(f"Waiting for {count} jobs that another process runs.", file=sys.stderr)
            ready = _wait_for_release([results[job.index] for job in waiting])
    return [results[job.index] for job in jobs]


def _wait_for_release(busy: Sequence[Result]) -> list[Job]:
    """Wait until at least one run is no longer locked."""
    while True:
        free = [job for job, out in busy if out.run_dir and not _is_locked(Path(out.run_dir))]
        if free:
            return free
        time.sleep(POLL_SECONDS)


def _is_locked(run_dir: Path) -> bool:
    try:
        with lock_of(run_dir):
            return False
    except Timeout:
        return True


def check_sweep(config: DictConfig) -> None:
    """Refuse several devices in a sweep: Hydra would hang."""
    devices = config.trainer.devices
    check_devices(OmegaConf.to_container(devices) if OmegaConf.is_config(devices) else devices)
