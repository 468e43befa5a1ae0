"""From what the command line says to the jobs of a sweep, as Hydra does it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep
from hydra.types import HydraContext
from omegaconf import DictConfig

from focusing.errors import UserError
from focusing.sweep.outcome import Job

MAX_JOBS = 100_000
"""Of a sweep; Hydra writes all of them down before the first begins."""


def parse(
    context: HydraContext, params: Mapping[str, object] | None, arguments: Sequence[str]
) -> list[Override]:
    """What is swept and what is fixed.

    Args:
        context: Hydra's.
        params: ``hydra.sweeper.params``: the sweep of an experiment.
        arguments: the command line, which wins.
    """
    parser = OverridesParser.create(config_loader=context.config_loader)
    given = [f"{key}={value}" for key, value in (params or {}).items()]
    found = {each.get_key_element(): each for each in parser.parse_overrides(given)}
    for each in parser.parse_overrides(list(arguments)):
        found.pop(each.get_key_element(), None)  # to keep its place among the arguments
        found[each.get_key_element()] = each
    return list(found.values())


def expand(overrides: Iterable[Override]) -> list[Job]:
    """All combinations."""
    overrides = list(overrides)
    if math.prod(map(_count, overrides)) > MAX_JOBS:
        raise UserError(f"These are more than {MAX_JOBS} jobs: sweep over fewer values.")
    [combinations] = BasicSweeper.split_arguments(overrides, max_batch_size=None)
    return [Job(index, tuple(each)) for index, each in enumerate(combinations)]


def _count(override: Override) -> float:
    """How many values an override has, without making them."""
    swept = override.value()
    if isinstance(swept, RangeSweep):
        if not swept.step:
            raise UserError(f"{override.input_line}: the step of a range is not 0.")
        return max(0.0, ((swept.stop or 0) - (swept.start or 0)) / swept.step)
    return len(swept.list) if isinstance(swept, ChoiceSweep) else 1


def is_stack(config: DictConfig, arguments: Sequence[str]) -> bool:
    """Whether all trials are one job; not those that the command line chooses."""
    chosen = any(each.startswith("sweep.trial=") for each in arguments)
    return bool(config.sweep.stacked) and not chosen


def validate(context: HydraContext, config: DictConfig, jobs: Sequence[Job]) -> None:
    """Compose enough jobs to know that no name is wrong, before any of them runs.

    Hydra composes all, which takes minutes for a thousand jobs. Here every key occurs once and
    every choice of a group once; a wrong value beyond that is found by its own job.
    """
    seen: set[str] = set()
    groups: dict[str, bool] = {}
    for job in jobs:
        marks = set()
        for override in job.overrides:
            key = override.partition("=")[0]
            if key not in groups:
                name = key.lstrip("+~").partition("@")[0]
                groups[key] = bool(context.config_loader.get_group_options(name))
            marks.add(override if groups[key] else key)
        if not marks <= seen:
            context.config_loader.load_sweep_config(config, list(job.overrides))
            seen |= marks
