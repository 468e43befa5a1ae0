"""Which runs a figure is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from focusing.drawing import Array
from focusing.errors import DamagedError
from focusing.reports.figures.chart import Drawn, LeftOut, Missing, missing
from focusing.reports.foci import FILE as FOCI
from focusing.reports.foci import Foci, both_ends, read_foci
from focusing.reports.names import PROTOCOLS, data_order, edition
from focusing.reports.tables import file_name
from focusing.reports.tables.blocks import Block, blocks
from focusing.results.collect import Collection, Run
from focusing.results.frame import group_by

MEASURED = ("sparsity", "redundancy", "timing", "explain")
"""Experiments about something that was measured, which has a figure: they need no others."""
FOCUSED = ("focus_s", "focus_c", "focus_2d", "cnn_focus", "vgg_focus")
"""Models whose foci are drawn by data set."""
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
    runs = [run for run in collection.runs if run.trial is None]
    groups = group_by(runs, lambda run: (run.experiment, run.size, run.variant))
    ordered = sorted(groups, key=lambda key: (key[0], *edition(*key[1:])))
    return tuple(Edition(*key, tuple(groups[key])) for key in ordered)


def never_run(collection: Collection, expected: Mapping[str, str]) -> list[Missing]:
    """The figures of experiments without a run; ``expected``: experiment -> title."""
    ran = {each.experiment for each in editions(collection)}
    return [missing(title, name) for name, title in expected.items() if name not in ran]


def typical(runs: Sequence[Run], file: str = FOCI) -> Run:
    """The run in the middle by its score, of those that still have a file, if any has it.

    Of an even number the better of both in the middle. A figure of the best run would flatter.
    """
    order = sorted(runs, key=_goodness)
    places = [at for at, run in enumerate(order) if (run.path / file).exists()]
    return order[min(places or range(len(order)), key=lambda at: abs(at - len(order) / 2))]


def foci_of(run: Run, drawn: Drawn) -> list[Foci]:
    """The foci of a run; none, and a note of it among what is drawn, if its file is damaged."""
    try:
        return read_foci(run.path, run.sizes)
    except DamagedError as error:
        drawn.append(LeftOut.of(error))
        return []


def ends_of(run: Run, which: str, drawn: Drawn) -> dict[str, tuple[Array, Array]]:
    """First and last mu or sigma of each layer; likewise."""
    try:
        return both_ends(run.path, which)
    except DamagedError as error:
        drawn.append(LeftOut.of(error))
        return {}


def _goodness(run: Run) -> float:
    score = next(run.scores[name] for name in PROTOCOLS if name in run.scores)
    return -score if run.lower_is_better else score


def shown_protocols(given: Iterable[str]) -> list[str]:
    """Protocols worth a figure: the paper's and the honest one; the last epoch if there is none."""
    names = set(given)
    return [name for name in ("paper", "holdout") if name in names] or sorted(names)


def sample(run: Run, runs: Sequence[Run]) -> str:
    """Which run is shown, and out of how many."""
    name = f"seed {run.seed}"
    data = [(each.config.get("data") or {}).get("seed") for each in (run, *runs)]
    if len(set(data)) > 1:
        name += f", data.seed {data[0]}"
    if len(runs) < 2:
        return name
    held = next(name for name in PROTOCOLS if name in run.scores)
    better = sum(_goodness(each) > _goodness(run) for each in runs)
    return f"{name}, by its score number {better + 1} of {len(runs)} runs ({held})"


def by_model(
    collection: Collection, experiments: Sequence[str]
) -> Iterator[tuple[Edition, str, list[Block]]]:
    """Editions of some experiments with each focused model, and the blocks that have runs of it."""
    for each in editions(collection):
        if each.experiment not in experiments:
            continue
        found = sorted(blocks(each.runs), key=lambda block: data_order(block.data))
        for model in FOCUSED:
            yield each, model, [block for block in found if model in block.models]


def run_count(counts: Iterable[int]) -> str:
    """Numbers of runs in words: 1 run, 5 runs, 3 to 5 runs."""
    every = sorted(set(counts))
    if len(every) > 1:
        return f"{every[0]} to {every[-1]} runs"
    return f"{every[0]} run{'s' if every[0] > 1 else ''}"


def joined(values: Iterable[Any]) -> str:
    """Different values as one tag."""
    return " ".join(dict.fromkeys(map(str, values)))
