"""What an experiment has without any change, what settings changed of it, how to make more."""

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
"""Names of a setting that changes nothing: of its experiment, or of what most settings have."""
MAX_OPTION_COLUMNS = 2
"""More options than this share one column."""
HARMLESS = ("data.on_missing",)
"""Options that change no result: a source that was taken instead is part of the record."""
LIMITS = ("data.limit_train", "data.limit_test", "trainer.limit_batches")
"""Options that make any experiment a smaller one."""


def changes(run: Run) -> dict[str, str] | None:
    """Options of a run that differ from its experiment's: name -> as it is typed.

    None if it is not known what the experiment would have: it is not the paper's.
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
        if name not in HARMLESS and (added or planned[name] != value):
            sign = "+" if added and name != "protocol.holdout" else ""
            changed[name] = f"{sign}{name}={show_value(value)}"
    for name in planned:
        if name.startswith("callbacks.") and name.endswith("._target_") and name not in own:
            changed[name] = f"~{name.removesuffix('._target_')}"
    return changed


def as_overrides(flat: Mapping[str, Any], keys: Iterable[str]) -> tuple[str, ...]:
    """Some options as they are typed; those that a model does not have are left out."""
    return tuple(f"{key}={show_value(flat[key])}" for key in keys if key in flat)


def limits(run: Run) -> tuple[str, ...]:
    """Options that reduced the data of a run of any experiment, as they are typed."""
    if run.size in SMALL_SIZES:  # they have limits of their own
        return ()
    own = settings(run)
    return as_overrides(own, [name for name in LIMITS if own.get(name) is not None])


def planned_settings(run: Run) -> Mapping[str, Any] | None:
    """The settings of a run's experiment without any change; None if it is not known here."""
    config = composed(run.experiment, run.size, run.variant, run.data, run.model)
    return None if config is None else flat_settings(config)


def is_unchanged(setting: Setting) -> bool:
    """Whether a setting is as its experiment has it; also if the experiment is not known here."""
    planned = planned_settings(setting.runs[0])
    return planned is None or all(
        planned.get(name) == value for name, value in setting.values.items()
    )


@cache  # it takes 0.4 s
def composed(
    experiment: str, size: str, variant: str, data: str, model: str
) -> Mapping[str, Any] | None:
    """The config of an experiment without any change; None if it is not known here."""
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
    """What to type to fill cells of an experiment."""
    groups = {"size": size, "variant": variant, "protocol": protocol}
    changed = [f"{k}={v}" for k, v in groups.items() if v not in (PAPER_EDITION[k], "unstated")]
    typed = [option for option in options if "=" in option or option.startswith("~")]
    quoted = [f"'{word}'" if any(sign in word for sign in "[]() ") else word for word in typed]
    return " ".join(["python train.py", f"experiment={experiment}", *quoted, *changed])


def show_option(value: Any) -> str:
    """A value in print; a dash if the model does not have the option."""
    return NOTHING if value is None else show_value(value)


def short_labels(settings: Sequence[Setting]) -> list[tuple[str, ...]]:
    """Options of all settings by their short names; of many only those that need a mention."""
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
    counts = Counter(pair for setting in settings for pair in setting.about().items())
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
    """The options of a setting without the usual ones; a single word needs no name."""
    planned = planned_settings(setting.runs[0])
    usual = common if planned is None else planned
    if common is None or len(setting.values) == 1:  # nothing is left out
        usual = {}
    riddles = {"data.seed", "data.noise", "config"}  # their values say nothing alone
    word = len(setting.options) == 1 and not riddles & setting.values.keys()
    pairs = zip(setting.options.items(), setting.values.items(), strict=True)
    options = [
        printed if word and isinstance(value, str) else f"{name}={printed}"
        for (name, printed), (whole, value) in pairs
        if printed != NOTHING and not (usual and whole in usual and usual[whole] == value)
    ]
    words = [*([model_name(setting.model)] if several else []), *options]
    return ", ".join(words) or (AS_MOST if planned is None else UNCHANGED)
