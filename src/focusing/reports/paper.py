"""The paper's published numbers, from ``paper.yaml`` beside this file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

REPEATS = 5
ROUNDING = math.log(1.6)
"""How far printed digits may be off, as a logarithm: 1e-3 can stand for up to 1.5e-3."""


@dataclass(frozen=True)
class Published:
    """A cell as printed, in percent or as a mean absolute error.

    Attributes:
        mean: of the repeats.
        std: standard deviation with ddof=0, as printed: a fraction of one, or points.
        best: of the repeats.
    """

    mean: float
    std: str
    best: float

    @property
    def std_points(self) -> float:
        """The deviation in the unit of the mean: the reading that fits the best repeat."""
        return min((100 * float(self.std), float(self.std)), key=self._misfit)

    @property
    def possible(self) -> bool:
        """Whether repeats with this mean, best and deviation can exist, given rounding."""
        return self._misfit(self.std_points) < ROUNDING

    def _misfit(self, std: float) -> float:
        """How far a deviation is outside its bounds, as a logarithm.

        The best of n values with deviation s (ddof=0) is at least s / sqrt(n - 1) and at most
        s * sqrt(n - 1) above the mean.
        """
        ratio = abs(math.log(std / abs(self.best - self.mean)))
        return max(0.0, ratio - math.log(REPEATS - 1) / 2)


@dataclass(frozen=True)
class PublishedTest:
    """A t-test of ``models[0] - models[1]``, as printed."""

    models: tuple[str, ...]
    t: float
    p: float


@dataclass(frozen=True)
class PublishedTable:
    """A published table: cells by data set and model, tests by data set."""

    title: str
    cells: Mapping[str, Mapping[str, Published]]
    tests: Mapping[str, PublishedTest]


@lru_cache(maxsize=1)
def paper() -> dict[str, Any]:
    """The contents of ``paper.yaml``."""
    content: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("paper.yaml").read_text())
    return content


@lru_cache(maxsize=1)
def published_tables() -> dict[str, PublishedTable]:
    """The paper's tables of results, by the experiment that repeats them."""
    return {
        experiment: PublishedTable(
            title=table["title"],
            cells={
                data: {model: Published(**cell) for model, cell in models.items()}
                for data, models in table["cells"].items()
            },
            tests={
                data: PublishedTest(tuple(test["models"]), float(test["t"]), float(test["p"]))
                for data, test in table["tests"].items()
            },
        )
        for experiment, table in paper()["tables"].items()
    }


def width_mean(data: str, model: str, hidden: Any) -> float | None:
    """Mean accuracy of the author's network of this width, in percent; None if unknown."""
    width = hidden[0] if isinstance(hidden, list) and hidden else None
    mean: float | None = paper()["width"].get(data, {}).get(width, {}).get(model)
    return mean
