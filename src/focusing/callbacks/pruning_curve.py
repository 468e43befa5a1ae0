"""How many connections a network can lose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from focusing.callbacks.analysis import Analysis, focused_layers
from focusing.training.pruning import connections, magnitude_curve, pruning_curve

if TYPE_CHECKING:
    from focusing.training.module import FocusingModule

COUNTED_THRESHOLDS = (1e-7, 1.0)
"""Thresholds at which the paper counts the connections of every neuron."""

MAX_POINTS = 10_000


class PruningCurve(Analysis):
    """Test scores of the trained network with fewer and fewer connections.

    The record gets ``pruning``:

    - ``curve``: the paper's rule, |phi| < t dropped in all focused layers, for t = 0 and
      ``points`` values from 1e-7 to ``highest``; see
      :func:`focusing.training.pruning.pruning_curve`. A dense network has none.
    - ``magnitude``: the smallest weights of the same layers dropped, with one limit for all of
      them, at the sparsities of ``curve``; of a dense network at ``points`` even steps from 0 to 1.
    - ``connections``: how many every neuron has at t = 1e-7 and t = 1, as the paper shows them.

    The weights are those after the last epoch, so that the first point is the score ``last``.

    Args:
        points: of each curve.
        highest: last threshold.
    """

    name = "pruning"

    def __init__(self, points: int = 40, highest: float = 1.5) -> None:
        super().__init__()
        if not 1 <= points <= MAX_POINTS or not highest > COUNTED_THRESHOLDS[0]:
            raise ValueError(
                f"points={points} must be from 1 to {MAX_POINTS}, highest={highest} above 1e-7."
            )
        self.points, self.highest = points, highest

    def analyse(self, module: FocusingModule, folder: Path) -> dict[str, Any]:
        """Compute both curves."""
        net, test = module.net, module.batches["test"]
        result: dict[str, Any] = {"weights": "last", "curve": [], "connections": []}
        if focused_layers(module):
            lowest = COUNTED_THRESHOLDS[0]
            thresholds = [0.0, *np.linspace(lowest, self.highest, self.points).tolist()]
            result["curve"] = pruning_curve(net, test, thresholds)
            result["connections"] = [
                {"threshold": threshold, "layers": connections(net, threshold)}
                for threshold in COUNTED_THRESHOLDS
            ]
        sparsities = [point["sparsity"] for point in result["curve"]]
        sparsities = sparsities or np.linspace(0, 1, self.points, endpoint=False).tolist()
        result["magnitude"] = magnitude_curve(net, test, sparsities)
        return result
