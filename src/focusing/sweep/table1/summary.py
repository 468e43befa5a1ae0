"""What the trials of Table 1 say, in a few lines; the whole table is made from the records."""

from __future__ import annotations

import math
from collections import Counter
from statistics import fmean, stdev
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from focusing.sweep.table1.trials import Trial


class Comparison:
    """The scores of both networks of each trial.

    Args:
        protocol: whose scores count.

    Attributes:
        pairs: trials with the scores of their dense and their focused network.
        changed: trials that were not possible as drawn, by what was changed.
    """

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.pairs: list[tuple[Trial, float, float]] = []
        self.changed: Counter[str] = Counter()

    def add(
        self, trial: Trial, dense: dict[str, Any] | None, focused: dict[str, Any] | None
    ) -> None:
        """Count a trial, by the records of its runs."""
        if trial.changed:
            self.changed[trial.changed.partition(" for ")[0]] += 1
        records = [each for each in (dense, focused) if each is not None]
        if len(records) == 2 and all(each["status"] == "done" for each in records):
            one, other = (float(each["scores"][self.protocol]["value"]) for each in records)
            self.pairs.append((trial, one, other))

    def difference(self) -> float | None:
        """Mean of focused minus dense; None without trials."""
        return fmean(other - one for _, one, other in self.pairs) if self.pairs else None


def summary(compared: Comparison) -> Group:
    """A table by level and position of the noise, and how many draws were changed."""
    table = Table(
        "noise", "where", "trials", "dense", "focused", "focused - dense", box=SIMPLE_HEAD
    )
    for column in table.columns[2:]:
        column.justify = "right"
    cells: dict[tuple[str, str], list[tuple[float, float]]] = {("none", ""): []}
    cells |= {(f"{x:g} x length", where): [] for x in (0.5, 1.0) for where in ("sides", "left")}
    for trial, *both in compared.pairs:
        key = (f"{trial.noise_level:g} x length", trial.noise_position)
        cells[key if trial.noise_level else ("none", "")].append((both[0], both[1]))
    cells["all", ""] = [(one, other) for _, one, other in compared.pairs]
    for (level, where), scores in cells.items():
        table.add_row(level, where, str(len(scores)), *_statistics(scores))
    total = sum(compared.changed.values())
    what = "; ".join(f"{n} x {change}" for change, n in sorted(compared.changed.items()))
    note = f"Not possible as drawn: {total} trials" + (f" ({what})." if total else ".")
    note += "\nTest accuracy in percent; of differences the mean +- its standard error."
    return Group(table, note)


def _statistics(pairs: list[tuple[float, float]]) -> tuple[str, str, str]:
    """Mean accuracies and the mean difference with its standard error, in percent."""
    if not pairs:
        return "", "", ""
    gaps = [100 * (other - one) for one, other in pairs]
    error = f" +- {stdev(gaps) / math.sqrt(len(gaps)):.2f}" if len(gaps) > 1 else ""
    dense, focused = (100 * fmean(column) for column in zip(*pairs, strict=True))
    return f"{dense:.2f}", f"{focused:.2f}", f"{fmean(gaps):+.2f}{error}"
