"""What the settings of an experiment are compared with: the dense network, or nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from focusing.reports.names import dense_twin, model_name
from focusing.reports.tables import between, p_value, signed
from focusing.reports.tables.labels import UNCHANGED
from focusing.reports.tables.overrides import planned_settings
from focusing.reports.tables.settings import Setting
from focusing.results.frame import group_by
from focusing.results.stats import Comparison, compare, holm


@dataclass(frozen=True)
class Against:
    """A comparison of a setting under a protocol.

    Attributes:
        other: name of the model that it is compared with, or ``unchanged``.
        found: the comparison.
        p: after Holm's correction over the table under the same protocol.
    """

    other: str
    found: Comparison
    p: float | None

    def lines(self) -> list[str]:
        """In a cell."""
        interval = between(self.found.interval, sign=True)
        difference = f"{signed(self.found.difference)} {interval}".rstrip()
        told = f"− {model_name(self.other)}: {difference}"
        return [told] if self.p is None else [told, f"p={p_value(self.p)}"]

    def record(self) -> dict[str, Any]:
        """For a CSV file."""
        interval = self.found.interval
        return {
            "against": self.other,
            "difference": self.found.difference,
            "difference_low": interval and interval.low,
            "difference_high": interval and interval.high,
            "test": self.found.test,
            "p_holm": self.p,
        }


def comparisons(
    found: Sequence[Setting], protocols: Sequence[str]
) -> dict[tuple[int, str], Against]:
    """What can be compared, by place of the setting and protocol."""
    every: dict[tuple[int, str], Against] = {}
    bases = [_base(found, each) for each in found]
    for name in protocols:
        tested: dict[tuple[int, str], tuple[str, Comparison]] = {}
        for number, (each, base) in enumerate(zip(found, bases, strict=True)):
            if base is None or name not in each.scores or name not in base.scores:
                continue
            ours, theirs = each.scores[name], base.scores[name]
            if ours.trained_on != theirs.trained_on:
                continue
            same = each.model == base.model  # equal seeds begin with equal weights
            result = compare(
                ours.values,
                theirs.values,
                lower_is_better=each.runs[0].lower_is_better,
                paired=same or (ours.paired and theirs.paired),
            )
            tested[number, name] = UNCHANGED if same else base.model, result
        # Fake data say nothing on others: they are a family of their own.
        families = group_by(tested, lambda key: found[key[0]].runs[0].source == "fake")
        for places in families.values():
            corrected = holm([tested[place][1].p for place in places])
            for place, p in zip(places, corrected, strict=True):
                every[place] = Against(*tested[place], p)
    return every


def _base(found: Sequence[Setting], each: Setting) -> Setting | None:
    """The dense network of the same setting; where there is none, the same network as planned.

    Settings of the data are no such thing: what would change is what the network is tested on.
    """
    if any(other.model == dense_twin(each.model) for other in found):
        return next((other for other in found if _is_twin(other, each)), None)
    if any(name.startswith("data.") for name in each.values):
        return None
    alike = [other for other in found if (other.data, other.model) == (each.data, each.model)]
    plain = planned_settings(each.runs[0]) if len(alike) > 1 else None
    same = [
        other
        for other in alike
        if plain is not None and all(plain.get(k) == value for k, value in other.values.items())
    ]
    return same[0] if len(same) == 1 and same[0] is not each else None


def _is_twin(dense: Setting, other: Setting) -> bool:
    if dense.model == other.model or dense.model != dense_twin(other.model):
        return False
    return dense.data == other.data and all(
        value is None or value == other.values[name]  # the dense network does not have the option
        for name, value in dense.values.items()
    )
