"""What an experiment plans: its unchanged options, how runs differ from them, its commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from focusing.compose import compose_config
from focusing.config import PAPER_EDITION
from focusing.reports.names import SMALL_SIZES, model_name
from focusing.reports.paper import published_tables
from focusing.reports.tables import NOTHING
from focusing.results.collect import Run
from focusing.results.frame import TRIAL_OPTIONS, flat_settings, settings, show_value

if TYPE_CHECKING:
    from focusing.reports.settings import Setting

TRIALS_EXPERIMENT = "table1"
UNCHANGED, AS_MOST = "unchanged", "as most"
"""Labels of a setting that has the options of its experiment, or those of most settings."""
MAX_OPTION_COLUMNS = 2
"""Most options that have columns of their own; more share one column."""
NEUTRAL_OPTIONS = ("data.on_missing",)
"""Options that do not change results. The data source that was used is in the record."""
LIMIT_OPTIONS = ("data.limit_train", "data.limit_test", "trainer.limit_batches")
"""Options that reduce the data of any experiment."""
AMBIGUOUS_OPTIONS = {"data.seed", "data.noise", "config"}
"""Options whose values are unclear without the option's name."""


def changes(run: Run) -> dict[str, str] | None:
    """Options in which a run differs from its experiment: name -> command-line override.

    None if the experiment is not one of the paper's, or its config cannot be composed here.
    """
    if run.experiment not in (*published_tables(), TRIALS_EXPERIMENT):
        return None
    planned = planned_settings(run)
    if planned is None:
        return None
    if run.trial is not None:
        planned = {name: value for name, value in planned.items() if name not in TRIAL_OPTIONS}
    own, changed = settings(run), {}
    for name, value in sorted(own.items()):
        added = name not in planned
        if name not in NEUTRAL_OPTIONS and (added or planned[name] != value):
            sign = "+" if added and name != "protocol.holdout" else ""
            changed[name] = f"{sign}{name}={show_value(value)}"
    for name in planned:
        if name.startswith("callbacks.") and name.endswith("._target_") and name not in own:
            changed[name] = f"~{name.removesuffix('._target_')}"
    return changed


def as_overrides(flat: Mapping[str, Any], keys: Iterable[str]) -> tuple[str, ...]:
    """Options as command-line overrides; those that the model lacks are left out."""
    return tuple(f"{key}={show_value(flat[key])}" for key in keys if key in flat)


def limits(run: Run) -> tuple[str, ...]:
    """Overrides that reduced the data of a run; small sizes have their own limits."""
    if run.size in SMALL_SIZES:
        return ()
    own = settings(run)
    return as_overrides(own, [name for name in LIMIT_OPTIONS if own.get(name) is not None])


def planned_settings(run: Run) -> Mapping[str, Any] | None:
    """Unchanged settings of a run's experiment; None if they cannot be composed here."""
    config = composed(run.experiment, run.size, run.variant, run.data, run.model)
    return None if config is None else flat_settings(config)


def is_unchanged(setting: Setting) -> bool:
    """Whether a setting has its experiment's options; True if these are unknown."""
    planned = planned_settings(setting.runs[0])
    return planned is None or all(
        planned.get(name) == value for name, value in setting.values.items()
    )


@cache  # it takes 0.4 s
def composed(
    experiment: str, size: str, variant: str, data: str, model: str
) -> Mapping[str, Any] | None:
    """Compose the unchanged config of an experiment; None if a part of it is unknown here."""
    groups = {"experiment": experiment, "size": size, "variant": variant}
    groups |= {"data": data, "model": model}
    try:
        config = compose_config(*(f"{group}={choice}" for group, choice in groups.items()))
        return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]
    except (HydraException, OmegaConfBaseException):  # a data set or network of the user's own
        return None


def command(
    experiment: str, size: str, variant: str, options: Iterable[str], protocol: str = "best_test"
) -> str:
    """Command that makes runs of an experiment."""
    groups = {"size": size, "variant": variant, "protocol": protocol}
    changed = [f"{k}={v}" for k, v in groups.items() if v not in (PAPER_EDITION[k], "unstated")]
    typed = [option for option in options if "=" in option or option.startswith("~")]
    quoted = [f"'{word}'" if any(sign in word for sign in "[]() ") else word for word in typed]
    return " ".join(["python train.py", f"experiment={experiment}", *quoted, *changed])


def show_option(value: Any) -> str:
    """Print an option's value; a dash if the model lacks the option."""
    return NOTHING if value is None else show_value(value)


def short_labels(settings: Sequence[Setting]) -> list[tuple[str, ...]]:
    """Options of each setting as ``name=value``; of many options only those that differ."""
    if settings and len(settings[0].options) <= MAX_OPTION_COLUMNS:
        return [setting.label() for setting in settings]
    return [tuple(name.split(", ")) for name in labels(settings, models=False)]


def labels(settings: Sequence[Setting], *, models: bool = True) -> list[str]:
    """Name each setting by the options in which it differs from its experiment.

    If the experiment's options are unknown, those that most settings share are left out instead.
    Nothing is left out where two settings on the same data would get the same name.

    Args:
        settings: settings of one edition.
        models: start names with the model, if there are several.
    """
    several = models and len({setting.model for setting in settings}) > 1
    counts = Counter(pair for setting in settings for pair in setting.columns().items())
    common = {
        name: value
        for setting in settings
        for name, value in setting.values.items()
        if counts[name, show_option(value)] > len(settings) / 2
    }
    short = [_label(setting, common, several) for setting in settings]
    keys = {(s.data, s.source, s.model, name) for s, name in zip(settings, short, strict=True)}
    if len(keys) == len(settings):
        return short
    return [_label(setting, None, several) for setting in settings]


def _label(setting: Setting, common: Mapping[str, Any] | None, several: bool) -> str:
    """Name a setting; without ``common`` no option is left out."""
    planned = planned_settings(setting.runs[0])
    left_out = common if planned is None else planned
    if common is None or len(setting.values) == 1:
        left_out = {}
    only_value = len(setting.options) == 1 and not AMBIGUOUS_OPTIONS & setting.values.keys()
    pairs = zip(setting.options.items(), setting.values.items(), strict=True)
    options = [
        printed if only_value and isinstance(value, str) else f"{name}={printed}"
        for (name, printed), (whole, value) in pairs
        if printed != NOTHING and not (left_out and whole in left_out and left_out[whole] == value)
    ]
    words = [*([model_name(setting.model)] if several else []), *options]
    return ", ".join(words) or (AS_MOST if planned is None else UNCHANGED)
