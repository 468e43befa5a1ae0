"""Which runs a figure is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from focusing.reports.figures.chart import Missing, missing
from focusing.reports.names import PROTOCOLS, edition
from focusing.reports.tables import file_name
from focusing.results.collect import Collection
from focusing.results.groups import group_by, trial
from focusing.results.run import Run

MEASURED = ("sparsity", "redundancy", "timing", "explain")
"""Experiments about something that was measured, which has a figure: they need no others."""
MEANING = {
    "paper": "best test epoch",
    "holdout": "test at the best validation epoch",
    "last": "after the last epoch",
}


@dataclass(frozen=True)
class Edition:
    """Runs of an experiment, of one size and variant: none other may come into the same mean."""

    experiment: str
    size: str
    variant: str
    runs: tuple[Run, ...]

    @property
    def title(self) -> str:
        """In print, in brackets after what is shown."""
        return f"({self.experiment}, size={self.size}, variant={self.variant})"

    def name(self, what: str, *more: str) -> str:
        """Of files."""
        parts = (what, self.experiment) if what != self.experiment else (what,)
        return file_name(*parts, self.size, self.variant, *more)

    def tags(self, **more: str) -> dict[str, str]:
        """For filters."""
        return {"experiment": self.experiment, "size": self.size, "variant": self.variant, **more}


@lru_cache(maxsize=1)  # all families of figures ask
def editions(collection: Collection) -> tuple[Edition, ...]:
    """All experiments but random trials, as published first."""
    runs = [run for run in collection.runs if trial(run) is None]
    groups = group_by(runs, lambda run: (run.experiment, run.size, run.variant))
    ordered = sorted(groups, key=lambda key: (key[0], *edition(*key[1:])))
    return tuple(Edition(*key, tuple(groups[key])) for key in ordered)


def never_run(collection: Collection, expected: Mapping[str, str]) -> list[Missing]:
    """The figures of experiments without a run; ``expected``: experiment -> title."""
    ran = {each.experiment for each in editions(collection)}
    return [missing(title, name) for name, title in expected.items() if name not in ran]


def best(runs: Iterable[Run]) -> Run:
    """The run with the best score under the first protocol that it has; of equals the first."""
    return max(runs, key=_goodness)


def _goodness(run: Run) -> float:
    score = next(run.scores[name] for name in PROTOCOLS if name in run.scores)
    return -score if run.lower_is_better else score


def shown_protocols(given: Iterable[str]) -> list[str]:
    """Protocols worth a figure: the paper's and the honest one; the last epoch if there is none."""
    names = set(given)
    return [name for name in ("paper", "holdout") if name in names] or sorted(names)


def sample(run: Run, runs: Sequence[Run]) -> str:
    """Which run is shown, and out of how many."""
    held = next(name for name in PROTOCOLS if name in run.scores)
    others = f", the best of {len(runs)} ({held})" if len(runs) > 1 else ""
    return f"seed {run.seed}{others}"


def run_count(counts: Iterable[int]) -> str:
    """Numbers of runs in words: 1 run, 5 runs, 3 to 5 runs."""
    every = sorted(set(counts))
    if len(every) > 1:
        return f"{every[0]} to {every[-1]} runs"
    return f"{every[0]} run{'s' if every[0] > 1 else ''}"


def joined(values: Iterable[Any]) -> str:
    """Different values as one tag."""
    return " ".join(dict.fromkeys(map(str, values)))
