"""The random trials of Table 1: each is a pure function of the seed and its number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from focusing.errors import UserError

if TYPE_CHECKING:
    from omegaconf import DictConfig

L2 = 1e-4
"""Strength of the L2 penalty: the author's number; the paper does not give one."""
AUTHOR_BATCH, AUTHOR_LR_SIGMA = 512, 0.0082


@dataclass(frozen=True)
class Grid:
    """What a trial draws from; see Table 1 of the paper."""

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
    "paper": Grid((100, 200, 2000, 10000), (4, 40, 400), (0.01, 0.001), (0.0, L2)),
    "author": NOTEBOOK,
    "author2018": NOTEBOOK,
}
"""The paper's Table 1, and what the author's notebook drew from."""


@dataclass(frozen=True)
class Trial:
    """One draw.

    Attributes:
        index: its number.
        n_samples: of training and test data together.
        length: informative columns.
        noise: columns of noise.
        noise_level: their number as a share of the length: 0, .5 or 1.
        noise_position: ``"sides"`` or ``"left"``.
        clusters: per class.
        classes: number of classes.
        hidden: neurons.
        batch_size: samples of a batch.
        lr: learning rate of weights.
        lr_mu: of centres.
        lr_sigma: of apertures.
        l2: strength of the penalty on weights.
        data_seed: of the data set.
        changed: what had to be changed to make the draw possible; None: nothing.
    """

    index: int
    n_samples: int
    length: int
    noise: int
    noise_level: float
    noise_position: str
    clusters: int
    classes: int
    hidden: int
    batch_size: int
    lr: float
    lr_mu: float
    lr_sigma: float
    l2: float
    data_seed: int
    changed: str | None

    def settings(self) -> dict[str, Any]:
        """The trial as options of the config."""
        return {
            "data.n_samples": self.n_samples,
            "data.informative": self.length,
            "data.noise": self.noise,
            "data.noise_position": self.noise_position,
            "data.clusters": self.clusters,
            "data.classes": self.classes,
            "data.seed": self.data_seed,
            "model.hidden": [self.hidden],
            "optim.batch_size": self.batch_size,
            "optim.lr": self.lr,
            "optim.lr_mu": self.lr_mu,
            "optim.lr_sigma": self.lr_sigma,
            "optim.l2": self.l2,
            "sweep.trial": self.index,
            "sweep.changed": self.changed,
        }


def draw(
    seed: int, index: int, variant: str = "paper", given: Mapping[str, Any] | None = None
) -> Trial:
    """Draw a trial.

    The generator puts every cluster at a corner of its own of a hypercube, so classes x clusters
    must not exceed 2 ** length. A draw that does gets a greater length, and says so: the least
    that is possible, or, as the notebook does, at least classes x clusters.

    Args:
        seed: of the sweep.
        index: number of the trial, from 0.
        variant: a key of ``GRIDS``.
        given: options that the command line sets: they stay, and what follows from them follows.
    """
    if variant not in GRIDS:
        raise UserError(f"variant={variant} is not one of {', '.join(GRIDS)}.")
    for name, value in (("seed", seed), ("sweep.trial", index)):
        if value < 0:
            raise UserError(f"{name}={value} must be at least 0.")
    grid, random, paper = GRIDS[variant], np.random.default_rng([seed, index]), variant == "paper"

    set_by_user = given or {}

    def one(options: tuple[Any, ...], name: str | None = None) -> Any:
        drawn = options[random.integers(len(options))]  # always, or all later draws would differ
        return set_by_user.get(name, drawn) if name else drawn

    samples = one(grid.samples, "data.n_samples")
    drawn = one(grid.lengths, "data.informative")
    level, position = one(grid.noise), one(grid.positions, "data.noise_position")
    clusters, classes = one(grid.clusters, "data.clusters"), one(grid.classes, "data.classes")
    hidden, share = one(grid.hidden), one(grid.batches)
    lr, l2 = one(grid.rates, "optim.lr"), one(grid.l2, "optim.l2")
    corners = classes * clusters
    needed = (corners - 1).bit_length() if paper else corners
    length = drawn if "data.informative" in set_by_user else max(drawn, needed)
    # "sides" is half of the noise on each side; in the notebook all of it on each.
    both = 2 if position == "sides" and not paper else 1
    return Trial(
        index=index,
        n_samples=samples,
        length=length,
        noise=int(level * length) * both,
        noise_level=level,
        noise_position=position,
        clusters=clusters,
        classes=classes,
        hidden=hidden,
        batch_size=max(1, round(share * samples)) if paper else AUTHOR_BATCH,
        lr=lr,
        lr_mu=lr,
        lr_sigma=lr / 10 if paper else AUTHOR_LR_SIGMA,
        l2=l2,
        data_seed=int(random.integers(2**31)),
        changed=None
        if length == drawn
        else f"length {drawn} raised to {length} for {classes} classes x {clusters} clusters",
    )


def apply_trial(cfg: DictConfig) -> None:
    """Write the trial that a config asks for, if it does, into its options.

    What the command line sets stays as it says.

    Args:
        cfg: ``sweep.trial`` is a number, or None for a run that is no trial.
    """
    if cfg.sweep.trial is None:
        return
    from omegaconf import OmegaConf

    given = options_given(cfg)
    for name, value in draw(cfg.seed, cfg.sweep.trial, cfg.variant, given).settings().items():
        if name not in given:
            OmegaConf.update(cfg, name, value)


def options_given(cfg: DictConfig) -> dict[str, Any]:
    """Options that the command line of this job sets, and their values."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    if not HydraConfig.initialized():
        return {}
    names = [each.partition("=")[0].lstrip("+~") for each in HydraConfig.get().overrides.task]
    return {name: OmegaConf.select(cfg, name) for name in names if "." in name}
