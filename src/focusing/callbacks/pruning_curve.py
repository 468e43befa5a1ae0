"""How much of a network can go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from focusing.callbacks.analysis import Analysis
from focusing.callbacks.layers import focused_layers

if TYPE_CHECKING:
    from focusing.training.module import FocusingModule

SHOWN = (1e-7, 1.0)
"""Thresholds at which the paper counts the connections of each neuron."""

MAX_POINTS = 10_000


class PruningCurve(Analysis):
    """Test scores of the trained network with fewer and fewer connections.

    The record gets ``pruning``:

    - ``curve``: the paper's rule, |phi| < t dropped in all focused layers, for t = 0 and
      ``points`` values from 1e-7 to ``highest``; see
      :func:`focusing.training.pruning.pruning_curve`. A dense network has none.
    - ``magnitude``: the smallest weights of the same layers dropped, with one limit for all of
      them, at the sparsities of ``curve``; of a dense network at ``points`` even steps from 0 to 1.
    - ``connections``: how many each neuron has at t = 1e-7 and t = 1, as the paper shows them.

    The weights are those after the last epoch, so that the first point is the score ``last``.

    Args:
        points: of each curve.
        highest: last threshold.
    """

    name = "pruning"

    def __init__(self, points: int = 40, highest: float = 1.5) -> None:
        super().__init__()
        if not 1 <= points <= MAX_POINTS or not highest > SHOWN[0]:
            raise ValueError(
                f"points={points} must be from 1 to {MAX_POINTS}, highest={highest} above 1e-7."
            )
        self.points, self.highest = points, highest

    def analyse(self, module: FocusingModule, folder: Path) -> dict[str, Any]:
        """Both curves."""
        from focusing.training.pruning import connections, magnitude_curve, pruning_curve

        net, test = module.net, module.batches["test"]
        found: dict[str, Any] = {"weights": "last", "curve": [], "connections": []}
        if focused_layers(module):
            thresholds = [0.0, *np.linspace(SHOWN[0], self.highest, self.points).tolist()]
            found["curve"] = pruning_curve(net, test, thresholds)
            found["connections"] = [
                {"threshold": each, "layers": connections(net, each)} for each in SHOWN
            ]
        sparsities = [point["sparsity"] for point in found["curve"]]
        sparsities = sparsities or np.linspace(0, 1, self.points, endpoint=False).tolist()
        found["magnitude"] = magnitude_curve(net, test, sparsities)
        return found
