"""Jobs on a SLURM cluster, by submitit: the work behind ``hydra/launcher=slurm``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from hydra.core.singleton import Singleton
from hydra.types import HydraContext
from omegaconf import DictConfig

from focusing.errors import UserError
from focusing.sweep.clusters import ClusterSweep, cause_of
from focusing.sweep.jobs import Job, Outcome
from focusing.sweep.local import cpu_count
from focusing.sweep.pool import THREAD_COUNTS
from focusing.sweep.task import SweepTask

POLL_SECONDS = {"slurm": 5.0, "local": 0.2}
COMMON_OPTIONS = ("timeout_min", "cpus_per_task", "gpus_per_node", "mem_gb")
"""Options of all submitit executors; the others are SLURM's."""


class SubmittedJob:
    """The published launcher's job, with errors turned into outcomes."""

    def __init__(self, job: Any) -> None:
        self._job = job

    def __call__(self, *arguments: Any) -> Outcome:
        """Compose the job and run it."""
        try:
            return Outcome.from_return(self._job(*arguments))
        except Exception as error:
            return Outcome.from_error(error)

    def checkpoint(self, *arguments: Any) -> Any:
        """What submitit queues again when time is up: the same job."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, *arguments)


class Slurm(ClusterSweep):
    """Submits jobs with submitit's executors, as the published launcher does.

    The published launcher gives up with the first job that died; this one watches each job.

    Args:
        context, config, task: as in :class:`ClusterSweep`.
        cluster: ``"slurm"``, or ``"local"``: processes on this machine.
        options: of the executor.
    """

    max_batch = 1000  # the size of an array that clusters allow

    def __init__(
        self,
        context: HydraContext,
        config: DictConfig,
        task: SweepTask,
        *,
        cluster: str,
        options: dict[str, Any],
    ) -> None:
        super().__init__(context, config, task)
        if cluster not in POLL_SECONDS:
            raise UserError(f"hydra.launcher.cluster={cluster} is neither slurm nor local.")
        threads = options["cpus_per_task"]
        if threads < 1:
            raise UserError(f"hydra.launcher.cpus_per_task={threads} must be at least 1.")
        try:
            import submitit

            launchers: Any = import_module(
                "hydra_plugins.hydra_submitit_launcher.submitit_launcher"
            )
        except ImportError:
            raise UserError("hydra/launcher=slurm needs: pip install 'focusing[slurm]'") from None
        self._cluster, self._threads = cluster, threads
        os.environ.update(dict.fromkeys(THREAD_COUNTS, str(threads)))  # jobs inherit it
        job = launchers.LocalLauncher()
        job.setup(hydra_context=context, task_function=task, config=config)
        self._job = SubmittedJob(job)
        folder = Path(str(config.hydra.sweep.dir)).absolute() / ".submitit" / "%j"
        options = {name: value for name, value in options.items() if value is not None}
        timeouts = options.pop("max_num_timeout")
        named = {k if k in COMMON_OPTIONS else f"slurm_{k}": value for k, value in options.items()}
        try:
            self._executor = submitit.AutoExecutor(
                folder=folder, cluster=cluster, slurm_max_num_timeout=timeouts
            )
            self._executor.update_parameters(name="focusing", **named)
        except (RuntimeError, NameError, AssertionError, ValueError) as error:  # or no sbatch
            first = str(error).splitlines()[0]
            raise UserError(f"hydra/launcher=slurm: {first}") from None

    def _capacity(self) -> int:
        # This machine gets no more jobs than fit; a queue may have all.
        return max(1, cpu_count() // self._threads) if self._cluster == "local" else 100_000

    def _submit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        arguments = [
            (list(job.overrides), "hydra.sweep.dir", job.index, "", Singleton.get_state())
            for job in jobs
        ]
        try:
            return self._executor.map_array(self._job, *zip(*arguments, strict=True))
        except Exception as error:  # sbatch refuses an option
            raise UserError(f"hydra/launcher=slurm: {cause_of(error)}") from None

    def _finished(self, handles: Sequence[Any]) -> Sequence[Any]:
        over = [handle for handle in handles if handle.done()]
        if not over:
            time.sleep(POLL_SECONDS[self._cluster])
        return over

    def _result(self, handle: Any) -> Outcome:
        outcome: Outcome = handle.results()[0]
        return outcome

    def _log(self, handle: Any) -> str | None:
        return str(handle.paths.stderr)

    def _cancel(self, handles: Sequence[Any]) -> None:
        # Jobs stay in the queue; the same command waits for those that run by then.
        names = sorted({str(handle.job_id).partition("_")[0] for handle in handles})
        if names:
            print(f"The jobs stay in the queue of {self._cluster}: {', '.join(names)}.")
