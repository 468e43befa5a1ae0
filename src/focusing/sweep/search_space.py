"""What ``hydra/sweeper=optuna`` searches: Hydra's sweeps, as Optuna's distributions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep

from focusing.errors import UserError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


def split(overrides: Iterable[Override]) -> tuple[dict[str, BaseDistribution], list[str]]:
    """What is searched, option -> distribution; and what is fixed."""
    space: dict[str, BaseDistribution] = {}
    fixed: list[str] = []
    for each in overrides:
        key = each.get_key_element()
        if each.is_sweep_override():
            space[key] = _distribution(each)
        else:
            fixed.append(f"{key}={each.get_value_element_as_str()}")
    if not space:
        raise UserError(
            "hydra/sweeper=optuna has nothing to search: give values, as in "
            "optim.lr='tag(log,interval(1e-4,1))' model=dense,focus_s."
        )
    return space, fixed


def _distribution(override: Override) -> BaseDistribution:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    sweep = override.value()
    if isinstance(sweep, RangeSweep):
        values = sorted(sweep.range())
        if not values:
            raise UserError(f"{override.input_line} is empty.")
        low, high, step = values[0], values[-1], abs(sweep.step)
        if isinstance(low, int):
            return IntDistribution(low, int(high), step=int(step))
        return FloatDistribution(float(low), float(high), step=float(step))
    if isinstance(sweep, IntervalSweep):
        assert sweep.start is not None  # noqa: S101 - the parser has seen to it
        assert sweep.end is not None  # noqa: S101
        log = "log" in sweep.tags
        if not sweep.start < sweep.end or (log and sweep.start <= 0):
            raise UserError(f"{override.input_line} is not an interval that can be searched.")
        if isinstance(sweep.start, int) and isinstance(sweep.end, int):
            return IntDistribution(sweep.start, sweep.end, log=log)
        return FloatDistribution(sweep.start, sweep.end, log=log)
    return CategoricalDistribution(list(override.sweep_string_iterator()))


def examples(space: Mapping[str, Any]) -> list[list[str]]:
    """Overrides in which every choice occurs, to see whether they can be composed."""
    choices = {key: list(getattr(each, "choices", ())) for key, each in space.items()}
    values = {key: choices[key] or [each.low] for key, each in space.items()}
    return [
        [f"{key}={each[index % len(each)]}" for key, each in values.items()]
        for index in range(max(map(len, values.values())))
    ]


def grid(space: Mapping[str, BaseDistribution]) -> list[dict[str, Any]]:
    """All points of a space without intervals."""
    return [
        dict(zip(space, values, strict=True))
        for values in itertools.product(*(_values(key, each) for key, each in space.items()))
    ]


def _values(key: str, distribution: Any) -> list[Any]:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    if isinstance(distribution, IntDistribution) and not distribution.log:
        return list(range(distribution.low, distribution.high + 1, distribution.step))
    if getattr(distribution, "step", None) and not distribution.log:
        count = round((distribution.high - distribution.low) / distribution.step) + 1
        return [distribution.low + index * distribution.step for index in range(count)]
    raise UserError(f"hydra.sweeper.sampler=grid needs values, not an interval, for {key}.")
