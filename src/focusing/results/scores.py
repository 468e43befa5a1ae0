"""The score of a run under each protocol, from its series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Series = Mapping[str, Sequence[float]]

SERIES_OF = {"accuracy": "acc", "mae": "mae"}
"""Name of a score -> its name in the series; of mae, less is better."""


def best_epoch(values: Sequence[float], metric: str) -> int:
    """The first epoch with the best value."""
    best = min(values) if metric == "mae" else max(values)
    return list(values).index(best)


def scores(series: Series, metric: str) -> dict[str, dict[str, Any] | None]:
    """Test score and epoch, from 0, under each protocol.

    Returns:
        ``paper``: the best of all epochs; ``holdout``: at the epoch that is best on the validation
        split, None without one; ``last``: after the last epoch.
    """
    short = SERIES_OF[metric]
    test, val = series.get(f"test/{short}"), series.get(f"val/{short}")
    if not test:
        return {"paper": None, "holdout": None, "last": None}
    epochs = {
        "paper": best_epoch(test, metric),
        "holdout": best_epoch(val, metric) if val else None,
        "last": len(test) - 1,
    }
    return {
        name: None if epoch is None else {"value": test[epoch], "epoch": epoch}
        for name, epoch in epochs.items()
    }
