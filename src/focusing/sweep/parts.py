"""A table whose rows differ in more than one way: several sweeps, one behind the other.

``hydra.sweeper.parts`` of an experiment names sweeps, each option -> values as in
``hydra.sweeper.params``, which they have in common. The command line changes an option in all of
them; a choice of a group (``data=imdb``) keeps the parts that have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.types import HydraContext

from focusing.errors import UserError
from focusing.sweep.expansion import expand, parse
from focusing.sweep.outcome import Job

Values = Mapping[str, object]


def expand_parts(
    context: HydraContext,
    params: Values | None,
    parts: Mapping[str, Values | None] | None,
    arguments: Sequence[str],
) -> list[Job]:
    """All jobs of all parts.

    Args:
        context: Hydra's.
        params: what all parts sweep.
        parts: by name; None leaves one out; without any, ``params`` is the only one.
        arguments: the command line, which wins.
    """
    found: list[Job] = []
    for overrides in parse_parts(context, params, parts, arguments).values():
        jobs = expand(overrides)
        found += [Job(len(found) + place, job.overrides) for place, job in enumerate(jobs)]
    return found


def parse_parts(
    context: HydraContext,
    params: Values | None,
    parts: Mapping[str, Values | None] | None,
    arguments: Sequence[str],
) -> dict[str, list[Override]]:
    """What each part sweeps and fixes, of those that the command line keeps; one at least."""
    found = {}
    for name, part in (parts or {"all": {}}).items():
        kept = None if part is None else _narrow(context, part, arguments)
        if kept is not None:
            found[name] = parse(context, {**(params or {}), **(part or {})}, kept)
    if not found:
        raise UserError(f"No part of this experiment has {' '.join(arguments)}.")
    return found


def _narrow(context: HydraContext, part: Values, arguments: Sequence[str]) -> list[str] | None:
    """The command line for a part: of the choices it names, those that the part has."""
    parser = OverridesParser.create(config_loader=context.config_loader)
    narrowed = []
    for argument, override in zip(arguments, parser.parse_overrides(list(arguments)), strict=True):
        key = override.get_key_element()
        if key in part and context.config_loader.get_group_options(key):
            [own] = parser.parse_overrides([f"{key}={part[key]}"])
            common = [each for each in _values(override) if each in _values(own)]
            if not common:
                return None
            argument = f"{key}={','.join(common)}"
        narrowed.append(argument)
    return narrowed


def _values(override: Override) -> list[str]:
    if override.is_sweep_override():
        return list(override.sweep_string_iterator())
    return [override.get_value_element_as_str()]
