"""``hydra/sweeper=grid``: all combinations; skips what is done, reports failures at the end."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

if TYPE_CHECKING:
    from focusing.sweep.clusters import ClusterSweep
    from focusing.sweep.jobs import Job, Outcome


class GridSweeper(Sweeper):
    """Runs every combination of the swept options once, with any launcher.

    Args:
        params: the sweep of an experiment: option -> values; the command line wins.
        parts: several sweeps by name, which share the params; see :mod:`focusing.sweep.expansion`.
    """

    hydra_context: HydraContext
    config: DictConfig
    launcher: Launcher

    def __init__(self, params: DictConfig | None = None, parts: DictConfig | None = None) -> None:
        self.params, self.parts = params, parts

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Set up the launcher."""
        from hydra.core.plugins import Plugins

        from focusing.experiments.table1_trials import sweep_task
        from hydra_plugins.focusing_sweeps.launchers import SerialLauncher

        self.hydra_context, self.config = hydra_context, config
        task = sweep_task(task_function)
        if config.hydra.launcher._target_.endswith(".BasicLauncher"):
            self.launcher = SerialLauncher()
            self.launcher.setup(hydra_context=hydra_context, task_function=task, config=config)
        else:
            self.launcher = Plugins.instance().instantiate_launcher(
                hydra_context=hydra_context, task_function=task, config=config
            )

    def sweep(self, arguments: list[str]) -> Any:
        """Run all jobs of a command line; returns their outcomes."""
        from focusing.sweep.clusters import ClusterSweep
        from focusing.sweep.expansion import expand_parts, is_stack, validate
        from focusing.sweep.jobs import raise_failures
        from focusing.sweep.status import print_settings
        from focusing.sweep.task import check_sweep, launch_until_finished

        check_sweep(self.config)
        stack = is_stack(self.config, arguments)
        params = None if stack else self.params
        jobs = expand_parts(self.hydra_context, params, self.parts, arguments)
        validate(self.hydra_context, self.config, jobs)
        cluster = getattr(self.launcher, "sweep", None)
        if stack and isinstance(cluster, ClusterSweep):
            results = [(job, self._spread(job, cluster)) for job in jobs]
        else:
            results = launch_until_finished(jobs, self.launch)
        print_settings(results, self.config, arguments)
        raise_failures(results)
        return [outcome for _, outcome in results]

    def _spread(self, job: "Job", cluster: "ClusterSweep") -> "Outcome":
        """Run a stack of trials in this process, which trains its groups on the cluster."""
        from focusing.experiments.table1 import run_stacked
        from focusing.experiments.table1_trials import sweep_task
        from focusing.sweep.expansion import Composer
        from focusing.sweep.task import execute

        task = sweep_task(partial(run_stacked, cluster=cluster))
        return execute(self.hydra_context, Composer(self.hydra_context, self.config), task, job)

    def launch(self, jobs: "Sequence[Job]") -> "list[Outcome]":
        """Run jobs with the launcher and wait for them."""
        from focusing.sweep.jobs import Outcome

        returned = self.launcher.launch([job.overrides for job in jobs], initial_job_idx=0)
        return [Outcome.from_return(value) for value in returned]
