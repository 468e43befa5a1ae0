"""A sweep, and one job of it: skipped if it is done, else run; and what became of it.

A job is composed where it runs, on whatever machine: that a config takes a tenth of a second,
and the folder of a run follows from the hash of its config.
"""

from __future__ import annotations

import logging
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from filelock import Timeout
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import run_job
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf

from focusing.compose import check_config, check_devices, prepare_hydra
from focusing.errors import BusyError, PrunedError, UserError
from focusing.results.collect import find_published
from focusing.results.identity import run_folder
from focusing.results.store import finished_record, has_figures, load_record, read_record, run_lock
from focusing.sweep.expansion import Composer, is_stack
from focusing.sweep.jobs import (
    Done,
    Job,
    Outcome,
    Result,
    RunsFailedError,
    describe_error,
    record_failure,
)
from focusing.sweep.status import SweepStatus

TaskFunction = Callable[[DictConfig], Any]
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
        announce: called before a job begins that is not skipped.
    """

    def __init__(self, task: TaskFunction, prepare: Callable[[DictConfig], None]) -> None:
        self.task, self.prepare = task, prepare
        self.announce: Callable[[], None] = lambda: None

    def __call__(self, cfg: DictConfig) -> Outcome:
        """Run one job."""
        prepare_hydra()
        with named_warnings():
            return self._skip_or_run(cfg)

    def _skip_or_run(self, cfg: DictConfig) -> Outcome:
        if is_stack(cfg):
            return self._run(cfg)  # many runs in one job: it handles its own records
        try:
            config, run_dir = self.locate(cfg)
            outcome = self._skip(config, run_dir)
        except Exception as error:
            return Outcome.from_error(error)
        if outcome is not None:
            return outcome
        self.announce()
        return self._run(cfg, run_dir, config)

    def peek(self, cfg: DictConfig) -> Outcome | None:
        """What earlier calls left of a job; None: there is something to run."""
        if is_stack(cfg):
            return None
        config, run_dir = self.locate(cfg)
        if not config["force"] and finished_record(run_dir):
            if config["figures"] and not has_figures(run_dir):
                return None
            return self._run(cfg, run_dir, config)  # only compares its data
        return self._skip(config, run_dir)

    def _skip(self, config: dict[str, Any], run_dir: Path) -> Outcome | None:
        """What became of a job that is not to be run; None: run it, if only to compare its data."""
        if config["force"] or config["resume"] == "never":
            return None
        record = load_record(run_dir)
        archived = None if record else find_published(config)
        if archived is not None:
            score, where = archived.scores[config["protocol"]["name"]], str(archived.path)
            return Outcome("done", True, run_dir=where, score=score, metric=archived.metric)
        status = record["status"] if record else None
        if record and status == "failed" and not config["sweep"]["retry_failed"]:
            return Outcome("failed", True, run_dir=str(run_dir), error=record["error"])
        if status == "pruned" and config["callbacks"].get("trial"):
            return Outcome("pruned", True, run_dir=str(run_dir))
        return None

    def locate(self, cfg: DictConfig) -> tuple[dict[str, Any], Path]:
        """The config of a job as its record will have it, and its run folder."""
        from focusing.training.trainer import resolve_source

        self.prepare(cfg)
        config = check_config(cfg)
        resolve_source(config, strict=True)
        return config, run_folder(config)

    def _run(
        self,
        cfg: DictConfig,
        run_dir: Path | None = None,
        config: Mapping[str, Any] = MappingProxyType({}),
    ) -> Outcome:
        where = None if run_dir is None else str(run_dir)
        try:
            earlier = run_dir is not None and not config["force"] and bool(finished_record(run_dir))
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


class Sweep(ABC):
    """Runs jobs: in this process, in others, or on other machines."""

    @abstractmethod
    def run(self, jobs: Iterator[Job], status: SweepStatus, done: Done) -> None:
        """Run all jobs.

        Args:
            jobs: asked for the next one when there is room for it.
            status: told how many run, and to show itself now and then.
            done: called with every job that is over, and its outcome.
        """

    def run_until_finished(
        self, jobs: Iterator[Job], status: SweepStatus, done: Done = lambda job, outcome: None
    ) -> list[Result]:
        """Run jobs until each has finished or failed, here or in another process.

        Args:
            jobs: as in :meth:`run`.
            status: shows their counts.
            done: called with every outcome; ``busy`` is not the last one of a job.
        """
        results: dict[int, Result] = {}

        def note(job: Job, outcome: Outcome) -> None:
            results[job.index] = (job, outcome)
            status.add(job, outcome)
            done(job, outcome)

        with status:
            self.run(jobs, status, note)
            while busy := [result for result in results.values() if result[1].status == "busy"]:
                status.print(f"Waiting for {len(busy)} jobs that another process runs.")
                self.run(iter(_wait_for_release(busy, status)), status, note)
        return [results[index] for index in sorted(results)]


class HydraSweep(Sweep):
    """Runs jobs whose configs Hydra composes.

    Args:
        context: Hydra's.
        config: of the sweep.
        task: what a job does.
    """

    def __init__(self, context: HydraContext, config: DictConfig, task: SweepTask) -> None:
        self._context, self._config, self._task = context, config, task
        self._compose = Composer(context, config)

    def execute(self, job: Job) -> Outcome:
        """Run a job in this process; a value that cannot be composed fails this job alone."""
        try:
            value = run_job(
                hydra_context=self._context,
                task_function=self._task,
                config=self._compose(job),
                job_dir_key="hydra.sweep.dir",
                job_subdir_key="hydra.sweep.subdir",
            )._return_value
        except Exception as error:
            value = error
        return value if isinstance(value, Outcome) else Outcome.from_error(value)

    def compose(self, job: Job) -> DictConfig:
        """The config of a job as its task gets it."""
        cfg = self._compose(job)
        HydraConfig.instance().set_config(cfg)
        OmegaConf.set_struct(cfg, False)
        del cfg["hydra"]
        return cfg

    def record_failure(self, job: Job, error: str, *, write: bool = True) -> str | None:
        """Record the failure of a job whose process is gone; returns its run folder."""
        with suppress(Exception):  # its config may be the problem
            cfg = self.compose(job)
            if not is_stack(cfg):  # whose runs have records of their own
                config, run_dir = self._task.locate(cfg)
                if write:
                    record_failure(run_dir, config, error)
                return str(run_dir)
        return None


def _wait_for_release(busy: Sequence[Result], status: SweepStatus) -> list[Job]:
    """Wait until at least one run is no longer locked."""
    while True:
        free = [job for job, out in busy if out.run_dir and not _is_locked(Path(out.run_dir))]
        if free:
            return free
        status.refresh()
        time.sleep(POLL_SECONDS)


def _is_locked(run_dir: Path) -> bool:
    try:
        with run_lock(run_dir):
            return False
    except Timeout:
        return True


def check_sweep(config: DictConfig) -> None:
    """Refuse several devices in a sweep: Hydra would hang."""
    devices = config.trainer.devices
    check_devices(OmegaConf.to_container(devices) if OmegaConf.is_config(devices) else devices)
