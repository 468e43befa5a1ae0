"""What was measured in runs besides their scores: movement of the foci, times, sparsity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from focusing.reports.tables import Unit
from focusing.results.collect import Run
from focusing.results.frame import measurements
from focusing.results.stats import Spread, spread

EXPLAINED = {
    "foci inside": "foci inside: centres among the informative columns",
    "foci moved": "moved: mean distance of centres from their start (inputs lie between 0 and 1)",
    "foci widened": "widened: the aperture grew",
    "foci stuck": "stuck: went nowhere in the last epochs, and the output says nothing about the "
    "targets",
    "seconds": "seconds: of training; without a GPU, of processor time",
}
"""For those who read them first: how a name begins -> what is meant."""


def quantities(runs: Sequence[Run]) -> dict[str, Spread]:
    """All that is a single number; what is no share is in the record's own units."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for name, value in measurements(run).items():
            found.setdefault(name, []).append(value)
    return {name: _spread(name, values) for name, values in found.items()}


def _spread(name: str, values: Sequence[float]) -> Spread:
    found = spread(values)
    if not name.endswith("(%)"):
        return found
    return replace(found, interval=Unit("accuracy").possible(found.interval))
