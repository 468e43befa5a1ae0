"""A search by Optuna whose study is on disk: the work behind ``hydra/sweeper=optuna``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focusing.errors import UserError
from focusing.results.identity import config_hash
from focusing.results.store import STUDY_SUFFIX, open_study
from focusing.sweep.outcome import Job, Outcome
from focusing.sweep.search_space import grid
from focusing.validation import is_name

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

SAMPLERS = ("tpe", "random", "grid")
DIRECTIONS = ("maximize", "minimize")
REGRESSION = ("boston",)
"""Data sets whose score is an error, of which less is better."""


@dataclass(frozen=True)
class Options:
    """How to search; conf/hydra/sweeper/optuna.yaml explains them."""

    n_trials: int
    direction: str
    sampler: str
    seed: int
    prune: bool
    prune_after_trials: int
    prune_after_epochs: int

    def __post_init__(self) -> None:
        """Refuse what is not an option."""
        for name, allowed in (("sampler", SAMPLERS), ("direction", DIRECTIONS)):
            if getattr(self, name) not in allowed:
                given, known = getattr(self, name), ", ".join(allowed)
                raise UserError(f"hydra.sweeper.{name}={given} is not one of {known}.")
        if self.n_trials < 1:
            raise UserError(f"hydra.sweeper.n_trials={self.n_trials} must be at least 1.")


class Search:
    """Asks a study for jobs and tells it what became of them.

    A trial's draw depends on the seed, its number and the trials that are finished by then, so a
    search that was killed goes on as if it had not been. Trials that were running then are the
    first to be run again: their runs continue.

    Args:
        path: the study's file.
        space: option -> distribution.
        fixed: overrides of every trial.
        options: how to search.
        retry_failed: also run failed trials again.
    """

    def __init__(
        self,
        path: Path,
        space: Mapping[str, BaseDistribution],
        fixed: Sequence[str],
        options: Options,
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
        self._points = grid(self.space) if options.sampler == "grid" else None
        self.total = options.n_trials
        if self._points is not None:
            self.total = min(self.total, len(self._points))
        begun = self._begun()
        self._again = [each for each in begun if each.state.name == "RUNNING"]
        succeeded = [each.params for each in begun if each.state.name != "FAIL"]
        failed = [each.params for each in begun if each.state.name == "FAIL"]
        told = [] if retry_failed else [each for each in begun if each.state.name == "FAIL"]
        self.failures = [_failure(self._job(e.number, e.params), e) for e in told]
        self._retried = [each for each in failed if retry_failed and each not in succeeded]
        self._asked = len(begun) - len(failed) + len([e for e in failed if e not in succeeded])
        self._asked -= len(self._retried)
        self.finished = min(self._asked - len(self._again), self.total)

    def _begun(self) -> list[optuna.trial.FrozenTrial]:
        """The trials whose draw is complete: a search may have been killed while it drew one."""
        trials = self.study.get_trials(deepcopy=False)
        return [each for each in trials if set(each.params) == set(self.space)]

    def jobs(self) -> Iterator[Job]:
        """The trials that are left, each drawn when it is asked for."""
        for trial in self._again:
            yield self._job(trial.number, trial.params)
        while self._asked < self.total:
            self._asked += 1
            yield self._next()

    def _next(self) -> Job:
        trials = self.study.get_trials(deepcopy=False)
        if not any(each.state.name == "WAITING" for each in trials):
            if self._retried:
                self.study.enqueue_trial(self._retried.pop(0))
            elif self._points is not None:
                tried = [each.params for each in trials]
                self.study.enqueue_trial(next(p for p in self._points if p not in tried))
        self.study.sampler = self._sampler(len(trials))
        trial = self.study.ask(self.space)
        return self._job(trial.number, trial.params)

    def _sampler(self, number: int) -> Any:
        import optuna

        seed = self.options.seed * 1_000_003 + number
        if self.options.sampler == "tpe":
            return optuna.samplers.TPESampler(seed=seed)
        return optuna.samplers.RandomSampler(seed=seed)

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
        """Note what became of a trial."""
        import optuna

        states = optuna.trial.TrialState
        if outcome.status == "pruned":
            self.study.tell(job.index, state=states.PRUNED)
        elif outcome.status == "done" and outcome.score is not None:
            check_metric(self.options, outcome.metric)
            self.study.tell(job.index, outcome.score)
        elif outcome.status != "busy":
            [told] = [e for e in self.study.get_trials(deepcopy=False) if e.number == job.index]
            trial = optuna.trial.Trial(self.study, told._trial_id)
            trial.set_user_attr("error", outcome.error)  # for the next call to tell
            trial.set_user_attr("run_dir", outcome.run_dir)
            self.study.tell(job.index, state=states.FAIL)

    def best(self) -> str:
        """The best trial so far in a line."""
        try:
            trial = self.study.best_trial
        except ValueError:
            return f"No trial is done; the study is {self.path}."
        chosen = " ".join(f"{key}={value}" for key, value in trial.params.items())
        return f"Best of {len(self.study.trials)} trials: {trial.value:.4g} with {chosen}"


def _failure(job: Job, trial: optuna.trial.FrozenTrial) -> tuple[Job, Outcome]:
    """A trial that failed in an earlier call."""
    error, run_dir = (trial.user_attrs.get(name) for name in ("error", "run_dir"))
    return job, Outcome("failed", earlier=True, run_dir=run_dir, error=error)


def check_metric(options: Options, metric: str | None) -> None:
    """Refuse to search for the worst score."""
    expected = "minimize" if metric == "mae" else "maximize"
    if options.direction != expected:
        raise UserError(f"The score is {metric}: use hydra.sweeper.direction={expected}.")


def study_path(config: Mapping[str, Any], space: Mapping[str, Any], options: Options) -> Path:
    """The file of a study: the same command finds it again, also with more trials.

    Args:
        config: of the sweep, plain.
        space: option -> distribution.
        options: how to search.
    """
    searched = {key: repr(each) for key, each in space.items()}
    how = [options.sampler, options.direction, options.seed]
    text = json.dumps([config_hash(config), config["seed"], searched, how], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    if not is_name(config["name"]):
        raise UserError(f"name={config['name']} cannot be the name of a folder.")
    output = Path(config["paths"]["output_dir"]).expanduser().absolute()
    return output.joinpath(config["name"], ".studies", f"{digest}{STUDY_SUFFIX}")
