"""The experiments of conf/experiment/, and the jobs each consists of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.types import HydraContext, RunMode

from focusing.compose import check, config_dir, prepare_hydra
from focusing.errors import UserError
from focusing.sweep.parts import expand_parts

Overrides = tuple[str, ...]

ALIKE = ("seed", "data.fold", "optim.lr_mu", "optim.sigma_l2", "sweep.trial")
"""Options that make no difference to what a run costs."""


@dataclass(frozen=True)
class Experiment:
    """An experiment.

    Attributes:
        name: of its file.
        paper: which table, figure or section of the paper it repeats.
        about: what it does, in a few words.
    """

    name: str
    paper: str
    about: str


def experiments() -> dict[str, Experiment]:
    """All experiments by name. Their files begin with a comment, ``<place in paper>: <what>``."""
    files = sorted((config_dir() / "experiment").glob("*.yaml"))
    return {path.stem: _read(path) for path in files}


def find(name: str) -> Experiment:
    """The experiment of that name."""
    known = experiments()
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f", did you mean {near[0]}?" if near else f"; there are {', '.join(known)}."
    raise UserError(f"experiment={name} does not exist{hint}")


def jobs(overrides: Sequence[str]) -> list[Overrides]:
    """The jobs of a command, each as the command line of a single run, in the sweeper's order.

    Args:
        overrides: the command line, such as ``experiment=table2_simple size=quick``.
    """
    with _hydra() as context:
        hydra = context.config_loader.load_configuration(
            "train", list(overrides), run_mode=RunMode.MULTIRUN
        ).hydra
        swept = hydra.sweeper if hydra.mode == RunMode.MULTIRUN else {}
        found = expand_parts(context, swept.get("params"), swept.get("parts"), overrides)
        return [job.overrides for job in found]


def configs(runs: Sequence[Overrides]) -> list[tuple[dict[str, Any], int]]:
    """The configs of jobs, each with the number of jobs that cost the same."""
    alike = Counter(tuple(each for each in run if _matters(each)) for run in runs)
    with _hydra():
        return [(check(compose("train", list(run))), count) for run, count in alike.items()]


def _matters(override: str) -> bool:
    return override.lstrip("+").partition("=")[0] not in ALIKE


@contextmanager
def _hydra() -> Iterator[HydraContext]:
    prepare_hydra()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        yield HydraContext(config_loader=loader, callbacks=Callbacks())


def _read(path: Path) -> Experiment:
    lines = [line.removeprefix("#").strip() for line in _head(path)]
    paper, _, about = " ".join(lines).partition(": ")
    return Experiment(path.stem, paper, re.split(r"(?<=[.?])\s", about)[0])


def _head(path: Path) -> Iterator[str]:
    """The comment at the top of a config, without its package."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# @package"):
            continue
        if not line.startswith("#"):
            return
        yield line
