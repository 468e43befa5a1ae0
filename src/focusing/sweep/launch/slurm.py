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
from focusing.sweep.launch.slots import THREAD_COUNTS
from focusing.sweep.outcome import Job

LOOK_EVERY = {"slurm": 5.0, "local": 0.2}
"""Seconds between two looks at the jobs."""
COMMON = ("timeout_min", "cpus_per_task", "gpus_per_node", "mem_gb")
"""Options that all of submitit's executors have; others are SLURM's."""


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
        try:
            import submitit

            launchers: Any = import_module(
                "hydra_plugins.hydra_submitit_launcher.submitit_launcher"
            )
        except ImportError:
            raise UserError("hydra/launcher=slurm needs: pip install 'focusing[slurm]'") from None
        self._cluster = cluster
        # Jobs inherit the environment of this process.
        os.environ.update(dict.fromkeys(THREAD_COUNTS, str(options["cpus_per_task"])))
        self._job = launchers.LocalLauncher()
        self._job.setup(hydra_context=context, task_function=task, config=config)
        folder = Path(str(config.hydra.sweep.dir)).absolute() / ".submitit" / "%j"
        options = {name: value for name, value in options.items() if value is not None}
        timeouts = options.pop("max_num_timeout")
        try:
            self._executor = submitit.AutoExecutor(
                folder=folder, cluster=cluster, slurm_max_num_timeout=timeouts
            )
        except RuntimeError as error:  # there is no sbatch
            raise UserError(f"hydra/launcher=slurm: {error}") from None
        self._executor.update_parameters(
            name="focusing",
            **{key if key in COMMON else f"slurm_{key}": value for key, value in options.items()},
        )

    def submit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        """Hand jobs over, as an array."""
        columns = zip(
            *(
                (list(job.overrides), "hydra.sweep.dir", job.index, "", Singleton.get_state())
                for job in jobs
            ),
            strict=True,
        )
        return self._executor.map_array(self._job, *columns)

    def finished(self, tickets: Sequence[Any]) -> Sequence[Any]:
        """Those whose jobs are over."""
        found = [each for each in tickets if each.done()]
        if not found:
            time.sleep(LOOK_EVERY[self._cluster])
        return found

    def result(self, ticket: Any) -> Any:
        """What the job returned."""
        return ticket.results()[0]

    def cancel(self, tickets: Sequence[Any]) -> None:
        """Jobs stay in the queue; the same command waits for those that run by then."""
        names = sorted({str(each.job_id).partition("_")[0] for each in tickets})
        if names:
            print(f"The jobs stay in the queue of {self._cluster}: {', '.join(names)}.")
