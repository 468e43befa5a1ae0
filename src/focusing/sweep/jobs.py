"""One job of a sweep: look whether it is done, run it, and say what became of it.

This happens where the job runs, on whatever machine, because composing a config takes a tenth of a
second and looking at a record is a matter of its hash.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from focusing.compose import check, prepare_hydra
from focusing.errors import BusyError, PrunedError, UserError
from focusing.instantiate import trust, trusted
from focusing.results.collect import published
from focusing.results.identity import run_folder
from focusing.results.store import read_record, record_of
from focusing.sweep.failures import leave_failure
from focusing.sweep.launch.preemption import Requeued, preemptible
from focusing.sweep.outcome import Outcome, RunsFailedError, failure, sentence
from focusing.sweep.table1.trials import apply_trial

SIGNALLED = (130, 143)
"""Exit codes of a process that was told to stop."""


class Reporting:
    """A task function that always returns an :class:`Outcome`, whatever its job does.

    Args:
        task: what Hydra would call.
        threads: of a job; None: as torch likes.
        folder: the working directory of the sweep, for jobs on machines that begin elsewhere.

    Attributes:
        announce: is called with the run folder and the config before the job begins.
    """

    def __init__(
        self,
        task: Callable[[DictConfig], Any],
        threads: int | None = None,
        folder: Path | None = None,
    ) -> None:
        self.task, self.threads, self.folder = task, threads, folder
        self.trusted = trusted()  # it goes along to processes that the user did not start
        self.announce: Callable[[Path, dict[str, Any]], None] | None = None

    @classmethod
    def of(
        cls,
        task: Callable[[DictConfig], Any],
        threads: int | None = None,
        folder: Path | None = None,
    ) -> Reporting:
        """A task function that reports, which ours already does; another sweeper's does not."""
        return cls(task.task if isinstance(task, Reporting) else task, threads, folder)

    def __call__(self, cfg: DictConfig) -> Outcome:
        """Run one job."""
        trust(self.trusted)
        if self.folder is not None:
            os.chdir(self.folder)
        if self.threads is not None:
            import torch

            torch.set_num_threads(self.threads)
        prepare_hydra()
        if cfg.sweep.stacked and cfg.sweep.trial is None:
            # Many runs in one job: it knows its records itself.
            return self._run(cfg, None, {})
        try:
            config, run_dir = locate(cfg)
            record = record_of(run_dir) or {}
            archived = None if record else published(config)
        except Exception as error:
            return failure(error)
        again = config["force"] or config["resume"] == "never"
        if archived is not None and not again:
            score = archived.scores[config["protocol"]["name"]]
            where = str(archived.path)
            return Outcome("done", True, run_dir=where, score=score, metric=archived.metric)
        status = record.get("status")
        if status == "failed" and not again and not config["sweep"]["retry_failed"]:
            return Outcome("failed", earlier=True, run_dir=str(run_dir), error=record["error"])
        if status == "pruned" and not again and config["callbacks"].get("trial"):
            return Outcome("pruned", earlier=True, run_dir=str(run_dir))
        if self.announce is not None:
            self.announce(run_dir, config)
        return self._run(cfg, run_dir, config, earlier=status == "done" and not config["force"])

    def _run(
        self, cfg: DictConfig, run_dir: Path | None, config: dict[str, Any], earlier: bool = False
    ) -> Outcome:
        where = None if run_dir is None else str(run_dir)
        try:
            with preemptible():
                score = self.task(cfg)
        except BusyError as error:
            return Outcome("busy", run_dir=where, error=str(error))
        except PrunedError:
            return Outcome("pruned", run_dir=where)
        except SystemExit as leave:
            if leave.code in SIGNALLED or isinstance(leave, Requeued):
                raise
            text = f"The job left with exit code {leave.code}."
            leave_failure(run_dir, config, text)
            return Outcome("failed", run_dir=where, error=text)
        except Exception as error:
            if not isinstance(error, UserError):
                leave_failure(run_dir, config, repr(error), traceback.format_exc())
            runs = error.runs if isinstance(error, RunsFailedError) else ()
            return Outcome("failed", run_dir=where, error=sentence(error), runs=runs)
        metric = None
        if run_dir is not None:
            with suppress(UserError):
                metric = (read_record(run_dir) or {}).get("metric")
        return Outcome("done", earlier=earlier, run_dir=where, score=score, metric=metric)


def locate(cfg: DictConfig) -> tuple[dict[str, Any], Path]:
    """The config of a job as its record will have it, and its run folder."""
    from focusing.training.trainer import resolve_source

    apply_trial(cfg)
    config = check(cfg)
    resolve_source(config, strict=True)
    return config, run_folder(config)
