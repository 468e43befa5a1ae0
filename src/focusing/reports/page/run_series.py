"""The curves of a run, thinned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

MOST_EPOCHS = 150
"""Points of a curve: no screen shows more, and a thousand run pages stay small."""
DIGITS = 4
Values = Sequence[float | None]


def series_panels(series: Mapping[str, Values], marks: Mapping[str, int]) -> dict[str, Any] | None:
    """Curves by what they measure: ``loss`` of ``train`` and ``test`` in one panel.

    Args:
        series: metric -> value of each epoch.
        marks: protocol -> its epoch, from 0; kept whatever is left out.

    Returns:
        ``epochs`` (from 1), ``of`` (how many there are) and ``panels``; None without curves.
    """
    epochs = max(map(len, series.values()), default=0)
    if not epochs:
        return None
    chosen = thinned(epochs, MOST_EPOCHS, keep=marks.values())
    panels: dict[str, dict[str, list[float | None]]] = {}
    for name, values in series.items():
        part, _, what = name.rpartition("/")
        curve = [short(values[at]) if at < len(values) else None for at in chosen]
        if any(value is not None for value in curve):
            panels.setdefault(what or name, {})[part or name] = curve
    return {
        "epochs": [at + 1 for at in chosen],
        "of": epochs,
        "panels": [{"title": title, "lines": lines} for title, lines in panels.items()],
    }


def thinned(count: int, most: int, keep: Iterable[int] = ()) -> list[int]:
    """Evenly spaced places, the first and the last among them, and those to be kept."""
    even = np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()
    return sorted({*even, *(place for place in keep if 0 <= place < count)})


def short(value: float | None) -> float | None:
    """Few digits; None for what is no number, as when a run diverged."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")
