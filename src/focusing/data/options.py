"""The options that all data sets from files have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from focusing.data.catalogue import catalogue
from focusing.data.preprocess import Preparation
from focusing.data.sources import Found, obtain


@dataclass(frozen=True)
class Options:
    """How the samples of a data set are divided and prepared.

    Args:
        data_dir: where files are, and where downloads go.
        run_seed: of the run; it splits when ``split_seed`` is None.
        holdout: share of the training data that the run will hold out, see
            :func:`focusing.data.hold_out`: statistics leave it out.
        peek: only what is needed for the source and the fingerprint: inputs stay as they are in
            the file, and nothing is downloaded.
        preparation: of the samples, in place of what ``preprocess`` would make of these training
            samples: for a network that was trained on others.
        preprocess: ``"author"``, ``"unit"``, ``"standard"``, ``"pixel_mean"`` or ``"none"``; see
            :mod:`focusing.data.preprocess`.
        augment: options of :class:`focusing.data.augment.Augment`, for images; none: unchanged.
        split: ``"official"``, ``"random"``, or ``"kfold(5)"``, also written ``"kfold5"``: five
            folds; ``"kfold"`` is ten.
        fold: which fold is the test data, from 0.
        test_share: of a random split; None: the paper's, else as large as the official test data.
        split_seed: of a random split and of folds; None: the seed of the run.
        limit_train: so many training samples at most, evenly from all classes.
        limit_test: likewise.
        fake: random samples of the right shape, without any file.
    """

    data_dir: str | Path = "."
    run_seed: int = 0
    holdout: float = 0.0
    peek: bool = False
    preparation: Preparation | None = None
    preprocess: str = "none"
    augment: Mapping[str, bool | float] = field(default_factory=dict)
    split: str = "official"
    fold: int = 0
    test_share: float | None = None
    split_seed: int | None = 0
    limit_train: int | None = None
    limit_test: int | None = None
    fake: bool = False

    @property
    def folder(self) -> Path:
        """The data folder."""
        return Path(self.data_dir).expanduser()

    def files(self, name: str) -> Found:
        """The files of a data set of the catalogue, downloaded if need be."""
        return obtain(catalogue()[name], self.folder, fetch=not self.peek)

    @property
    def seed(self) -> int:
        """Of the split."""
        return self.run_seed if self.split_seed is None else self.split_seed
