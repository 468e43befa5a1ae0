"""The settings that an experiment swept: their runs, scores, names, and what they compare with.

A setting is compared with the dense network of the same setting; where there is none, with the same
network without any change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd  # type: ignore[import-untyped]

from focusing.config import FOCI_ONLY
from focusing.reports.names import MODELS, PROTOCOLS, dense_twin, model_name
from focusing.reports.tables import (
    NOTHING,
    Cell,
    Column,
    Unit,
    text,
)
from focusing.reports.tables.run_blocks import PER_MODEL, planned_settings
from focusing.reports.tables.scores import Pair, Scored, Tested, compare_pairs, scored
from focusing.results.collect import Run
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
from focusing.results.stats import Spread, spread

UNCHANGED, USUAL = "unchanged", "as most"
MAX_OPTION_COLUMNS = 2
"""More options than this share one column."""
NOT_OF_DENSE = (
    *(f"optim.{name}" for name in (*FOCI_ONLY, "lr_mu", "lr_sigma", "decay_mu", "decay_sigma")),
    *PER_MODEL,
)
"""Options that a dense network has but does not read, or that are chosen for each network: they may
differ between a focused network and its dense twin."""


@dataclass(frozen=True)
class Setting:
    """Runs that differ in their seeds only.

    Attributes:
        data: name of the data set, and where it came from.
        model: name of the model.
        values: what was swept besides; None if the model does not have the option.
        scores: by protocol.
        measured: what callbacks measured, all that is a single number.
        runs: the runs.
    """

    data: tuple[str, str]
    model: str
    values: Mapping[str, Any]
    scores: Mapping[str, Scored]
    measured: Mapping[str, Spread]
    runs: Sequence[Run] = ()

    @property
    def options(self) -> dict[str, str]:
        """What was swept, in print: by the last part of its name, if that is enough."""
        ends = ["seed", *(name.rpartition(".")[2] for name in self.values)]  # that of the run
        return {
            end if ends.count(end) == 1 else name: show_option(value)
            for end, (name, value) in zip(ends[1:], self.values.items(), strict=True)
        }

    @property
    def varied(self) -> bool:
        """Whether every run has generated data of its own."""
        return len({run.data_options.get("seed") for run in self.runs}) > 1

    def label(self) -> tuple[str, ...]:
        """Its options as they are typed."""
        return tuple(f"{name}={value}" for name, value in self.options.items() if value != NOTHING)

    def about(self) -> dict[str, str]:
        """Data, model and options for a CSV file, with whole names."""
        named = {"data": self.data[0], "source": self.data[1], "model": self.model}
        return named | {name: show_option(value) for name, value in self.values.items()}


def show_option(value: Any) -> str:
    """A value in print; a dash if the model does not have the option."""
    return NOTHING if value is None else show_value(value)


def settings_of(runs: Sequence[Run]) -> list[Setting]:
    """All settings of an experiment, in the order of their values."""
    versions = data_versions(runs)
    flat = {run: {**settings(run), "source": _source(run, versions[run])} for run in runs}
    rows = with_varied_data(runs, flat)
    known = ["data.name", "model.name", "source"]
    swept = varying_options([options for _, options in rows], known)
    same = group_by(
        rows, lambda row: tuple(show_value(row[1].get(name)) for name in (*known, *swept))
    )
    divisions = [
        (members[0][1], mark, replicates)
        for members in same.values()
        for mark, replicates in split_replicates([run for run, _ in members])
    ]
    several = any(mark for _, mark, _ in divisions)
    settings_ = []
    for options, mark, replicates in divisions:
        first = replicates[0]
        values = {name: options.get(name) for name in swept} | ({"config": mark} if several else {})
        scores = {name: scored(replicates, name) for name in PROTOCOLS}
        settings_.append(
            Setting(
                (first.data, options["source"]),
                first.model,
                values,
                {name: score for name, score in scores.items() if score is not None},
                _spreads(replicates),
                replicates,
            )
        )
    return sorted(settings_, key=_order)


def _source(run: Run, version: int) -> str:
    return f"{run.source}, data version {version + 1}" if version else run.source


def _spreads(runs: Sequence[Run]) -> dict[str, Spread]:
    """Mean and so on of every measurement that any of the runs has."""
    spreads = {}
    for name, column in pd.DataFrame([measurements(run) for run in runs]).items():
        summary = spread(column.dropna().tolist())
        if name.endswith("(%)") or name == SECONDS:  # a share, or at least not below 0
            unit = Unit("accuracy" if name.endswith("(%)") else SECONDS)
            summary = replace(summary, interval=unit.possible(summary.interval))
        spreads[name] = summary
    return spreads


def _order(setting: Setting) -> tuple[Any, ...]:
    models = [*MODELS, setting.model]
    options = map(_comparable, setting.values.values())
    return *setting.data, *options, models.index(setting.model)


def _comparable(value: Any) -> tuple[Any, ...]:
    """Numbers by value, lists by their elements, before all else."""
    elements = value if isinstance(value, list) else [value]
    numeric = all(isinstance(element, int | float) for element in elements)
    return (0, *elements) if numeric else (1, show_value(value))


def varied_note(settings: Sequence[Setting]) -> list[str]:
    """What replicates are where they are no repeats on the same data: a sentence, or none."""
    seeds = sorted({run.seed for setting in settings if setting.varied for run in setting.runs})
    if not seeds:
        return []
    network = f"the network's seed is {', '.join(map(str, seeds))}"
    return [f"data.seed varied: each run has data of its own, the same for all models; {network}."]


def option_columns(settings: Sequence[Setting]) -> tuple[list[Column], list[list[Cell]]]:
    """Columns for what was swept, and their cells by setting."""
    names = list(settings[0].options)
    if len(names) <= MAX_OPTION_COLUMNS:
        cells = [list(map(text, setting.options.values())) for setting in settings]
        return [Column(name, "right") for name in names], cells
    return [Column("setting")], [[text(name)] for name in labels(settings, models=False)]


def short_labels(settings: Sequence[Setting]) -> list[tuple[str, ...]]:
    """Options of all settings as they are typed; of many only those that need a mention."""
    if settings and len(settings[0].options) <= MAX_OPTION_COLUMNS:
        return [setting.label() for setting in settings]
    return [tuple(name.split(", ")) for name in labels(settings, models=False)]


def labels(settings: Sequence[Setting], *, models: bool = True) -> list[str]:
    """What tells a setting from the others; what the experiment itself has is left out.

    If that is not known, what most settings have is left out. It stays where two settings of the
    same data would have the same name.

    Args:
        settings: the settings.
        models: names begin with the model, if there are several.
    """
    several = models and len({setting.model for setting in settings}) > 1
    common = _common(settings)
    short = [_label(setting, _usual(setting, common), several) for setting in settings]
    named = zip(settings, short, strict=True)
    keys = {(setting.data, setting.model, name) for setting, name in named}
    if len(keys) == len(settings):
        return short
    return [_label(setting, {}, several) for setting in settings]


def _label(setting: Setting, usual: Mapping[str, Any], several: bool) -> str:
    """The options of a setting without the usual ones; a single word needs no name."""
    word = len(setting.options) == 1 and not {"data.seed", "config"} & setting.values.keys()
    pairs = zip(setting.options.items(), setting.values.items(), strict=True)
    options = [
        printed if word and isinstance(value, str) else f"{name}={printed}"
        for (name, printed), (whole, value) in pairs
        if printed != NOTHING and not (whole in usual and usual[whole] == value)
    ]
    words = [*([model_name(setting.model)] if several else []), *options]
    return ", ".join(words) or (USUAL if planned_settings(setting.runs[0]) is None else UNCHANGED)


def _usual(setting: Setting, common: Mapping[str, Any]) -> Mapping[str, Any]:
    if len(setting.values) == 1:  # nothing is left out
        return {}
    planned = planned_settings(setting.runs[0])
    return common if planned is None else planned


def _common(settings: Sequence[Setting]) -> dict[str, Any]:
    """Options that more than half of the settings have."""
    counts = Counter(pair for setting in settings for pair in setting.about().items())
    return {
        name: value
        for setting in settings
        for name, value in setting.values.items()
        if counts[name, show_option(value)] > len(settings) / 2
    }


def comparisons(
    settings: Sequence[Setting], protocols: Sequence[str]
) -> dict[tuple[int, str], Tested]:
    """What can be compared, by place of the setting and protocol."""
    bases = [_base(settings, setting) for setting in settings]
    pairs = {
        (place, protocol): Pair(
            setting.scores[protocol],
            base.scores[protocol],
            setting.runs[0].lower_is_better,
            setting.runs[0].source == "fake",
            counts_as=place,
            other=UNCHANGED if setting.model == base.model else base.model,
            same_model=setting.model == base.model,
        )
        for protocol in protocols
        for place, (setting, base) in enumerate(zip(settings, bases, strict=True))
        if base and protocol in setting.scores and protocol in base.scores
    }
    return compare_pairs(pairs)


def _base(settings: Sequence[Setting], setting: Setting) -> Setting | None:
    """The dense network of the same setting; where there is none, the same network as planned.

    Changes of the data have no such base: they change what the network is tested on.
    """
    if any(other.model == dense_twin(setting.model) for other in settings):
        twins = [other for other in settings if _is_twin(other, setting)]
        return max(twins, key=lambda twin: _equal_options(twin, setting), default=None)
    if any(name.startswith("data.") for name in setting.values):
        return None
    same = [
        other for other in settings if (other.data, other.model) == (setting.data, setting.model)
    ]
    planned = planned_settings(setting.runs[0]) if len(same) > 1 else None
    unchanged = [
        other
        for other in same
        if planned is not None
        and all(planned.get(name) == value for name, value in other.values.items())
    ]
    return unchanged[0] if len(unchanged) == 1 and unchanged[0] is not setting else None


def _is_twin(dense: Setting, other: Setting) -> bool:
    if dense.model == other.model or dense.model != dense_twin(other.model):
        return False
    return dense.data == other.data and all(
        value is None or value == other.values[name] or name in NOT_OF_DENSE
        for name, value in dense.values.items()
    )


def _equal_options(dense: Setting, other: Setting) -> int:
    return sum(value == other.values[name] for name, value in dense.values.items())
