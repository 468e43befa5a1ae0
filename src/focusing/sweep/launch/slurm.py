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
from focusing.sweep.jobs import Reporting
from focusing.sweep.launch.cluster import reason
from focusing.sweep.launch.slots import THREAD_COUNTS, processors
from focusing.sweep.outcome import Job, Outcome, failure, outcome_of

LOOK_EVERY = {"slurm": 5.0, "local": 0.2}
"""Seconds between two looks at the jobs."""
COMMON = ("timeout_min", "cpus_per_task", "gpus_per_node", "mem_gb")
"""Options that all of submitit's executors have; others are SLURM's."""


class Submitted:
    """The published launcher's job, in which an error becomes an outcome.

    Args:
        job: is called where the job runs.
    """

    def __init__(self, job: Any) -> None:
        self._job = job

    def __call__(self, *given: Any) -> Outcome:
        """Compose the job and run it."""
        try:
            return outcome_of(self._job(*given))
        except Exception as error:
            return failure(error)

    def checkpoint(self, *given: Any) -> Any:
        """What submitit queues again when time is up: the same."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, *given)


class Submitit:
    """Submits jobs with submitit's executors, as the published launcher does.

    The published launcher runs a job and requeues it; what it lacks is a look at each job by
    itself: it ends with the first one that died.

    Args:
        context: Hydra's.
        config: of the sweep.
        task: what a job does.
        cluster: ``"slurm"``, or ``"local"``: processes on this machine.
        options: of the executor.
    """

    batch = 1000  # arrays that clusters allow

    def __init__(
        self,
        context: HydraContext,
        config: DictConfig,
        task: Reporting,
        *,
        cluster: str,
        options: dict[str, Any],
    ) -> None:
        if cluster not in LOOK_EVERY:
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
        self._cluster = cluster
        # On this machine no more than fit; a queue may have all.
        self.jobs_at_once = max(1, processors() // threads) if cluster == "local" else 100_000
        # Jobs inherit the environment of this process.
        os.environ.update(dict.fromkeys(THREAD_COUNTS, str(threads)))
        job = launchers.LocalLauncher()
        job.setup(hydra_context=context, task_function=task, config=config)
        self._job = Submitted(job)
        folder = Path(str(config.hydra.sweep.dir)).absolute() / ".submitit" / "%j"
        options = {name: value for name, value in options.items() if value is not None}
        timeouts = options.pop("max_num_timeout")
        named = {key if key in COMMON else f"slurm_{key}": each for key, each in options.items()}
        try:
            self._executor = submitit.AutoExecutor(
                folder=folder, cluster=cluster, slurm_max_num_timeout=timeouts
            )
            self._executor.update_parameters(name="focusing", **named)
        except (RuntimeError, NameError, AssertionError, ValueError) as error:  # or no sbatch
            first = str(error).splitlines()[0]
            raise UserError(f"hydra/launcher=slurm: {first}") from None

    def submit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        """Hand jobs over, as an array."""
        columns = zip(
            *(
                (list(job.overrides), "hydra.sweep.dir", job.index, "", Singleton.get_state())
                for job in jobs
            ),
            strict=True,
        )
        try:
            return self._executor.map_array(self._job, *columns)
        except Exception as error:  # sbatch refuses what it is asked for
            raise UserError(f"hydra/launcher=slurm: {reason(error)}") from None

    def finished(self, tickets: Sequence[Any]) -> Sequence[Any]:
        """Those whose jobs are over."""
        found = [each for each in tickets if each.done()]
        if not found:
            time.sleep(LOOK_EVERY[self._cluster])
        return found

    def result(self, ticket: Any) -> Outcome:
        """What became of the job."""
        found: Outcome = ticket.results()[0]
        return found

    def log(self, ticket: Any) -> str | None:
        """Where submitit keeps it."""
        return str(ticket.paths.stderr)

    def cancel(self, tickets: Sequence[Any]) -> None:
        """Jobs stay in the queue; the same command waits for those that run by then."""
        names = sorted({str(each.job_id).partition("_")[0] for each in tickets})
        if names:
            print(f"The jobs stay in the queue of {self._cluster}: {', '.join(names)}.")
