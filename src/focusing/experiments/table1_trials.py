"""The random trials of Table 1. A trial is a pure function of the seed and its number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from focusing.errors import UserError

if TYPE_CHECKING:
    from hydra.types import TaskFunction
    from omegaconf import DictConfig

    from focusing.sweep.task import SweepTask

L2 = 1e-4
"""Strength of the L2 penalty, from the author's code; the paper does not give one."""
AUTHOR_BATCH, AUTHOR_LR_SIGMA = 512, 0.0082


@dataclass(frozen=True)
class Grid:
    """Values that a trial draws from; see Table 1 of the paper."""

    samples: tuple[int, ...]
    lengths: tuple[int, ...]
    rates: tuple[float, ...]
    l2: tuple[float, ...]
    noise: tuple[float, ...] = (0.0, 0.5, 1.0)
    positions: tuple[str, ...] = ("sides", "left")
    clusters: tuple[int, ...] = (1, 2, 4)
    classes: tuple[int, ...] = (2, 4, 8)
    hidden: tuple[int, ...] = (4, 40, 100)
    batches: tuple[float, ...] = (0.1, 0.05)


NOTEBOOK = Grid((100, 1000, 2000, 10000), (4, 40, 100), (0.01,), (0.0,))
GRIDS = {
    "text": Grid((100, 200, 2000, 10000), (4, 40, 400), (0.01, 0.001), (0.0, L2)),
    "author": NOTEBOOK,
    "author2018": NOTEBOOK,
}
"""Edition -> its grid: the paper's Table 1, or that of the author's notebook."""


Trial = dict[str, Any]
"""A draw: option of the config -> value."""


def draw(
    seed: int, index: int, variant: str = "text", fixed: Mapping[str, Any] | None = None
) -> Trial:
    """Draw a trial.

    The generator puts each cluster at its own corner of a hypercube, so classes x clusters must not
    exceed 2 ** length. If it does, the length is raised, which ``sweep.changed`` records: to the
    least possible value, or in the notebook's editions to classes x clusters.

    Args:
        seed: of the sweep.
        index: number of the trial, from 0.
        variant: a key of ``GRIDS``.
        fixed: options that the command line sets. They replace draws, before any value is derived.
    """
    if variant not in GRIDS:
        raise UserError(f"variant={variant} is not one of {', '.join(GRIDS)}.")
    for name, value in (("seed", seed), ("sweep.trial", index)):
        if value < 0:
            raise UserError(f"{name}={value} must be at least 0.")
    grid, random, paper = GRIDS[variant], np.random.default_rng([seed, index]), variant == "text"
    options = dict(fixed or {})

    def choose(values: tuple[Any, ...], name: str = "") -> Any:
        drawn = values[random.integers(len(values))]  # also if fixed, for the sake of later draws
        return options.get(name, drawn)

    samples = choose(grid.samples, "data.n_samples")
    drawn = choose(grid.lengths, "data.informative")
    level, position = choose(grid.noise), choose(grid.positions, "data.noise_position")
    clusters, classes = choose(grid.clusters, "data.clusters"), choose(grid.classes, "data.classes")
    hidden, share = choose(grid.hidden), choose(grid.batches)
    lr, l2 = choose(grid.rates, "optim.lr"), choose(grid.l2, "optim.l2")
    corners = classes * clusters
    needed = (corners - 1).bit_length() if paper else corners
    length = drawn if "data.informative" in options else max(drawn, needed)
    # "sides" puts half of the noise on each side; the notebook puts all of it on each.
    sides = 2 if position == "sides" and not paper else 1
    raised = f"length {drawn} raised to {length} for {classes} classes x {clusters} clusters"
    return {
        "data.n_samples": samples,
        "data.informative": length,
        "data.noise": int(level * length) * sides,
        "data.noise_position": position,
        "data.clusters": clusters,
        "data.classes": classes,
        "data.seed": int(random.integers(2**31)),
        "model.hidden": [hidden],
        "optim.batch_size": max(1, round(share * samples)) if paper else AUTHOR_BATCH,
        "optim.lr": lr,
        "optim.lr_mu": lr,
        "optim.lr_sigma": lr / 10 if paper else AUTHOR_LR_SIGMA,
        "optim.l2": l2,
        "sweep.trial": index,
        "sweep.changed": None if length == drawn else raised,
    }


def run_job(cfg: DictConfig) -> float | None:
    """Run a config: all trials in stacks, a single trial, or an ordinary run."""
    from focusing.sweep.expansion import is_stack

    if is_stack(cfg):
        from focusing.experiments.table1 import run_stacked

        return run_stacked(cfg)
    from focusing.run import train

    apply_trial(cfg)
    return train(cfg)


def sweep_task(task: TaskFunction) -> SweepTask:
    """Make the task of a sweep, whose jobs may be trials."""
    from focusing.sweep.task import SweepTask

    return SweepTask(task, apply_trial)


def apply_trial(cfg: DictConfig) -> None:
    """Write the trial of ``sweep.trial``, if it is set, into a config.

    Options from the command line keep their values.
    """
    if cfg.sweep.trial is None:
        return
    from omegaconf import OmegaConf

    fixed = command_line_options(cfg)
    for name, value in draw(cfg.seed, cfg.sweep.trial, cfg.variant, fixed).items():
        if name not in fixed:
            OmegaConf.update(cfg, name, value)


def command_line_options(cfg: DictConfig) -> dict[str, Any]:
    """Return the options that the command line of this job sets, with their values."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    if not HydraConfig.initialized():
        return {}
    names = [word.partition("=")[0].lstrip("+~") for word in HydraConfig.get().overrides.task]
    return {name: OmegaConf.select(cfg, name) for name in names if "." in name}
