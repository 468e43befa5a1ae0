"""``hydra/sweeper=optuna``: random, TPE or grid search, with a study on disk."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from hydra_plugins.focusing_sweeps.grid_sweeper import GridSweeper

if TYPE_CHECKING:
    from focusing.sweep.outcome import Job, Outcome
    from focusing.sweep.search import Search


class OptunaSweeper(GridSweeper):
    """Runs the trials of an Optuna study; conf/hydra/sweeper/optuna.yaml explains the options."""

    def __init__(
        self, params: DictConfig | None, parts: DictConfig | None, parallel: int, **options: Any
    ) -> None:
        super().__init__(params, parts)
        self.parallel, self.options = parallel, options

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Find the launcher."""
        from focusing.errors import UserError
        from focusing.results.store import require_optuna

        require_optuna()
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)
        if self.parts:
            raise UserError("A search has one space, not parts: use hydra.sweeper.parts=null.")
        if self.parallel < 1:
            raise UserError(f"hydra.sweeper.parallel={self.parallel} must be at least 1.")

    def sweep(self, arguments: list[str]) -> Any:
        """Run the trials that are left.

        Args:
            arguments: the command line.

        Returns:
            What became of each trial.
        """
        from filelock import FileLock, Timeout

        from focusing.errors import UserError
        from focusing.sweep.settle import conclude

        search = self._search(arguments)
        try:
            with FileLock(search.path.with_suffix(".running"), timeout=0):
                if search.finished:
                    print(f"{search.finished} of {search.total} trials are finished already.")
                results = self._run(search)
        except Timeout:
            raise UserError("Another process runs this search.") from None
        print(search.best())
        conclude([*search.failures, *results], total=search.total, options=search.space, again=True)
        return [outcome for _, outcome in results]

    def _search(self, arguments: list[str]) -> "Search":
        from omegaconf import OmegaConf

        from focusing.sweep.expansion import parse, validate
        from focusing.sweep.outcome import Job
        from focusing.sweep.search import REGRESSION, Options, Search, check_metric, study_path
        from focusing.sweep.search_space import examples, split
        from focusing.sweep.settle import check_sweep

        context, config = self.hydra_context, self.config
        assert context is not None  # noqa: S101 - setup was called
        assert config is not None  # noqa: S101
        check_sweep(config)
        options = Options(**self.options)
        space, fixed = split(parse(context, self.params, arguments))
        tried = [Job(0, (*fixed, *each)) for each in examples(space)]
        validate(context, config, tried)
        searched = getattr(space.get("data"), "choices", ())
        for name in searched or (config.data.name,):  # before the first score does
            check_metric(options, "mae" if name in REGRESSION else "accuracy")
        plain: Any = OmegaConf.to_container(config, resolve=False)
        del plain["hydra"]
        plain["name"] = str(config.name)
        plain["paths"]["output_dir"] = str(config.paths.output_dir)
        path = study_path(plain, space, options)
        retry = bool(config.sweep.retry_failed)
        return Search(path, space, fixed, options, retry_failed=retry)

    def _run(self, search: "Search") -> "list[tuple[Job, Outcome]]":
        from focusing.sweep.launch.board import Board
        from focusing.sweep.outcome import Job, Outcome, outcome_of
        from focusing.sweep.settle import settle

        launcher: Any = self.launcher
        results: list[tuple[Job, Outcome]] = []

        def note(job: Job, outcome: Outcome) -> None:
            search.tell(job, outcome)
            results.append((job, outcome))

        def launch(some: Sequence[Job]) -> list[Outcome]:
            returned = launcher.launch([each.overrides for each in some], initial_job_idx=0)
            return [outcome_of(each) for each in returned]

        jobs = search.jobs()
        if hasattr(launcher, "stream"):
            board = Board([], total=search.total - search.finished, options=search.space)
            launcher.stream(jobs, board, note)
            busy = [job for job, outcome in results if outcome.status == "busy"]
            results[:] = [each for each in results if each[1].status != "busy"]
            for job, outcome in settle(busy, launch):
                note(job, outcome)
        else:
            while some := list(islice(jobs, self.parallel)):
                for job, outcome in settle(some, launch):
                    note(job, outcome)
        return results
