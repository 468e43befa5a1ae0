"""Blocks of runs that may be compared, what they changed of their experiment, and their scores."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from focusing.compose import config_dir, prepare_hydra
from focusing.config import USUAL
from focusing.reports.names import data_name, edition, model_name
from focusing.reports.paper import published_tables
from focusing.reports.tables import (
    Cell,
    Unit,
    between,
    interval_record,
    number,
    p_value,
    signed,
    text,
)
from focusing.results.collect import Run
from focusing.results.frame import (
    TRIAL_OPTIONS,
    data_versions,
    flat_settings,
    group_by,
    overlap,
    replicate_key,
    settings,
    show_value,
    split_replicates,
    tested_on,
    varying_options,
)
from focusing.results.stats import MIN_FOR_INTERVAL, Comparison, Spread, compare, holm, spread

TRIALS_EXPERIMENT = "table1"
PER_MODEL = ("data.pad",)
"""Options of the data that the author chose for the focused network alone."""
SMALLER_SIZES = ("short", "quick", "smoke")
"""Sizes that are not the paper's: less data or fewer epochs."""
UNSPECIFIED = ("optim.drop_last=",)
"""Options of which the paper says nothing: whatever they are, a run is as published."""
HARMLESS = ("data.on_missing",)
"""Options that change no result: a source that was taken instead is part of the record."""
LIMITS = ("data.limit_train", "data.limit_test", "trainer.limit_batches")
"""Options that make any experiment a smaller one."""
ALL_DATA, WITHOUT_VALIDATION = "all", "without the validation split"


@dataclass(frozen=True)
class Block:
    """Runs on the same data, source, length of training and so on: what may be compared.

    Attributes:
        data: name of the data set.
        source: where the data came from; empty if there are no runs.
        version: 0, or more if the files changed between runs.
        options: what tells the block from others of its data set, as on the command line.
        models: runs by name of the model.
        as_published: its runs are those of the experiment as the paper has it, nothing changed,
            at full size.
    """

    data: str
    source: str
    version: int
    options: tuple[str, ...]
    models: Mapping[str, list[Run]]
    as_published: bool = True

    @property
    def runs(self) -> list[Run]:
        """The runs of all models."""
        return [run for runs in self.models.values() for run in runs]

    @property
    def unit(self) -> Unit:
        """How its scores are written."""
        metrics = [run.metric for run in self.runs]
        return Unit(metrics[0] if metrics else "mae" if self.data == "boston" else "accuracy")

    @property
    def epochs(self) -> int:
        """Number of epochs of the longest run."""
        trainers = [run.config.get("trainer") or {} for run in self.runs]
        return max((int(trainer.get("max_epochs") or 0) for trainer in trainers), default=0)

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Which block stands for its data set: the one as published, else the longest."""
        return not self.as_published, -self.epochs, len(self.options)

    def head(self) -> Cell:
        """The cell that names it."""
        name = data_name(self.data) + (" (MAE)" if self.unit.lower_is_better else "")
        version = f"data version {self.version + 1}" if self.version else ""
        return text(name, self.source, version, *self.options)


def editions(runs: Iterable[Run]) -> Iterator[tuple[dict[str, str], list[Run]]]:
    """Experiment, size and variant, as in a CSV file, with their runs; as published first."""
    groups = group_by(runs, lambda run: (run.experiment, run.size, run.variant))
    for key in sorted(groups, key=lambda key: (key[0], *edition(*key[1:]))):
        yield dict(zip(("experiment", "size", "variant"), key, strict=True)), groups[key]


def blocks(runs: Sequence[Run]) -> list[Block]:
    """Divide runs of an experiment, of one size and variant, into blocks that may be compared."""
    versions = data_versions(runs)
    divided = []
    data_sets = group_by(runs, lambda run: (run.data, run.source, versions[run]))
    for (data, source, version), on_data in data_sets.items():
        labels = _labels(on_data)
        for options, same_options in group_by(on_data, labels.__getitem__).items():
            for mark, replicates in split_replicates(same_options):
                named = (*options, mark) if mark else options
                changed = [option for option in named if not option.startswith(UNSPECIFIED)]
                small = replicates[0].size in SMALLER_SIZES
                models = group_by(replicates, lambda run: run.model)
                as_published = source != "fake" and not changed and not small
                divided.append(Block(data, source, version, named, models, as_published))
    return divided


def _labels(runs: Sequence[Run]) -> dict[Run, tuple[str, ...]]:
    """What runs changed of their experiment; if that is not known, what tells them apart."""
    changed = {run: overrides(run) for run in runs}
    foreign = [run for run in runs if changed[run] is None]
    flat = {run: settings(run) for run in foreign}
    shared = [{k: v for k, v in row.items() if k not in PER_MODEL} for row in flat.values()]
    keys = varying_options(shared, prefix="data.") + varying_options(shared, prefix="trainer.")
    keys += varying_options(list(flat.values()), known=["model.name", *keys])
    own = {run: dict.fromkeys((*typed_options(flat[run], keys), *limits(run))) for run in foreign}
    return {run: tuple(own[run]) if run in own else changed[run] or () for run in runs}


def typed_options(flat: Mapping[str, Any], keys: Iterable[str]) -> tuple[str, ...]:
    """Some options as they are typed; those that a model does not have are left out."""
    return tuple(f"{key}={show_value(flat[key])}" for key in keys if key in flat)


def overrides(run: Run) -> tuple[str, ...] | None:
    """Options of a run that differ from its experiment's, as they are typed.

    None if it is not known what the experiment would have: it is not the paper's.
    """
    if run.experiment not in (*published_tables(), TRIALS_EXPERIMENT):
        return None
    planned = planned_settings(run)
    if planned is None:
        return None
    if run.trial is not None:
        planned = {name: value for name, value in planned.items() if name not in TRIAL_OPTIONS}
    own = settings(run)
    changed = sorted(
        name
        for name in own
        if name not in HARMLESS and (name not in planned or own[name] != planned[name])
    )
    signs = {name: "" if name in planned or name == "protocol.holdout" else "+" for name in changed}
    removed = [
        f"~{name.removesuffix('._target_')}"
        for name in planned
        if name.startswith("callbacks.") and name.endswith("._target_") and name not in own
    ]
    return (*(f"{signs[name]}{name}={show_value(own[name])}" for name in changed), *removed)


def limits(run: Run) -> tuple[str, ...]:
    """Options that reduced the data of a run of any experiment, as they are typed."""
    if run.size in ("smoke", "quick"):  # they have limits of their own
        return ()
    own = settings(run)
    return typed_options(own, [name for name in LIMITS if own.get(name) is not None])


def planned_settings(run: Run) -> Mapping[str, Any] | None:
    """The settings of a run's experiment without any change; None if it is not known here."""
    config = composed(run.experiment, run.size, run.variant, run.data, run.model)
    return None if config is None else flat_settings(config)


@cache  # it takes 0.4 s
def composed(
    experiment: str, size: str, variant: str, data: str, model: str
) -> Mapping[str, Any] | None:
    """The config of an experiment without any change; None if it is not known here."""
    groups = {"experiment": experiment, "size": size, "variant": variant}
    groups |= {"data": data, "model": model}
    prepare_hydra()
    try:
        with initialize_config_dir(str(config_dir()), version_base="1.3"):
            config = compose("train", [f"{group}={choice}" for group, choice in groups.items()])
            return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]
    except (HydraException, OmegaConfBaseException):  # a data set or network of the user's own
        return None


def command(
    experiment: str, size: str, variant: str, options: Iterable[str], protocol: str = "best_test"
) -> str:
    """What to type to fill cells of an experiment."""
    groups = {"size": size, "variant": variant, "protocol": protocol}
    changed = [f"{k}={v}" for k, v in groups.items() if v not in (USUAL[k], "unstated")]
    typed = [option for option in options if "=" in option or option.startswith("~")]
    quoted = [f"'{word}'" if any(sign in word for sign in "[]() ") else word for word in typed]
    return " ".join(["python train.py", f"experiment={experiment}", *quoted, *changed])


@dataclass(frozen=True)
class Scored:
    """Scores of replicates under a protocol, in print units.

    Attributes:
        values: by what makes a pair with those of another model.
        spread: their mean and so on.
        trained_on: all training data, or without the validation split.
        paired: every replicate has test data of its own, the same for all models.
        overlap: test samples per training sample, if replicates are random splits.
        squared: mean squared errors at the same epochs, where scores are absolute ones.
    """

    values: Mapping[Any, float]
    spread: Spread
    trained_on: str
    paired: bool = False
    overlap: float | None = None
    squared: Spread | None = None

    @property
    def mark(self) -> str:
        """The sign of scores that a run of another protocol gave."""
        return "" if self.trained_on == ALL_DATA else "†"

    def cell(self, *more: str, bold: bool = False) -> Cell:
        """Mean, deviation, interval (or the scores, if they are two) and number of runs."""
        squared = "" if self.squared is None else f"MSE {mean_and_deviation(self.squared)}"
        counted = ", ".join([f"n={self.spread.n}", *more])
        return text(
            f"{mean_and_deviation(self.spread)}{self.mark}",
            between(self.spread.interval) or self.points(),
            squared,
            counted,
            bold=bold,
        )

    def points(self) -> str:
        """The scores where there are too few for an interval; a single one is the mean."""
        few = 1 < len(self.values) < MIN_FOR_INTERVAL
        return ", ".join(number(value) for value in self.values.values()) if few else ""

    def record(self) -> dict[str, Any]:
        """The same for a CSV file."""
        spread, interval = self.spread, self.spread.interval
        record = {
            "trained_on": self.trained_on,
            "n": spread.n,
            "mean": spread.mean,
            "std_ddof1": spread.std,
            "best": spread.best,
            **interval_record(interval),
            "interval": interval and interval.method,
        }
        if self.squared:
            record |= {"mse_mean": self.squared.mean, "mse_std_ddof1": self.squared.std}
        return record


def mean_and_deviation(spread: Spread) -> str:
    """In print; a single value has no deviation."""
    return number(spread.mean) + ("" if spread.std is None else f" ± {number(spread.std)}")


def scored(runs: Sequence[Run], protocol: str) -> Scored | None:
    """Scores under a protocol, one per replicate; None if there are none.

    Runs that train on all the training data come first; if there are none, those that kept a
    validation split have these scores, too.
    """
    having = [run for run in runs if protocol in run.scores]
    full = [run for run in having if not run.holdout]
    chosen = full if full and protocol != "holdout" else [run for run in having if run.holdout]
    if not chosen:
        return None
    unit = Unit(chosen[0].metric)
    values = {replicate_key(run): unit.factor * run.scores[protocol] for run in chosen}
    summary = spread(list(values.values()), lower_is_better=unit.lower_is_better)
    held = protocol != "holdout" and chosen[0].holdout
    return Scored(
        values,
        replace(summary, interval=unit.possible(summary.interval)),
        WITHOUT_VALIDATION if held else ALL_DATA,
        len(set(map(tested_on, chosen))) > 1,
        overlap(chosen),
        _squared(chosen, protocol) if unit.lower_is_better else None,
    )


@dataclass(frozen=True)
class Pair:
    """Scores to compare under a protocol.

    Attributes:
        ours: of a model.
        base: of the other.
        lower_is_better: the scores are errors.
        fake: of fake data, which say nothing about others: they are a family of tests of their own.
        other: what it is compared with, in words.
        counts_as: tests with the same label count once in Holm's correction.
        rank: of those the first stands for all.
        same_model: equal seeds begin with equal weights.
    """

    ours: Scored
    base: Scored
    lower_is_better: bool
    fake: bool
    counts_as: Hashable
    other: str
    rank: tuple[Any, ...] = ()
    same_model: bool = False


@dataclass(frozen=True)
class Tested:
    """A comparison with another, and its p after Holm's correction: usual and resampled."""

    other: str
    comparison: Comparison
    p: float | None
    p_resampled: float | None

    def lines(self) -> list[str]:
        """In a cell."""
        interval = between(self.comparison.interval, sign=True)
        difference = f"{signed(self.comparison.difference)} {interval}".rstrip()
        line = f"− {model_name(self.other)}: {difference}"
        return [line] if self.p is None else [line, f"p={p_value(self.p)}"]

    def record(self) -> dict[str, Any]:
        """For a CSV file."""
        return {
            "against": self.other,
            "difference": self.comparison.difference,
            **interval_record(self.comparison.interval, "difference_"),
            "test": self.comparison.test,
            "p_holm": self.p,
        }


def compare_pairs(pairs: Mapping[Any, Pair]) -> dict[Any, Tested]:
    """Test all pairs whose networks were trained on equal data.

    Args:
        pairs: by tuples that end with the protocol. Protocols are views of the same runs, so Holm's
            correction is made under each.
    """
    tests = {
        key: compare(
            pair.ours.values,
            pair.base.values,
            lower_is_better=pair.lower_is_better,
            paired=pair.same_model or (pair.ours.paired and pair.base.paired),
            overlap=pair.ours.overlap,
        )
        for key, pair in pairs.items()
        if pair.ours.trained_on == pair.base.trained_on
    }
    tested: dict[Any, Tested] = {}
    in_order = sorted(tests, key=lambda key: pairs[key].rank)
    for family in group_by(in_order, lambda key: (key[-1], pairs[key].fake)).values():
        labels = [pairs[key].counts_as for key in family]
        usual = holm([tests[key].p for key in family], labels)
        resampled = holm([_resampled_else_usual(tests[key]) for key in family], labels)
        for key, p, p_resampled in zip(family, usual, resampled, strict=True):
            test = tests[key]
            p_resampled = None if test.p_resampled is None else p_resampled
            tested[key] = Tested(pairs[key].other, test, p, p_resampled)
    return {key: tested[key] for key in tests}


def _resampled_else_usual(test: Comparison) -> float | None:
    return test.p if test.p_resampled is None else test.p_resampled


def _squared(runs: Sequence[Run], protocol: str) -> Spread | None:
    values = [errors[protocol] for run in runs if protocol in (errors := squared_errors(run))]
    return spread(values, lower_is_better=True) if len(values) == len(runs) else None


@lru_cache(maxsize=4096)  # tables, figures and the page ask, and every time the record is read
def squared_errors(run: Run) -> Mapping[str, float]:
    """Mean squared test error at the epoch of the score, by protocol; empty if not recorded."""
    series = run.series().get("test/mse") or []
    return {
        name: series[epoch]
        for name, epoch in run.epochs.items()
        if epoch < len(series) and series[epoch] is not None
    }
