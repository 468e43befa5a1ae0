"""Sweeps, and what they do with a job: skip it if it is finished, or else run it.

The config of a job is composed on the machine that runs it, and the hash of that config names the
run folder.
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
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from focusing.compose import check_config, check_devices, prepare_hydra
from focusing.errors import BusyError, PrunedError, UserError
from focusing.results.collect import find_published
from focusing.results.identity import run_folder
from focusing.results.store import finished_record, has_figures, load_record, read_record, run_lock
from focusing.sweep.expansion import Composer, is_stack
from focusing.sweep.jobs import (
    Job,
    OnDone,
    Outcome,
    Result,
    RunsFailedError,
    describe_error,
    record_failure,
)
from focusing.sweep.status import SweepStatus

SIGNAL_EXIT_CODES = (130, 143)
"""Exit codes of a process that Ctrl-C or SIGTERM stopped."""
POLL_SECONDS = 1.0
"""How often to check whether another process has released a run."""


class SweepTask:
    """A task function for Hydra that returns an :class:`Outcome`, also if the job fails.

    Args:
        task: runs a job.
        prepare: completes the config of a job, for example with a random trial.

    Attributes:
        on_start: called before a job runs, unless it is skipped.
    """

    def __init__(self, task: TaskFunction, prepare: Callable[[DictConfig], None]) -> None:
        self.task, self.prepare = task, prepare
        self.on_start: Callable[[], None] = lambda: None

    def __call__(self, cfg: DictConfig) -> Outcome:
        """Skip or run one job."""
        prepare_hydra()
        with prefixed_warnings():
            if is_stack(cfg):
                return self._run(cfg)  # many runs, whose records it handles itself
            try:
                config, run_dir = self.locate(cfg)
                outcome = self._skip(config, run_dir)
            except Exception as error:
                return Outcome.from_error(error)
            if outcome is not None:
                return outcome
            self.on_start()
            return self._run(cfg, run_dir, config)

    def peek(self, cfg: DictConfig) -> Outcome | None:
        """Return the outcome of a job that earlier sweeps have finished; None: it has to run."""
        if is_stack(cfg):
            return None
        config, run_dir = self.locate(cfg)
        if not config["force"] and finished_record(run_dir):
            if config["figures"] and not has_figures(run_dir):
                return None
            return self._run(cfg, run_dir, config)  # only checks that its data is the same
        return self._skip(config, run_dir)

    def _skip(self, config: dict[str, Any], run_dir: Path) -> Outcome | None:
        """Return the outcome of a job that need not run; None: run it.

        A run that finished here is run, too: that only checks that its data is the same.
        """
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
        """Return the config of a job, as it will be recorded, and its run folder."""
        from focusing.training.optimizer import check_optimizers  # torch takes a second
        from focusing.training.trainer import resolve_source

        self.prepare(cfg)
        config = check_config(cfg)
        check_optimizers(config["optim"])
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
            text = f"The job exited with code {leave.code}."
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
def prefixed_warnings() -> Iterator[None]:
    """Begin each warning with the options of its job, because several jobs share a terminal."""
    task = HydraConfig.get().overrides.task if HydraConfig.initialized() else ()
    name = " ".join(word for word in task if not word.startswith("+callbacks.trial="))

    def add_name(record: logging.LogRecord) -> bool:
        if not hasattr(record, "job"):  # another handler may have added it
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


class JobRunner:
    """Runs single jobs, whose configs Hydra composes.

    Args:
        context: Hydra's context.
        config: the config of the sweep.
        task: runs a job.
    """

    def __init__(self, context: HydraContext, config: DictConfig, task: SweepTask) -> None:
        self.context, self.config, self.task = context, config, task
        self._compose = Composer(context, config)

    def execute(self, job: Job) -> Outcome:
        """Run a job in this process; if its config cannot be composed, only this job fails."""
        try:
            value = run_job(
                hydra_context=self.context,
                task_function=self.task,
                config=self._compose(job),
                job_dir_key="hydra.sweep.dir",
                job_subdir_key="hydra.sweep.subdir",
            )._return_value
        except Exception as error:
            value = error
        return value if isinstance(value, Outcome) else Outcome.from_error(value)

    def compose(self, job: Job) -> DictConfig:
        """Compose the config of a job as its task gets it."""
        cfg = self._compose(job)
        HydraConfig.instance().set_config(cfg)
        OmegaConf.set_struct(cfg, False)
        del cfg["hydra"]
        return cfg

    def record_failure(self, job: Job, error: str, *, write: bool = True) -> str | None:
        """Record the failure of a job whose process died; returns its run folder."""
        with suppress(Exception):  # its config may be invalid
            cfg = self.compose(job)
            if not is_stack(cfg):  # a stack records its runs itself
                config, run_dir = self.task.locate(cfg)
                if write:
                    record_failure(run_dir, config, error)
                return str(run_dir)
        return None


class Sweep(ABC):
    """Runs jobs: in this process, in others, or on other machines."""

    @abstractmethod
    def run(self, jobs: Iterator[Job], status: SweepStatus, on_done: OnDone) -> None:
        """Run all jobs.

        Args:
            jobs: the next one is taken when there is room for it.
            status: updated and refreshed while jobs run.
            on_done: called with every job that has ended.
        """

    def run_until_finished(
        self, jobs: Iterator[Job], status: SweepStatus, on_done: OnDone = lambda job, outcome: None
    ) -> list[Result]:
        """Run jobs until each has finished or failed, here or in another process.

        Args:
            jobs: as in :meth:`run`.
            status: shows their counts.
            on_done: called with every outcome; a ``busy`` job has another one later.
        """
        results: dict[int, Result] = {}

        def add(job: Job, outcome: Outcome) -> None:
            results[job.index] = (job, outcome)
            status.add(job, outcome)
            on_done(job, outcome)

        with status:
            self.run(jobs, status, add)
            while busy := [result for result in results.values() if result[1].status == "busy"]:
                status.print(f"Waiting for {len(busy)} jobs that another process runs.")
                self.run(iter(_wait_for_release(busy, status)), status, add)
        return [results[index] for index in sorted(results)]


def _wait_for_release(busy: Sequence[Result], status: SweepStatus) -> list[Job]:
    """Wait until at least one run is no longer locked, and return the jobs that are free."""
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
    """Refuse several devices, with which a sweep would hang."""
    devices = config.trainer.devices
    check_devices(OmegaConf.to_container(devices) if OmegaConf.is_config(devices) else devices)
