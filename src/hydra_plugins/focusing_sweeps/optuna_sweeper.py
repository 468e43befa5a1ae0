"""``hydra/sweeper=optuna``: random, TPE or grid search, with a study on disk."""

from itertools import islice
from typing import TYPE_CHECKING, Any

from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from hydra_plugins.focusing_sweeps.grid_sweeper import GridSweeper

if TYPE_CHECKING:
    from focusing.sweep.jobs import Job, Outcome, Result
    from focusing.sweep.search import Search


class OptunaSweeper(GridSweeper):
    """Runs the trials of an Optuna study; conf/hydra/sweeper/optuna.yaml explains the options."""

    def __init__(
        self,
        params: DictConfig | None,
        parts: DictConfig | None,
        parallel: int | None,
        **options: Any,
    ) -> None:
        super().__init__(params, parts)
        self.parallel, self.options = parallel, options

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
        if self.parallel is not None and self.parallel < 1:
            raise UserError(f"hydra.sweeper.parallel={self.parallel} must be at least 1.")

    def sweep(self, arguments: list[str]) -> Any:
        """Run the remaining trials of a command line; returns their outcomes."""
        from filelock import FileLock, Timeout

        from focusing.errors import UserError
        from focusing.sweep.jobs import raise_failures

        search = self._search(arguments)
        try:
            with FileLock(search.path.with_suffix(".running"), timeout=0):
                if search.finished:
                    print(f"{search.finished} of {search.total} trials are finished already.")
                results = self._run(search)
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
        from focusing.sweep.task import check_sweep

        config = self.config
        check_sweep(config)
        options = search.Options(**self.options)
        space, fixed = search.search_space(parse(self.hydra_context, self.params, arguments))
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

    def _run(self, search: "Search") -> "list[Result]":
        from focusing.sweep.clusters import ClusterSweep
        from focusing.sweep.status import SweepStatus
        from focusing.sweep.task import launch_until_finished

        results: list[Result] = []

        def note(job: "Job", outcome: "Outcome") -> None:
            search.tell(job, outcome)
            results.append((job, outcome))

        jobs = search.jobs()
        sweep = getattr(self.launcher, "sweep", None)
        if sweep is not None:  # one of ours: it asks for a trial when there is room for it
            left = search.total - search.finished
            status = SweepStatus(total=left, options=search.space, best=True)
            room = {"at_once": self.parallel or 0} if isinstance(sweep, ClusterSweep) else {}
            sweep.run(jobs, status, note, **room)
            busy = [job for job, outcome in results if outcome.status == "busy"]
            results[:] = [result for result in results if result[1].status != "busy"]
            for result in launch_until_finished(busy, self.launch):
                note(*result)
        else:
            while batch := list(islice(jobs, self.parallel or 1)):
                for result in launch_until_finished(batch, self.launch):
                    note(*result)
        return results
