"""``hydra/sweeper=grid``: all combinations, what is done skipped, what failed told at the end."""

from collections.abc import Sequence
from typing import Any

from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class GridSweeper(Sweeper):
    """Runs every combination of the swept options once, with any launcher.

    Args:
        params: the sweep of an experiment: option -> values; the command line wins.
        parts: several sweeps by name, each with the params; see :mod:`focusing.sweep.parts`.
    """

    def __init__(self, params: DictConfig | None = None, parts: DictConfig | None = None) -> None:
        self.params, self.parts = params, parts
        self.hydra_context: HydraContext | None = None
        self.config: DictConfig | None = None
        self.launcher: Launcher | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Find the launcher."""
        from hydra.core.plugins import Plugins

        from focusing.sweep.jobs import Reporting
        from hydra_plugins.focusing_sweeps.local_launcher import SerialLauncher

        self.hydra_context, self.config = hydra_context, config
        task = Reporting(task_function)
        if config.hydra.launcher._target_.endswith(".BasicLauncher"):
            self.launcher = SerialLauncher()
            self.launcher.setup(hydra_context=hydra_context, task_function=task, config=config)
        else:
            self.launcher = Plugins.instance().instantiate_launcher(
                hydra_context=hydra_context, task_function=task, config=config
            )

    def sweep(self, arguments: list[str]) -> Any:
        """Run all jobs.

        Args:
            arguments: the command line.

        Returns:
            What became of each job.
        """
        from focusing.sweep.expansion import is_stack, validate
        from focusing.sweep.outcome import Job, Outcome, outcome_of
        from focusing.sweep.parts import expand_parts
        from focusing.sweep.settle import check_sweep, conclude, settle

        context, config, launcher = self.hydra_context, self.config, self.launcher
        assert context is not None  # noqa: S101 - setup was called
        assert config is not None  # noqa: S101
        assert launcher is not None  # noqa: S101
        check_sweep(config)
        params = None if is_stack(config, arguments) else self.params
        jobs = expand_parts(context, params, self.parts, arguments)
        validate(context, config, jobs)

        def launch(some: Sequence[Job]) -> list[Outcome]:
            returned = launcher.launch([each.overrides for each in some], initial_job_idx=0)
            return [outcome_of(each) for each in returned]

        results = settle(jobs, launch)
        conclude(results)
        return [outcome for _, outcome in results]
