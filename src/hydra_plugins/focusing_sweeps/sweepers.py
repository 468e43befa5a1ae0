"""``hydra/sweeper=grid`` and ``optuna``, where Hydra looks for them; the work is in focusing.sweep.

``hydra/launcher`` chooses where jobs run. Its options go to one of our own classes: Hydra's
launchers compose all jobs by themselves, so that a wrong value in one would stop the others.

Hydra imports this module for every command, ``--help`` too: it imports what it needs late. An error
here other than an ImportError would stop every Hydra app in the environment.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

if TYPE_CHECKING:
    from focusing.sweep.jobs import Job, Outcome
    from focusing.sweep.search import Search
    from focusing.sweep.task import HydraSweep

LAUNCHERS = {
    "basic": "focusing.sweep.local:SerialSweep",
    "local": "focusing.sweep.local:LocalSweep",
    "slurm": "focusing.sweep.slurm:Slurm",
    "ray": "focusing.sweep.ray_cluster:Ray",
}
"""Choices of ``hydra/launcher``; basic is Hydra's default, one job after the other."""


class GridSweeper(Sweeper):
    """Runs every combination of the swept options once; skips what is done.

    Args:
        params: the sweep of an experiment: option -> values; the command line wins.
        parts: several sweeps by name, which share the params; see :mod:`focusing.sweep.expansion`.
    """

    hydra_context: HydraContext
    config: DictConfig
    runner: "HydraSweep"

    def __init__(self, params: DictConfig | None = None, parts: DictConfig | None = None) -> None:
        self.params, self.parts = params, parts

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Make what runs the jobs."""
        from focusing.errors import UserError
        from focusing.experiments.table1_trials import sweep_task
        from focusing.instantiate import check_arguments
        from focusing.sweep.task import check_sweep

        check_sweep(config)
        choice = config.hydra.runtime.choices["hydra/launcher"]
        if choice not in LAUNCHERS:
            raise UserError(f"hydra/launcher={choice} is not one of {', '.join(LAUNCHERS)}.")
        module, _, name = LAUNCHERS[choice].partition(":")
        options: Any = OmegaConf.to_container(config.hydra.launcher, resolve=True)
        options.pop("_target_", None)  # of Hydra's own choices
        self.hydra_context, self.config = hydra_context, config
        make_sweep = getattr(import_module(module), name)
        check_arguments(make_sweep, options, "hydra.launcher.")
        self.runner = make_sweep(hydra_context, config, sweep_task(task_function), **options)

    def sweep(self, arguments: list[str]) -> Any:
        """Run all jobs of a command line; returns their outcomes."""
        from focusing.sweep.expansion import expand_parts, is_stack, validate
        from focusing.sweep.jobs import raise_failures
        from focusing.sweep.local import LocalSweep
        from focusing.sweep.status import SweepStatus, print_settings

        stack = is_stack(self.config, arguments)
        params = None if stack else self.params
        jobs = expand_parts(self.hydra_context, params, self.parts, arguments)
        validate(self.hydra_context, self.config, jobs)
        if stack and not isinstance(self.runner, LocalSweep):
            results = [(job, self._run_stack(job)) for job in jobs]
        else:
            status = SweepStatus([job.overrides for job in jobs])
            results = self.runner.run_until_finished(iter(jobs), status)
        print_settings(results, self.config, arguments)
        raise_failures(results)
        return [outcome for _, outcome in results]

    def _run_stack(self, job: "Job") -> "Outcome":
        """Run a stack of trials in this process; its groups train on the cluster, if there is one.

        It shows a status of its own.
        """
        from focusing.experiments.table1 import run_stacked
        from focusing.experiments.table1_trials import sweep_task
        from focusing.sweep.clusters import ClusterSweep
        from focusing.sweep.local import SerialSweep

        cluster = self.runner if isinstance(self.runner, ClusterSweep) else None
        task = sweep_task(partial(run_stacked, cluster=cluster))
        return SerialSweep(self.hydra_context, self.config, task).execute(job)


class OptunaSweeper(GridSweeper):
    """Runs the trials of an Optuna study; conf/hydra/sweeper/optuna.yaml explains the options."""

    def __init__(self, params: DictConfig | None, parts: DictConfig | None, **options: Any) -> None:
        super().__init__(params, parts)
        self.options = options

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Set up the launcher."""
        from focusing.errors import UserError
        from focusing.results.store import require_optuna

        require_optuna()
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)
        if self.parts:
            raise UserError("A search has one space, not parts: use hydra.sweeper.parts=null.")

    def sweep(self, arguments: list[str]) -> Any:
        """Run the remaining trials of a command line; returns their outcomes."""
        from filelock import FileLock, Timeout

        from focusing.errors import UserError
        from focusing.sweep.clusters import ClusterSweep
        from focusing.sweep.jobs import raise_failures
        from focusing.sweep.status import SweepStatus

        search = self._search(arguments)
        left = search.total - search.finished
        status = SweepStatus(total=left, options=search.space, best=True)
        if isinstance(self.runner, ClusterSweep):
            self.runner.at_once = search.options.parallel or 0
        try:
            with FileLock(search.path.with_suffix(".running"), timeout=0):
                if search.finished:
                    print(f"{search.finished} of {search.total} trials are finished already.")
                results = self.runner.run_until_finished(search.jobs(), status, search.tell)
        except Timeout:
            raise UserError("Another process runs this search.") from None
        print(search.describe_best())
        all_results = [*search.failures, *results]
        raise_failures(all_results, total=search.total, options=search.space, retryable=True)
        return [outcome for _, outcome in results]

    def _search(self, arguments: list[str]) -> "Search":
        from focusing.sweep import search
        from focusing.sweep.expansion import parse, validate

        config = self.config
        options = search.Options(**self.options)
        overrides = parse(self.hydra_context, self.params, arguments)
        space, fixed = search.search_space(overrides, options.sampler)
        examples = search.example_jobs(search.example_values(space), fixed)
        validate(self.hydra_context, config, examples)
        data_sets = getattr(space.get("data"), "choices", ()) or (config.data.name,)
        for name in data_sets:  # before a trial is run
            search.check_metric(options, "mae" if name in search.REGRESSION else "accuracy")
        plain: Any = OmegaConf.to_container(config, resolve=False)
        del plain["hydra"]
        plain["name"] = str(config.name)
        plain["paths"]["output_dir"] = str(config.paths.output_dir)
        path = search.study_path(plain, space, options)
        retry = bool(config.sweep.retry_failed)
        return search.Search(path, space, fixed, options, retry_failed=retry)


@dataclass
class RayOptions:
    """A Ray cluster; needs the extra ``ray`` and a file system that all machines share.

    Attributes:
        address: ``local`` starts a cluster on this machine; ``auto`` or ``host:port``: one that
            exists.
        cpus: of a job.
        gpus: of a job; 0.5: two jobs share one.
        runs_per_job: of a job; they share its processors and GPUs.
        per_gpu: runs of a job that share a GPU.
        init: more options of ``ray.init``.
        remote: more options of ``ray.remote``. A job whose machine dies continues elsewhere, as
            often as ``max_retries`` says.
    """

    address: str = "local"
    cpus: int = 1
    gpus: float = 0
    runs_per_job: int = 1
    per_gpu: int = 1
    init: Any = None  # not a dictionary: it could have no keys but its own
    remote: Any = None


# Not a file in conf/: Hydra would hold it against the options of the published launcher, which has
# the same name. That one first, so that it cannot replace ours.
with suppress(ImportError):
    import_module("hydra_plugins.hydra_ray_launcher._config")
ConfigStore.instance().store(
    group="hydra/launcher", name="ray", node=RayOptions, provider="focusing"
)
