"""Which runs belong together: editions of experiments, their settings, and their comparisons.

An edition is an experiment at one size and in one variant. A setting is a model with certain
options on certain data; its runs differ in their seeds only. Runs of the paper's experiments are
named by what they changed of the experiment, others by the options that tell them apart.
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
from focusing.reports.scores import Scored, scored
from focusing.reports.tables import NOTHING, Cell, Unit, text
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

UNSPECIFIED = ("optim.drop_last=",)
"""Options of which the paper says nothing: whatever they are, a run is as published."""
NOT_OF_DENSE = (
    *(
        f"optim.{name}"
        for name in (*FOCI_ONLY, "lr_mu", "lr_sigma", "lr_dynamic", "decay_mu", "decay_sigma")
    ),
    "data.pad",
)
"""Options that a dense network has but does not read, or that are chosen for each network: they may
differ between a focused network and its dense twin."""


@dataclass(frozen=True, eq=False)
class Setting:
    """Runs that differ in their seeds only.

    Attributes:
        data: name of the data set.
        source: where the data came from, and their version if the files changed between runs.
        model: name of the model.
        values: what was swept; None if the model does not have the option.
        overrides: what was swept, or changed of an experiment of the paper, as on the command line.
        runs: the runs.
        of_paper: ``overrides`` say what was changed of the paper's experiment.
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
        """Equal for settings that differ in nothing but the model."""
        return self.data, self.source, self.overrides

    @property
    def unit(self) -> Unit:
        """How its scores are written."""
        return Unit(self.runs[0].metric)

    @property
    def fake(self) -> bool:
        """Its data were made up, and say nothing about others."""
        return self.runs[0].source == "fake"

    @property
    def epochs(self) -> int:
        """Number of epochs of the longest run."""
        trainers = [run.config.get("trainer") or {} for run in self.runs]
        return max(int(trainer.get("max_epochs") or 0) for trainer in trainers)

    @property
    def as_published(self) -> bool:
        """The paper's experiment, nothing changed, at full size."""
        changed = [option for option in self.overrides if not option.startswith(UNSPECIFIED)]
        smaller = self.runs[0].size in SIZES[1:]  # less data or fewer epochs
        return not self.fake and not changed and not smaller

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Which setting stands for its data set: the one as published, else the longest."""
        return not self.as_published, -self.epochs, len(self.overrides)

    @property
    def varied(self) -> bool:
        """Whether every run has generated data of its own."""
        return len({run.data_options.get("seed") for run in self.runs}) > 1

    @cached_property
    def scores(self) -> Mapping[str, Scored]:
        """Scores by protocol."""
        every = {protocol: scored(self.runs, protocol) for protocol in PROTOCOLS}
        return {protocol: score for protocol, score in every.items() if score is not None}

    def compare(self, base: Setting, protocol: str) -> Comparison | None:
        """Compare it with another under a protocol; None if they were not trained on equal data."""
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
        """Mean and so on of every measurement that is a single number and that any run has."""
        table = pd.DataFrame([measurements(run) for run in self.runs])
        return {name: _described(name, column.dropna().tolist()) for name, column in table.items()}

    @property
    def options(self) -> dict[str, str]:
        """What was swept, in print: by the last part of its name, if that is enough."""
        ends = ["seed", *(name.rpartition(".")[2] for name in self.values)]  # that of the run
        return {
            end if ends.count(end) == 1 else name: show_option(value)
            for end, (name, value) in zip(ends[1:], self.values.items(), strict=True)
        }

    def label(self) -> tuple[str, ...]:
        """Its options by their short names."""
        return tuple(f"{name}={value}" for name, value in self.options.items() if value != NOTHING)

    def about(self) -> dict[str, str]:
        """Data, model and options for a CSV file, with whole names."""
        named = {"data": self.data, "source": self.source, "model": self.model}
        return named | {name: show_option(value) for name, value in self.values.items()}

    def columns(self) -> dict[str, str]:
        """Data and what was changed, for a CSV file about several models."""
        return {"data": self.data, "source": self.source, "options": " ".join(self.overrides)}

    def head(self) -> Cell:
        """The cell that names its block."""
        return block_head(self.data, self.unit, self.source, *self.overrides)


def _described(name: str, values: Sequence[float]) -> ScoreSummary:
    """A measurement: a share is between none and all, a time not below 0."""
    if name.endswith("(%)"):
        return Unit("accuracy").spread(values)
    return Unit(SECONDS).spread(values) if name == SECONDS else summarize(values)


def block_head(data: str, unit: Unit, *lines: str) -> Cell:
    """The cell that names a data set, its metric and some more."""
    return text(data_name(data) + (" (MAE)" if unit.lower_is_better else ""), *lines)


@dataclass(frozen=True, eq=False)
class Edition:
    """Runs of an experiment, of one size and variant: only these may enter the same mean."""

    experiment: str
    size: str
    variant: str
    runs: Sequence[Run] = ()

    @property
    def about(self) -> dict[str, str]:
        """Its columns in a CSV file."""
        return {"experiment": self.experiment, "size": self.size, "variant": self.variant}

    @property
    def title(self) -> str:
        """The paper's table, or the experiment, in print."""
        published = published_tables().get(self.experiment)
        return published.title if published else f"Experiment {self.experiment}"

    @property
    def words(self) -> str:
        """Size and variant in the title of a table."""
        return f"(size={self.size}, variant={self.variant})"

    def command(self, options: Iterable[str], protocol: str = "best_test") -> str:
        """What to type to make more of its runs."""
        return plans.command(self.experiment, self.size, self.variant, options, protocol)

    @cached_property
    def settings(self) -> list[Setting]:
        """Its settings, in the order of their values."""
        return settings_of(self.runs)

    @cached_property
    def tests(self) -> dict[tuple[Setting, str], Comparison]:
        """What can be compared, by setting and protocol."""
        return compare_settings(self.settings)

    def dense_twin(self, setting: Setting) -> Setting | None:
        """The dense network of the same setting."""
        base = base_of(setting, self.settings)
        return base if base and base.model != setting.model else None

    @property
    def blocks(self) -> dict[tuple[str, str, tuple[str, ...]], dict[str, Setting]]:
        """By data, source and overrides the settings, which differ in the model alone."""
        groups = group_by(self.settings, lambda setting: setting.block)
        return {key: {setting.model: setting for setting in group} for key, group in groups.items()}


def editions_of(runs: Iterable[Run]) -> list[Edition]:
    """Runs by experiment, size and variant; as published first."""
    groups = group_by(runs, lambda run: (run.experiment, run.size, run.variant))
    order = sorted(groups, key=lambda key: (key[0], *edition_order(*key[1:])))
    return [Edition(*key, groups[key]) for key in order]


@lru_cache(maxsize=4)  # all tables and figures ask
def editions(collection: Collection, *, random_trials: bool = False) -> list[Edition]:
    """The editions of all experiments but random trials, or of these only."""
    runs = [run for run in collection.runs if (run.trial is not None) == random_trials]
    return editions_of(runs)


def settings_of(runs: Sequence[Run]) -> list[Setting]:
    """All settings of an edition, in the order of their values."""
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
        typed = (*plans.as_overrides(options, swept), *plans.limits(run))
        rows.append((run, options, tuple(dict.fromkeys(typed))))
    same = group_by(
        rows, lambda row: (*(show_value(row[1].get(name)) for name in (*known, *names)), row[2])
    )
    divisions = [
        (options, typed, mark, replicates)
        for members in same.values()
        for _, options, typed in members[:1]
        for mark, replicates in split_replicates([run for run, _, _ in members])
    ]
    several = any(mark for _, _, mark, _ in divisions)
    groups = [
        Setting(
            replicates[0].data,
            options["source"],
            replicates[0].model,
            {name: options.get(name) for name in names} | ({"config": mark} if several else {}),
            (*typed, mark) if mark else typed,
            replicates,
            replicates[0] in changes,
        )
        for options, typed, mark, replicates in divisions
    ]
    return sorted(groups, key=_order)


def _order(setting: Setting) -> tuple[Any, ...]:
    models = [*MODELS, setting.model]
    options = map(_comparable, setting.values.values())
    rank = setting.rank if setting.of_paper else ()
    return setting.data, setting.source, rank, *options, models.index(setting.model)


def _comparable(value: Any) -> tuple[Any, ...]:
    """Numbers by value, lists by their elements, before all else."""
    elements = value if isinstance(value, list) else [value]
    numeric = all(isinstance(element, int | float) for element in elements)
    return (0, *elements) if numeric else (1, show_value(value))


def compare_settings(
    settings: Sequence[Setting], protocols: Sequence[str] = PROTOCOLS
) -> dict[tuple[Setting, str], Comparison]:
    """Test every setting against its base, where both were trained on equal data.

    Holm's correction is made under each protocol, for protocols are views of the same runs; fake
    data are a family of their own. A data set of the paper counts once, however many lengths it
    was run at.
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
        labels = [_counts_as(setting) for setting, _ in family]
        members = [tests[key] for key in family]
        usual = holm([test.p for test in members], labels)
        resampled = holm(
            [test.p if test.p_resampled is None else test.p_resampled for test in members], labels
        )
        for key, p, p_resampled in zip(family, usual, resampled, strict=True):
            known = tests[key].p_resampled is not None
            p_resampled = p_resampled if known else None
            tests[key] = replace(tests[key], p_holm=p, p_resampled_holm=p_resampled)
    return tests


def _counts_as(setting: Setting) -> Hashable:
    """Tests with the same label count once in Holm's correction."""
    return (setting.data, setting.model) if setting.of_paper else setting


def base_of(setting: Setting, settings: Sequence[Setting]) -> Setting | None:
    """What a setting is compared with: the dense network of the same setting.

    Where there is no dense network at all, the same network as the experiment has it; changes of
    the data have no such base, for they change what the network is tested on.
    """
    if setting.of_paper or any(other.model == dense_twin(setting.model) for other in settings):
        twins = [other for other in settings if _is_twin(other, setting)]
        return max(twins, key=lambda twin: _equal_options(twin, setting), default=None)
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
        value is None or value == other.values[name] or name in NOT_OF_DENSE
        for name, value in dense.values.items()
    )


def _equal_options(dense: Setting, other: Setting) -> int:
    return sum(value == other.values[name] for name, value in dense.values.items())
