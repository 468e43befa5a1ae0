"""Groups the runs of a report into editions and settings, and compares settings.

An *edition* is an experiment at one size and in one variant; only its runs may be averaged.
A *setting* is a group of replicate runs: the same model and options on the same data, with other
seeds, folds or splits. Settings of the paper's experiments are named by the options that differ
from the experiment's config, settings of other experiments by the options in which they differ from
each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import pandas as pd  # type: ignore[import-untyped]

from focusing.config import FOCI_ONLY
from focusing.reports import plans
from focusing.reports.names import MODELS, PROTOCOLS, SIZES, data_name, dense_twin, edition_order
from focusing.reports.paper import published_tables
from focusing.reports.plans import UNCHANGED, show_option
from focusing.reports.scores import ReplicateScores, replicate_scores
from focusing.reports.tables import NOTHING, Cell, Unit, file_name, text
from focusing.results.collect import Collection, Run
from focusing.results.frame import (
    SECONDS,
    data_versions,
    group_by,
    measurements,
    settings,
    show_value,
    split_replicates,
    varying_options,
    with_varied_data,
)
from focusing.results.stats import Comparison, ScoreSummary, compare, holm, summarize

UNSPECIFIED_BY_PAPER = ("optim.drop_last=",)
"""Overrides that keep a run as published, because the paper does not mention the option."""
IGNORED_BY_DENSE = (
    *(
        f"optim.{name}"
        for name in (*FOCI_ONLY, "lr_mu", "lr_sigma", "lr_dynamic", "decay_mu", "decay_sigma")
    ),
    "data.pad",
)
"""Options in which a focused network and its dense twin may differ: dense layers do not read them,
or they are chosen per network."""


@dataclass(frozen=True, eq=False)
class Setting:
    """Replicate runs of one model with the same options on the same data.

    Attributes:
        data: name of the data set.
        source: where the data came from, with a version if the files changed between runs.
        model: name of the model.
        values: value of every option that differs within the edition; None if the model lacks it.
        overrides: the same as command-line overrides.
        runs: the replicates.
        of_paper: the experiment is the paper's, and ``overrides`` are relative to its config.
    """

    data: str
    source: str
    model: str
    values: Mapping[str, Any]
    overrides: tuple[str, ...]
    runs: Sequence[Run]
    of_paper: bool = False

    @property
    def block(self) -> tuple[str, str, tuple[str, ...]]:
        """Key shared by settings that differ in the model only."""
        return self.data, self.source, self.overrides

    @property
    def unit(self) -> Unit:
        """Unit of its scores."""
        return Unit(self.runs[0].metric)

    @property
    def fake(self) -> bool:
        """Whether it ran on made-up data."""
        return self.runs[0].source == "fake"

    @property
    def epochs(self) -> int:
        """Number of epochs of the longest run."""
        trainers = [run.config.get("trainer") or {} for run in self.runs]
        return max(int(trainer.get("max_epochs") or 0) for trainer in trainers)

    @property
    def as_published(self) -> bool:
        """Whether it repeats the paper's experiment: unchanged, at full size, on real data."""
        unchanged = all(option.startswith(UNSPECIFIED_BY_PAPER) for option in self.overrides)
        reduced = self.runs[0].size in SIZES[1:]
        return unchanged and not reduced and not self.fake

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Sort key: the setting as published comes first, then the longest."""
        return not self.as_published, -self.epochs, len(self.overrides)

    @property
    def varied(self) -> bool:
        """Whether every run has generated data of its own."""
        return len({run.data_options.get("seed") for run in self.runs}) > 1

    @cached_property
    def scores(self) -> Mapping[str, ReplicateScores]:
        """Scores by protocol."""
        scores = {protocol: replicate_scores(self.runs, protocol) for protocol in PROTOCOLS}
        return {protocol: score for protocol, score in scores.items() if score is not None}

    def compare(self, base: Setting, protocol: str) -> Comparison | None:
        """Compare with another setting; None if they were not trained on equal data."""
        ours, theirs = self.scores.get(protocol), base.scores.get(protocol)
        if ours is None or theirs is None or ours.trained_on != theirs.trained_on:
            return None
        same_model = self.model == base.model  # equal seeds begin with equal weights
        return compare(
            ours.values,
            theirs.values,
            other=UNCHANGED if same_model else base.model,
            lower_is_better=self.unit.lower_is_better,
            paired=same_model or (ours.paired and theirs.paired),
            overlap=ours.overlap,
        )

    @cached_property
    def measured(self) -> Mapping[str, ScoreSummary]:
        """Statistics over the runs of every scalar measurement."""
        table = pd.DataFrame([measurements(run) for run in self.runs])
        return {name: _describe(name, column.dropna().tolist()) for name, column in table.items()}

    @property
    def options(self) -> dict[str, str]:
        """Printed option values, by the last part of the option's name where that is unique."""
        ends = ["seed", *(name.rpartition(".")[2] for name in self.values)]  # that of the run
        return {
            end if ends.count(end) == 1 else name: show_option(value)
            for end, (name, value) in zip(ends[1:], self.values.items(), strict=True)
        }

    def label(self) -> tuple[str, ...]:
        """Its options as ``name=value``, with short names."""
        return tuple(f"{name}={value}" for name, value in self.options.items() if value != NOTHING)

    def columns(self) -> dict[str, str]:
        """CSV columns that identify the setting: data, source, model and every option."""
        named = {"data": self.data, "source": self.source, "model": self.model}
        return named | {name: show_option(value) for name, value in self.values.items()}

    def block_columns(self) -> dict[str, str]:
        """CSV columns of its block: data, source and overrides."""
        return {"data": self.data, "source": self.source, "options": " ".join(self.overrides)}

    def head(self) -> Cell:
        """Table cell that names its block."""
        return block_head(self.data, self.unit, self.source, *self.overrides)


def _describe(name: str, values: Sequence[float]) -> ScoreSummary:
    """Statistics of a measurement, with intervals cut to possible shares and times."""
    if name.endswith("(%)"):
        return Unit("accuracy").summarize(values)
    return Unit(SECONDS).summarize(values) if name == SECONDS else summarize(values)


def block_head(data: str, unit: Unit, *lines: str) -> Cell:
    """Table cell with a data set, its metric unless that is accuracy, and further lines."""
    return text(data_name(data) + (" (MAE)" if unit.lower_is_better else ""), *lines)


@dataclass(frozen=True, eq=False)
class Edition:
    """Runs of one experiment, size and variant."""

    experiment: str
    size: str
    variant: str
    runs: Sequence[Run] = ()

    @property
    def columns(self) -> dict[str, str]:
        """CSV columns that identify the edition."""
        return {"experiment": self.experiment, "size": self.size, "variant": self.variant}

    @property
    def title(self) -> str:
        """Printed name: the paper's table, or the experiment."""
        published = published_tables().get(self.experiment)
        return published.title if published else f"Experiment {self.experiment}"

    @property
    def qualifier(self) -> str:
        """Size and variant in the title of a table."""
        return f"(size={self.size}, variant={self.variant})"

    def table_name(self, *prefix: str) -> str:
        """File name of one of its tables."""
        return file_name(*prefix, *self.columns.values())

    def command(self, options: Iterable[str], protocol: str = "best_test") -> str:
        """Command that makes more of its runs."""
        return plans.command(self.experiment, self.size, self.variant, options, protocol)

    @cached_property
    def settings(self) -> list[Setting]:
        """Its settings, in the order of their values."""
        return settings_of(self.runs)

    @cached_property
    def tests(self) -> dict[tuple[Setting, str], Comparison]:
        """Comparison of every setting with its base, by setting and protocol."""
        return compare_settings(self.settings)

    def dense_twin(self, setting: Setting) -> Setting | None:
        """The dense network with the same options on the same data."""
        base = base_of(setting, self.settings)
        return base if base and base.model != setting.model else None

    @property
    def blocks(self) -> dict[tuple[str, str, tuple[str, ...]], dict[str, Setting]]:
        """Settings by block (data, source and overrides), then by model."""
        groups = group_by(self.settings, lambda setting: setting.block)
        return {key: {setting.model: setting for setting in group} for key, group in groups.items()}


def editions_of(runs: Iterable[Run]) -> list[Edition]:
    """Group runs by experiment, size and variant; within an experiment, as published first."""
    groups = group_by(runs, lambda run: (run.experiment, run.size, run.variant))
    order = sorted(groups, key=lambda key: (key[0], *edition_order(*key[1:])))
    return [Edition(*key, groups[key]) for key in order]


@lru_cache(maxsize=4)  # every table and figure asks
def editions(collection: Collection, *, random_trials: bool = False) -> list[Edition]:
    """The editions of all runs that are not random trials, or of the random trials only."""
    runs = [run for run in collection.runs if (run.trial is not None) == random_trials]
    return editions_of(runs)


def settings_of(runs: Sequence[Run]) -> list[Setting]:
    """Group the runs of an edition into settings, in the order of their option values."""
    versions = data_versions(runs)
    flat = {}
    for run in runs:
        version = f", data version {versions[run] + 1}" if versions[run] else ""
        flat[run] = {**settings(run), "source": f"{run.source}{version}"}
    changes = {run: changed for run in runs if (changed := plans.changes(run)) is not None}
    others = with_varied_data([run for run in runs if run not in changes], flat)
    known = ["data.name", "model.name", "source"]
    swept = varying_options([options for _, options in others], known)
    names = [*sorted({name for changed in changes.values() for name in changed}), *swept]
    rows: list[tuple[Run, Mapping[str, Any], tuple[str, ...]]]
    rows = [(run, flat[run], tuple(changed.values())) for run, changed in changes.items()]
    for run, options in others:
        overrides = (*plans.as_overrides(options, swept), *plans.limits(run))
        rows.append((run, options, tuple(dict.fromkeys(overrides))))
    same = group_by(
        rows, lambda row: (*(show_value(row[1].get(name)) for name in (*known, *names)), row[2])
    )
    divisions = [
        (options, overrides, mark, replicates)
        for members in same.values()
        for _, options, overrides in members[:1]
        for mark, replicates in split_replicates([run for run, _, _ in members])
    ]
    several = any(mark for _, _, mark, _ in divisions)
    groups = [
        Setting(
            replicates[0].data,
            options["source"],
            replicates[0].model,
            {name: options.get(name) for name in names} | ({"config": mark} if several else {}),
            (*overrides, mark) if mark else overrides,
            replicates,
            replicates[0] in changes,
        )
        for options, overrides, mark, replicates in divisions
    ]
    return sorted(groups, key=_order)


def _order(setting: Setting) -> tuple[Any, ...]:
    models = [*MODELS, setting.model]
    options = map(_comparable, setting.values.values())
    rank = setting.rank if setting.of_paper else ()
    return setting.data, setting.source, rank, *options, models.index(setting.model)


def _comparable(value: Any) -> tuple[Any, ...]:
    """Sort key of an option value: numbers and lists of numbers by value, then all else as text."""
    elements = value if isinstance(value, list) else [value]
    numeric = all(isinstance(element, int | float) for element in elements)
    return (0, *elements) if numeric else (1, show_value(value))


def compare_settings(
    settings: Sequence[Setting], protocols: Sequence[str] = PROTOCOLS
) -> dict[tuple[Setting, str], Comparison]:
    """Test every setting against its base, where both were trained on equal data.

    Holm's correction is made per protocol, because protocols are views of the same runs; fake data
    are a family of their own. A data set of the paper counts once, at however many lengths it ran.
    """
    bases = {setting: base for setting in settings if (base := base_of(setting, settings))}
    tests = {
        (setting, protocol): test
        for setting in settings
        for protocol in protocols
        if setting in bases and (test := setting.compare(bases[setting], protocol))
    }
    by_rank = sorted(tests, key=lambda key: key[0].rank)
    for family in group_by(by_rank, lambda key: (key[1], key[0].fake)).values():
        labels: list[Hashable] = [
            (setting.data, setting.model) if setting.of_paper else setting for setting, _ in family
        ]  # equal labels count once
        members = [tests[key] for key in family]
        corrected = holm([test.p for test in members], labels)
        resampled = holm(
            [test.p if test.p_resampled is None else test.p_resampled for test in members], labels
        )
        for key, test, p, p_resampled in zip(family, members, corrected, resampled, strict=True):
            resampled_holm = None if test.p_resampled is None else p_resampled
            tests[key] = replace(test, p_holm=p, p_resampled_holm=resampled_holm)
    return tests


def base_of(setting: Setting, settings: Sequence[Setting]) -> Setting | None:
    """The setting to compare with: the dense network with the same options on the same data.

    Without any dense network it is the same network with the experiment's own options. Settings
    that change the data have no such base: they are tested on other data.
    """
    if setting.of_paper or any(other.model == dense_twin(setting.model) for other in settings):
        twins = [other for other in settings if _is_twin(other, setting)]
        own = setting.values.items()
        return max(
            twins, key=lambda twin: sum(twin.values[name] == value for name, value in own),
            default=None,
        )  # fmt: skip
    if any(name.startswith("data.") for name in setting.values):
        return None
    same = [
        other for other in settings
        if (other.data, other.source, other.model) == (setting.data, setting.source, setting.model)
    ]  # fmt: skip
    unchanged = [other for other in same if plans.is_unchanged(other)] if len(same) > 1 else []
    return unchanged[0] if len(unchanged) == 1 and unchanged[0] is not setting else None


def _is_twin(dense: Setting, other: Setting) -> bool:
    if dense.model == other.model or dense.model != dense_twin(other.model):
        return False
    if other.of_paper:
        return dense.block == other.block
    return (dense.data, dense.source) == (other.data, other.source) and all(
        value is None or value == other.values[name] or name in IGNORED_BY_DENSE
        for name, value in dense.values.items()
    )
