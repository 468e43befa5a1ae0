"""Hyperparameter search by Optuna with a study on disk (``hydra/sweeper=optuna``)."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep

from focusing.config import AtLeastOne
from focusing.errors import UserError
from focusing.instantiate import check_arguments
from focusing.results.identity import config_hash
from focusing.results.store import STUDY_SUFFIX, open_study
from focusing.sweep.jobs import Job, Outcome, Result
from focusing.validation import is_name

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

REGRESSION_DATA = ("boston",)
"""Data sets whose score is an error, so that lower is better."""


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search; conf/hydra/sweeper/optuna.yaml explains them."""

    n_trials: AtLeastOne
    direction: Literal["maximize", "minimize"]
    sampler: Literal["tpe", "random", "grid"]
    seed: int
    prune: bool
    prune_after_trials: int
    prune_after_epochs: int
    parallel: AtLeastOne | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        check_arguments(SearchOptions, vars(self), "hydra.sweeper.")


class Search:
    """Draws jobs from a study and stores their outcomes in it.

    A draw depends on the seed, the number of the trial and the trials that have finished by then.
    So a search that was killed continues as if nothing had happened: it first continues the trials
    that were running.

    Args:
        path: the file of the study.
        space: option -> distribution.
        fixed: overrides of every trial.
        options: how to search.
        retry_failed: run failed trials again.
    """

    def __init__(
        self,
        path: Path,
        space: Mapping[str, BaseDistribution],
        fixed: Sequence[str],
        options: SearchOptions,
        *,
        retry_failed: bool = False,
    ) -> None:
        self.path, self.space, self.fixed, self.options = path, dict(space), list(fixed), options
        self.study = open_study(
            path,
            after_trials=options.prune_after_trials,
            after_epochs=options.prune_after_epochs,
            direction=options.direction,
        )
        self._points: list[dict[str, Any]] = []
        if options.sampler == "grid":
            choices: Iterable[Any] = self.space.values()
            values = itertools.product(*(choice.choices for choice in choices))
            self._points = [dict(zip(self.space, point, strict=True)) for point in values]
        self.total = min(options.n_trials, len(self._points) or options.n_trials)
        # Ignore a trial if the search was killed while it drew that trial.
        trials = [t for t in self._trials() if set(t.params) == set(self.space)]
        failed = [trial for trial in trials if trial.state.name == "FAIL"]
        succeeded = [trial.params for trial in trials if trial.state.name != "FAIL"]
        unsolved = [trial.params for trial in failed if trial.params not in succeeded]
        self._interrupted = [trial for trial in trials if trial.state.name == "RUNNING"]
        self._retried = unsolved if retry_failed else []
        self.failures = [] if retry_failed else [self._earlier_failure(t) for t in failed]
        self._drawn = len(succeeded) + len(unsolved) - len(self._retried)
        self.finished = min(self._drawn - len(self._interrupted), self.total)

    def _trials(self) -> list[optuna.trial.FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def _earlier_failure(self, trial: optuna.trial.FrozenTrial) -> Result:
        error, run_dir = (trial.user_attrs.get(name) for name in ("error", "run_dir"))
        outcome = Outcome("failed", earlier=True, run_dir=run_dir, error=error)
        return self._job(trial.number, trial.params), outcome

    def jobs(self) -> Iterator[Job]:
        """Yield the remaining trials; each is drawn when it is needed."""
        for trial in self._interrupted:
            yield self._job(trial.number, trial.params)
        while self._drawn < self.total:
            self._drawn += 1
            yield self._draw()

    def _draw(self) -> Job:
        import optuna

        trials = self._trials()
        if not any(trial.state.name == "WAITING" for trial in trials):
            if self._retried:
                self.study.enqueue_trial(self._retried.pop(0))
            elif self._points:
                tried = [trial.params for trial in trials]
                self.study.enqueue_trial(next(p for p in self._points if p not in tried))
        seed = self.options.seed * 1_000_003 + len(trials)
        samplers = optuna.samplers
        tpe = self.options.sampler == "tpe"
        self.study.sampler = (samplers.TPESampler if tpe else samplers.RandomSampler)(seed=seed)
        trial = self.study.ask(self.space)
        return self._job(trial.number, trial.params)

    def _job(self, number: int, params: Mapping[str, Any]) -> Job:
        overrides = [*self.fixed, *(f"{key}={value}" for key, value in params.items())]
        if self.options.prune:
            settings = [
                "_target_:focusing.callbacks.SearchTrial",
                f"study:'{self.path}'",
                f"number:{number}",
                f"after_trials:{self.options.prune_after_trials}",
                f"after_epochs:{self.options.prune_after_epochs}",
            ]
            overrides.append(f"+callbacks.trial={{{','.join(settings)}}}")
        return Job(number, tuple(overrides))

    def tell(self, job: Job, outcome: Outcome) -> None:
        """Store the outcome of a trial in the study."""
        import optuna

        states = optuna.trial.TrialState
        if outcome.status == "pruned":
            self.study.tell(job.index, state=states.PRUNED)
        elif outcome.status == "done" and outcome.score is not None:
            check_metric(self.options, outcome.metric)
            self.study.tell(job.index, outcome.score)
        elif outcome.status != "busy":
            [frozen] = [trial for trial in self._trials() if trial.number == job.index]
            trial = optuna.trial.Trial(self.study, frozen._trial_id)
            trial.set_user_attr("error", outcome.error)  # for the report of the next sweep
            trial.set_user_attr("run_dir", outcome.run_dir)
            self.study.tell(job.index, state=states.FAIL)

    def describe_best(self) -> str:
        """Describe the best trial so far in one line."""
        try:
            trial = self.study.best_trial
        except ValueError:
            return f"No trial has finished; the study is {self.path}."
        chosen = " ".join(f"{key}={value}" for key, value in trial.params.items())
        return f"Best of {len(self.study.trials)} trials: {trial.value:.4g} with {chosen}"


def check_metric(options: SearchOptions, metric: str | None) -> None:
    """Refuse a direction that would search for the worst score."""
    expected = "minimize" if metric == "mae" else "maximize"
    if options.direction != expected:
        raise UserError(f"The score is {metric}: use hydra.sweeper.direction={expected}.")


def study_path(config: Mapping[str, Any], space: Mapping[str, Any], options: SearchOptions) -> Path:
    """Return the file of a study; it does not depend on the number of trials."""
    searched = {key: repr(distribution) for key, distribution in space.items()}
    how = [options.sampler, options.direction, options.seed]
    text = json.dumps([config_hash(config), config["seed"], searched, how], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    if not is_name(config["name"]):
        raise UserError(f"name={config['name']} cannot be the name of a folder.")
    output = Path(config["paths"]["output_dir"]).expanduser().absolute()
    return output.joinpath(config["name"], ".studies", f"{digest}{STUDY_SUFFIX}")


def search_space(
    overrides: Iterable[Override], sampler: str = "tpe"
) -> tuple[dict[str, BaseDistribution], list[str]]:
    """Divide overrides into the space to search, option -> distribution, and fixed overrides."""
    space: dict[str, BaseDistribution] = {}
    fixed: list[str] = []
    for override in overrides:
        key = override.get_key_element()
        if not override.is_sweep_override():
            fixed.append(f"{key}={override.get_value_element_as_str()}")
        elif override.is_discrete_sweep() or sampler != "grid":
            space[key] = _distribution(override, in_order=sampler == "grid")
        else:
            raise UserError(f"hydra.sweeper.sampler=grid needs values, not an interval, for {key}.")
    if not space:
        raise UserError(
            "hydra/sweeper=optuna has nothing to search: give values, as in "
            "optim.lr='tag(log,interval(1e-4,1))' model=dense,focus_s."
        )
    return space, fixed


def _distribution(override: Override, *, in_order: bool) -> BaseDistribution:
    """Return the distribution of an option; values to try in order are categories."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    sweep = override.value()
    if isinstance(sweep, RangeSweep) and not list(sweep.range()):
        raise UserError(f"{override.input_line} is empty.")
    if isinstance(sweep, RangeSweep) and not in_order:
        values, step = sorted(sweep.range()), abs(sweep.step)
        if isinstance(values[0], int):
            return IntDistribution(values[0], int(values[-1]), step=int(step))
        return FloatDistribution(float(values[0]), float(values[-1]), step=float(step))
    if isinstance(sweep, IntervalSweep):
        start, end, log = bounds_of(override)
        if isinstance(start, int) and isinstance(end, int):
            return IntDistribution(start, end, log=log)
        return FloatDistribution(start, end, log=log)
    return CategoricalDistribution(list(override.sweep_string_iterator()))


def bounds_of(override: Override) -> tuple[float, float, bool]:
    """Return start and end of an interval, and whether its scale is logarithmic."""
    sweep: Any = override.value()
    low, high, log = sweep.start, sweep.end, "log" in sweep.tags
    if low is None or high is None or not low < high or (log and low <= 0):
        raise UserError(f"{override.input_line} is not an interval that can be searched.")
    return low, high, log


def example_jobs(values: Mapping[str, Sequence[Any]], fixed: Sequence[str]) -> list[Job]:
    """Make jobs that contain every value, to check that they can be composed."""
    return [
        Job(row, (*fixed, *(f"{key}={some[row % len(some)]}" for key, some in values.items())))
        for row in range(max(map(len, values.values())))
    ]


def example_values(space: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Return all choices of each distribution, or one value."""
    return {key: getattr(some, "choices", ()) or [some.low] for key, some in space.items()}
