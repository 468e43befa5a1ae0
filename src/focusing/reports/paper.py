"""The paper's own numbers, from ``paper.yaml`` beside this file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Published:
    """A cell as printed: percent, or a mean absolute error."""

    mean: float
    std: str
    best: float


@dataclass(frozen=True)
class PublishedTest:
    """A t-test as printed: ``models[0] - models[1]``."""

    models: tuple[str, str]
    t: float
    p: float


@dataclass(frozen=True)
class PublishedTable:
    """A table: cells by data set and model, tests by data set."""

    experiment: str
    title: str
    cells: Mapping[str, Mapping[str, Published]]
    tests: Mapping[str, PublishedTest]


@lru_cache(maxsize=1)
def paper() -> dict[str, Any]:
    """All of ``paper.yaml``."""
    content: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("paper.yaml").read_text())
    return content


@lru_cache(maxsize=1)
def published_tables() -> dict[str, PublishedTable]:
    """The paper's tables of results, by the experiment that repeats them."""
    return {
        experiment: PublishedTable(
            experiment=experiment,
            title=table["title"],
            cells={
                data: {
                    model: Published(cell["mean"], str(cell["std"]), cell["best"])
                    for model, cell in models.items()
                }
                for data, models in table["cells"].items()
            },
            tests={
                data: PublishedTest(
                    (test["models"][0], test["models"][1]), float(test["t"]), float(test["p"])
                )
                for data, test in table["tests"].items()
            },
        )
        for experiment, table in paper()["tables"].items()
    }


def width_mean(data: str, model: str, hidden: Any) -> float | None:
    """Mean accuracy of the author's networks of this width, in percent; None if not known."""
    width = hidden[0] if isinstance(hidden, list) and hidden else None
    found: float | None = paper()["width"].get(data, {}).get(width, {}).get(model)
    return found
