"""The sweepers ``hydra/sweeper=grid`` and ``optuna``; Hydra looks for plugins only here.

The work is in :mod:`focusing.sweep`. ``hydra/launcher`` chooses where jobs run, but its options go
to our own classes: Hydra's launchers compose all jobs at once, so that one wrong value would stop
the whole sweep.

Hydra imports this module for every command, even ``--help``, so imports are late. An error here
that is not an ImportError would stop every Hydra app in the environment.
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
    from focusing.sweep.task import Sweep

LAUNCHERS = {
    "basic": "focusing.sweep.local:SerialSweep",
    "local": "focusing.sweep.local:LocalSweep",
    "slurm": "focusing.sweep.slurm:Slurm",
    "ray": "focusing.sweep.ray_cluster:Ray",
}
"""Choices of ``hydra/launcher``; ``basic`` is Hydra's default."""


class GridSweeper(Sweeper):
    """Runs every combination of the swept options, and skips finished runs.

    Args:
        params: the sweep of an experiment, option -> values. The command line takes precedence.
        parts: several sweeps by name, which share the params; see :mod:`focusing.sweep.expansion`.
    """

    hydra_context: HydraContext
    config: DictConfig
    executor: "Sweep"

    def __init__(self, params: DictConfig | None = None, parts: DictConfig | None = None) -> None:
        self.params, self.parts = params, parts

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Set up the chosen launcher."""
        from focusing.errors import UserError
        from focusing.experiments.table1_trials import sweep_task
        from focusing.instantiate import check_arguments
        from focusing.sweep.task import JobRunner, check_sweep

        check_sweep(config)
        choice = config.hydra.runtime.choices["hydra/launcher"]
        if choice not in LAUNCHERS:
            raise UserError(f"hydra/launcher={choice} is not one of {', '.join(LAUNCHERS)}.")
        module, _, name = LAUNCHERS[choice].partition(":")
        options: Any = OmegaConf.to_container(config.hydra.launcher, resolve=True)
        options.pop("_target_", None)  # of Hydra's own launchers
        self.hydra_context, self.config = hydra_context, config
        make_sweep = getattr(import_module(module), name)
        check_arguments(make_sweep, options, "hydra.launcher.")
        runner = JobRunner(hydra_context, config, sweep_task(task_function))
        self.executor = make_sweep(runner, **options)

    def sweep(self, arguments: list[str]) -> Any:
        """Run all jobs of a command line; returns their outcomes."""
        from focusing.errors import UserError
        from focusing.sweep.expansion import expand_parts, is_stack, is_valid, validate
        from focusing.sweep.jobs import raise_failures
        from focusing.sweep.local import LocalSweep
        from focusing.sweep.status import SweepStatus, print_summary

        stack = is_stack(self.config, arguments)
        params = None if stack else self.params
        jobs = expand_parts(self.hydra_context, params, self.parts, arguments)
        if not jobs:
            raise UserError(f"{' '.join(arguments)} makes no jobs: an option has no values.")
        validate(self.hydra_context, self.config, jobs)
        if stack and not isinstance(self.executor, LocalSweep):
            results = [(job, self._run_stack(job)) for job in jobs]
        else:
            status = SweepStatus([job.overrides for job in jobs])
            results = self.executor.run_until_finished(iter(jobs), status)
        is_valid_twin = partial(is_valid, self.hydra_context, self.config, params, self.parts)
        print_summary(results, self.config, arguments, is_valid_twin)
        raise_failures(results)
        return [outcome for _, outcome in results]

    def _run_stack(self, job: "Job") -> "Outcome":
        """Run a stack of trials, which shows its own status; its groups may train on a cluster."""
        from focusing.experiments.table1 import run_stacked
        from focusing.experiments.table1_trials import sweep_task
        from focusing.sweep.clusters import ClusterSweep
        from focusing.sweep.task import JobRunner

        cluster = self.executor if isinstance(self.executor, ClusterSweep) else None
        task = sweep_task(partial(run_stacked, cluster=cluster))
        return JobRunner(self.hydra_context, self.config, task).execute(job)


class OptunaSweeper(GridSweeper):
    """Runs the trials of an Optuna study; conf/hydra/sweeper/optuna.yaml explains its options."""

    def __init__(self, params: DictConfig | None, parts: DictConfig | None, **options: Any) -> None:
        super().__init__(params, parts)
        self.options = options

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Set up the chosen launcher."""
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
        if isinstance(self.executor, ClusterSweep):
            self.executor.max_parallel = search.options.parallel or 0
        try:
            with FileLock(search.path.with_suffix(".running"), timeout=0):
                if search.finished:
                    print(f"{search.finished} of {search.total} trials are finished already.")
                results = self.executor.run_until_finished(search.jobs(), status, search.tell)
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
        options = search.SearchOptions(**self.options)
        overrides = parse(self.hydra_context, self.params, arguments)
        space, fixed = search.search_space(overrides, options.sampler)
        examples = search.example_jobs(search.example_values(space), fixed)
        validate(self.hydra_context, config, examples)
        data_sets = getattr(space.get("data"), "choices", ()) or (config.data.name,)
        for name in data_sets:  # check before any trial runs
            search.check_metric(options, "mae" if name in search.REGRESSION_DATA else "accuracy")
        plain: Any = OmegaConf.to_container(config, resolve=False)
        del plain["hydra"]
        plain["name"] = str(config.name)
        plain["paths"]["output_dir"] = str(config.paths.output_dir)
        path = search.study_path(plain, space, options)
        retry = bool(config.sweep.retry_failed)
        return search.Search(path, space, fixed, options, retry_failed=retry)


@dataclass
class RayOptions:
    """Options of ``hydra/launcher=ray``, which needs the extra ``ray`` and a shared file system.

    Attributes:
        address: ``local`` starts a cluster on this machine; ``auto`` or ``host:port`` joins one.
        cpus: per job.
        gpus: per job; with 0.5, two jobs share one.
        runs_per_job: runs that share the processors and GPUs of a job.
        per_gpu: runs of a job that share a GPU.
        init: more options of ``ray.init``.
        remote: more options of ``ray.remote``. When a machine dies, its job continues elsewhere,
            up to ``max_retries`` times.
    """

    address: str = "local"
    cpus: int = 1
    gpus: float = 0
    runs_per_job: int = 1
    per_gpu: int = 1
    init: Any = None  # a dictionary would accept no new keys
    remote: Any = None


# This is not a file in conf/, because Hydra would check it against the schema of the published Ray
# launcher, which has the same name. That one is imported first, so that it cannot replace ours.
with suppress(ImportError):
    import_module("hydra_plugins.hydra_ray_launcher._config")
ConfigStore.instance().store(
    group="hydra/launcher", name="ray", node=RayOptions, provider="focusing"
)
