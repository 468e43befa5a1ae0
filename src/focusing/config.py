"""The schema of conf/: which options exist, and their types.

Values that a reader should see stand in the YAML files, with a comment; here are only types and
what is rarely changed. An option of a group that is not listed here does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class DenseModel:
    """A fully connected network."""

    _target_: str = "focusing.models.dense_mlp"
    name: str = MISSING
    hidden: Any = MISSING  # neurons of each hidden layer; of one layer also without brackets
    batch_norm: bool = True
    input_dropout: float = 0.0
    dropout: list[float] = field(default_factory=list)


@dataclass
class FocusOptions:
    """The options of ``focusing.FocusedLinear``; its docstring explains them."""

    mu: Any = MISSING
    sigma: Any = MISSING
    train_mu: bool = True
    train_sigma: bool = True
    focus: str = "gaussian"
    topology: Any = None
    grid: str = "linspace"
    normalizer: str = "l2"
    init: str = "focus_glorot"
    mu_range: list[float] = field(default_factory=lambda: [0.0, 1.0])
    sigma_range: list[float] = field(default_factory=lambda: [0.01, 1.0])
    backend: str = "auto"
    cutoff: float = 1e-7
    bias: bool = True


@dataclass
class FocusedModel(FocusOptions, DenseModel):
    """A network whose hidden layers focus."""

    _target_: str = "focusing.models.focused_mlp"
    later_sigma: Any = None


@dataclass
class CnnModel:
    """A convolutional network."""

    _target_: str = "focusing.models.CNN"
    name: str = MISSING
    filters: list[int] = MISSING
    kernel: int = MISSING
    pool: int = MISSING
    hidden: int = MISSING
    batch_norm: bool = MISSING
    dropout: list[float] = MISSING


@dataclass
class FocusedCnnModel(FocusOptions, CnnModel):
    """A convolutional network whose hidden layer focuses."""

    _target_: str = "focusing.models.focused_cnn"


@dataclass
class TransferModel:
    """A network on features that were trained elsewhere."""

    _target_: str = "focusing.models.dense_transfer"
    name: str = MISSING
    features: str = MISSING
    pretrained: bool = MISSING
    weights: str | None = None
    hidden: int = MISSING
    pad: int = MISSING
    batch_norm: bool = True
    dropout: float = MISSING


@dataclass
class FocusedTransferModel(FocusOptions, TransferModel):
    """Likewise, with a hidden layer that focuses."""

    _target_: str = "focusing.models.focused_transfer"


@dataclass
class FastTextModel:
    """A network for texts."""

    _target_: str = "focusing.models.FastText"
    name: str = MISSING
    embedding: int = MISSING


@dataclass
class FocusedFastTextModel(FocusOptions, FastTextModel):
    """A network for texts whose output focuses."""

    _target_: str = "focusing.models.focused_fasttext"


@dataclass
class SyntheticData:
    """The paper's synthetic classification data."""

    _target_: str = "focusing.data.synthetic"
    name: str = MISSING
    generator: str = MISSING
    n_samples: int = MISSING
    test_share: float = MISSING
    classes: int = MISSING
    clusters: int = MISSING
    informative: int = MISSING
    separation: float = MISSING
    noise: int = MISSING
    noise_position: str = MISSING
    noise_kind: str = MISSING
    seed: int = MISSING
    limit_train: int | None = None
    limit_test: int | None = None
    fake: bool = False


@dataclass
class AugmentOptions:
    """The options of ``focusing.data.batches.Augment``."""

    flip: bool = False
    shift: float = 0.0
    shear: float = 0.0
    zoom: float = 0.0


@dataclass
class FileData:
    """What all data sets from files have; conf/data/mnist.yaml explains it."""

    _target_: str = MISSING
    name: str = MISSING
    preprocess: str = "none"
    split: str = "official"
    fold: int = 0
    test_share: float | None = None
    split_seed: int | None = 0
    limit_train: int | None = None
    limit_test: int | None = None
    fake: bool = False


@dataclass
class ImageData(FileData):
    """Images, with training images that may be changed."""

    augment: AugmentOptions = field(default_factory=AugmentOptions)


@dataclass
class MnistData(ImageData):
    """Handwritten digits."""

    _target_: str = "focusing.data.mnist"
    on_missing: str = MISSING
    pad: int = MISSING


@dataclass
class CltData(ImageData):
    """Digits among pieces of digits."""

    _target_: str = "focusing.data.clt"
    on_missing: str = MISSING
    variant: str = MISSING
    train: int | None = MISSING
    test: int | None = MISSING
    size: int = MISSING
    patches: int = MISSING
    patch_size: int = MISSING
    seed: int = MISSING


@dataclass
class LfwData(ImageData):
    """Faces."""

    _target_: str = "focusing.data.lfw"
    min_faces: int = MISSING
    stretch: bool = MISSING


@dataclass
class CatsDogsData(ImageData):
    """Cats and dogs."""

    _target_: str = "focusing.data.catsdogs"
    size: int = MISSING
    interpolation: str = MISSING


@dataclass
class FsddData(FileData):
    """Spoken digits."""

    _target_: str = "focusing.data.fsdd"
    speakers: list[str] = MISSING
    coefficients: int = MISSING
    frames: int = MISSING
    window: int = MISSING
    hop: int = MISSING
    bands: int = MISSING


@dataclass
class BostonData(FileData):
    """House prices."""

    _target_: str = "focusing.data.boston"
    pad: int = MISSING


@dataclass
class DnaData(FileData):
    """Splice junctions."""

    _target_: str = "focusing.data.dna"
    pad: int = MISSING


@dataclass
class ReutersData(FileData):
    """Newswires as sets of words."""

    _target_: str = "focusing.data.reuters"
    words: int = MISSING
    pad: int = MISSING


@dataclass
class ImdbData(FileData):
    """Reviews as sequences of words."""

    _target_: str = "focusing.data.imdb"
    words: int = MISSING
    length: int = MISSING
    ngrams: int = MISSING


@dataclass
class Optim:
    """How the weights and the foci learn."""

    name: str = MISSING
    lr: float = MISSING
    lr_mu: float = MISSING
    lr_sigma: float = MISSING
    momentum: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    batch_size: int = MISSING
    drop_last: Any = "auto"
    shuffle: bool = True
    accumulate: int = 1
    clip_value: float | None = None
    l2: float = 0.0
    sigma_l1: float = 0.0
    sigma_l2: float = 0.0
    mu_repulsion: float = 0.0
    decay_epochs: list[int] = field(default_factory=list)
    decay: float = 1.0
    decay_mu: float | None = None
    decay_sigma: float | None = None
    anneal_from: float = 1.0
    anneal_epochs: int = 0


def drops_rest(drop_last: bool | str, samples: int, batch_size: int, *, batch_norm: bool) -> bool:
    """Whether an epoch leaves out the samples that do not fill a last batch.

    Batch norm divides by the spread of a batch: a few samples have next to none, and one such step
    an epoch was enough to bring the losses of whole runs into the thousands.

    Args:
        drop_last: ``"auto"`` leaves out a single sample, and less than a quarter of a batch where
            there is batch norm.
        samples: of an epoch; the only batch is never left out.
        batch_size: samples of a whole batch.
        batch_norm: the network has it.
    """
    rest = samples % batch_size
    if drop_last == "auto":
        drop_last = rest == 1 or (batch_norm and 4 * rest < batch_size)
    return bool(drop_last) and samples > batch_size


@dataclass
class Protocol:
    """Which epoch's test score counts, and what chooses it."""

    name: str = MISSING
    holdout: float = MISSING


@dataclass
class TrainerOptions:
    """How long, and on what."""

    max_epochs: int = MISSING
    accelerator: str = MISSING
    devices: Any = MISSING
    precision: str = MISSING
    deterministic: bool = MISSING
    limit_batches: int | None = None


@dataclass
class Paths:
    """Where results go, and where data sets are."""

    output_dir: str = MISSING
    data_dir: str = MISSING


@dataclass
class Sweep:
    """Many runs."""

    trials: int = MISSING
    trial: int | None = None
    changed: str | None = None  # what made an impossible trial possible
    stacked: bool = MISSING
    retry_failed: bool = MISSING
    archive: str | None = None


@dataclass
class Config:
    """One run."""

    name: str = MISSING
    seed: int = MISSING
    size: str = MISSING
    variant: str = MISSING
    resume: str = MISSING
    force: bool = MISSING
    figures: bool = MISSING
    data: Any = MISSING
    model: Any = MISSING
    optim: Optim = field(default_factory=Optim)
    protocol: Protocol = field(default_factory=Protocol)
    trainer: TrainerOptions = field(default_factory=TrainerOptions)
    callbacks: dict[str, Any] = field(default_factory=dict)
    logger: dict[str, Any] = field(default_factory=dict)
    paths: Paths = field(default_factory=Paths)
    sweep: Sweep = field(default_factory=Sweep)


GROUP_SCHEMAS: dict[str, dict[str, type]] = {
    "model": {
        "dense": DenseModel,
        "focused": FocusedModel,
        "cnn": CnnModel,
        "focused_cnn": FocusedCnnModel,
        "transfer": TransferModel,
        "focused_transfer": FocusedTransferModel,
        "fasttext": FastTextModel,
        "focused_fasttext": FocusedFastTextModel,
    },
    "data": {
        "synthetic": SyntheticData,
        "images": ImageData,
        "mnist": MnistData,
        "clt": CltData,
        "lfw": LfwData,
        "fsdd": FsddData,
        "boston": BostonData,
        "dna": DnaData,
        "reuters": ReutersData,
        "imdb": ImdbData,
        "catsdogs": CatsDogsData,
    },
}
"""Schemas that the files of a group choose from: ``/schema/<group>@_here_: <name>``."""
