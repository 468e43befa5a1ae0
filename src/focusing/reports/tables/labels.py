"""What settings are called, in few words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from focusing.reports.names import model_name
from focusing.reports.tables import NOTHING, Cell, Column, text
from focusing.reports.tables.overrides import planned_settings
from focusing.reports.tables.settings import Setting, shown

UNCHANGED, USUAL = "unchanged", "as most"
SEVERAL = 3
"""So many options that were swept have one column together."""


def option_columns(found: Sequence[Setting]) -> tuple[list[Column], list[list[Cell]]]:
    """Columns for what was swept, and their cells for each setting."""
    names = list(found[0].options)
    if len(names) < SEVERAL:
        rows = [list(map(text, each.options.values())) for each in found]
        return [Column(name, "right") for name in names], rows
    return [Column("setting")], [[text(name)] for name in labels(found, models=False)]


def short_labels(found: Sequence[Setting]) -> list[tuple[str, ...]]:
    """Options of each setting as they are typed, without those that need no mention if many."""
    if found and len(found[0].options) < SEVERAL:
        return [each.label() for each in found]
    return [tuple(name.split(", ")) for name in labels(found, models=False)]


def labels(found: Sequence[Setting], *, models: bool = True) -> list[str]:
    """What tells each setting from the others: what the experiment itself has is left out.

    If that is not known, what most of them have. It stays where two settings of the same data would
    have the same name.

    Args:
        found: the settings.
        models: names begin with the model, if there are several.
    """
    several = models and len({each.model for each in found}) > 1
    common = _common(found)
    short = [_name(each, _usual(each, common), several) for each in found]
    keys = {(each.data, each.model, name) for each, name in zip(found, short, strict=True)}
    return short if len(keys) == len(found) else [_name(each, {}, several) for each in found]


def _name(each: Setting, usual: Mapping[str, Any], several: bool) -> str:
    words = [*([model_name(each.model)] if several else []), *_options(each, usual)]
    return ", ".join(words) or (USUAL if planned_settings(each.runs[0]) is None else UNCHANGED)


def _options(each: Setting, usual: Mapping[str, Any]) -> list[str]:
    word = len(each.options) == 1 and not {"data.seed", "config"} & each.values.keys()
    pairs = zip(each.options.items(), each.values.items(), strict=True)
    return [
        printed if word and isinstance(value, str) else f"{name}={printed}"
        for (name, printed), (whole, value) in pairs
        if printed != NOTHING and not (whole in usual and usual[whole] == value)
    ]


def _usual(each: Setting, common: Mapping[str, Any]) -> Mapping[str, Any]:
    if len(each.values) == 1:  # nothing is left out
        return {}
    plan = planned_settings(each.runs[0])
    return common if plan is None else plan


def _common(found: Sequence[Setting]) -> dict[str, Any]:
    """Options that more than half of the settings have."""
    counts = Counter(pair for each in found for pair in each.about().items())
    often = {pair for pair, count in counts.items() if count > len(found) / 2}
    return {
        name: value
        for each in found
        for name, value in each.values.items()
        if (name, shown(value)) in often
    }
