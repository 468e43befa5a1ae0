"""``hydra/sweeper=optuna``: random, TPE or grid search, with a study on disk."""

from typing import TYPE_CHECKING, Any

from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from hydra_plugins.focusing_sweeps.grid_sweeper import GridSweeper

if TYPE_CHECKING:
    from focusing.sweep.search import Search


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
        from omegaconf import OmegaConf

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
