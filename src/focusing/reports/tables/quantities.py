"""What was measured in a run besides its scores: movement of the foci, times, sparsity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from focusing.reports.tables import Unit
from focusing.results.run import Run
from focusing.results.stats import Spread, spread

FOCI = {
    "inside_first": ("foci inside at first (%)", 100.0),
    "inside_last": ("foci inside at last (%)", 100.0),
    "moved": ("foci moved", 1.0),
    "widened": ("foci widened (%)", 100.0),
}
"""What a record says about the foci of each layer: its name as a measurement, and the factor."""
CHANGE = "foci inside, change (points)"
STUCK = "foci stuck (%)"
SECONDS = "seconds"
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
        for name, value in _numbers(run):
            found.setdefault(name, []).append(value)
    return {name: _spread(name, values) for name, values in found.items()}


def _spread(name: str, values: Sequence[float]) -> Spread:
    found = spread(values)
    if not name.endswith("(%)"):
        return found
    return replace(found, interval=Unit("accuracy").possible(found.interval))


def stuck_share(run: Run) -> float | None:
    """Percent of the neurons with trained foci that were stuck at the end; None if not counted."""
    layers = (run.measured.get("stuck") or {}).values()
    neurons = sum(layer["neurons"] for layer in layers)
    return 100 * sum(len(layer["stuck"]) for layer in layers) / neurons if neurons else None


def _numbers(run: Run) -> Iterator[tuple[str, float]]:
    means = {}
    for quantity, (name, factor) in FOCI.items():
        values = [layer[quantity] for layer in run.focus.values() if quantity in layer]
        if values:
            means[quantity] = factor * sum(values) / len(values)
            yield name, means[quantity]
        if quantity == "inside_last" and {"inside_first", "inside_last"} <= means.keys():
            yield CHANGE, means["inside_last"] - means["inside_first"]
    share = stuck_share(run)
    if share is not None:
        yield STUCK, share
    yield from _leaves("", {name: each for name, each in run.measured.items() if name != "stuck"})
    if run.seconds is not None:
        yield SECONDS, run.seconds


def _leaves(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _leaves(f"{name}.{key}" if name else str(key), below)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)
