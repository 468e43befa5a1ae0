"""What a run changed of its experiment: its config against the one that the experiment composes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from focusing.compose import config_dir, prepare_hydra
from focusing.reports.paper import published_tables
from focusing.results.collect import Run
from focusing.results.frame import TRIAL_OPTIONS, flat_settings, settings, show_value

TRIALS = "table1"
TARGET = "._target_"
HARMLESS = ("data.on_missing",)
"""Options that change no result: a source that was taken instead is part of the record."""
LIMITS = ("data.limit_train", "data.limit_test", "trainer.limit_batches")
"""Options that make any experiment a smaller one."""


def overrides(run: Run) -> tuple[str, ...] | None:
    """Options of a run that are not its experiment's, as they are typed.

    None if it is not known what the experiment would have: it is not the paper's.
    """
    plain = planned(run.experiment, run.size, run.variant, run.data, run.model)
    if plain is None:
        return None
    wanted = flat_settings(plain)
    if run.trial is not None:
        for name in TRIAL_OPTIONS:
            wanted.pop(name, None)
    own = settings(run)
    gone = [
        f"~{name.removesuffix(TARGET)}"
        for name in wanted
        if name.startswith("callbacks.") and name.endswith(TARGET) and name not in own
    ]
    compared = [name for name in own if name not in HARMLESS]
    changed = [name for name in compared if name not in wanted or own[name] != wanted[name]]
    signs = {name: "" if name in wanted or name == "protocol.holdout" else "+" for name in changed}
    return (*(f"{signs[name]}{name}={show_value(own[name])}" for name in sorted(changed)), *gone)


def limits(run: Run) -> tuple[str, ...]:
    """The same of any experiment, as far as it can be told: what made its data fewer."""
    if run.size in ("smoke", "quick"):  # they have limits of their own
        return ()
    own = settings(run)
    return tuple(f"{name}={show_value(own[name])}" for name in LIMITS if own.get(name) is not None)


def planned(
    experiment: str, size: str, variant: str, data: str, model: str
) -> Mapping[str, Any] | None:
    """The config of an experiment of the paper without any change; None if it has none."""
    if experiment not in (*published_tables(), TRIALS):
        return None
    return composed(experiment, size, variant, data, model)


def planned_settings(run: Run) -> Mapping[str, Any] | None:
    """The settings of a run's experiment, whatever it is, without any change; None if not known."""
    config = composed(run.experiment, run.size, run.variant, run.data, run.model)
    return None if config is None else flat_settings(config)


@cache  # it takes 0.4 s
def composed(
    experiment: str, size: str, variant: str, data: str, model: str
) -> Mapping[str, Any] | None:
    """The same of any experiment; None if it is not known here."""
    chosen = {"experiment": experiment, "size": size, "variant": variant}
    chosen |= {"data": data, "model": model}
    prepare_hydra()
    try:
        with initialize_config_dir(str(config_dir()), version_base="1.3"):
            config = compose("train", [f"{group}={choice}" for group, choice in chosen.items()])
            return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]
    except (HydraException, OmegaConfBaseException):  # a data set or network of the user's own
        return None
