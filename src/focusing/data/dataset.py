"""`DataSet`, the options of data sets, and how raw arrays become a data set."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from focusing.data.batches import FITTED, Augment, Preparation
from focusing.data.cache import Arrays, CacheEntry, cached
from focusing.data.sources import DataFiles, catalogue, obtain
from focusing.data.splits import Index, Split, SplitOptions, holdout_mask, partition
from focusing.errors import UserError
from focusing.instantiate import check_arguments
from focusing.validation import check_memory

MAX_PREPARED_BYTES = 2 * 1024**3
"""A data set that would be larger as float32 keeps its raw type and is prepared per batch."""
FAKE_TRAIN, FAKE_TEST = 384, 128
"""Samples of a fake data set."""


@dataclass(frozen=True)
class DataSet:
    """A data set in memory.

    Args:
        name: short name.
        source: where the data comes from, for the record.
        train: the training data.
        test: the test data.
        classes: number of classes; 0 for regression.
        informative: range ``(start, stop)`` of the columns that are not noise, if known.
        digest: the fingerprint, if it is known already.
        prepare: maps a raw batch to inputs of the network, for data that is too large for memory as
            float32; None: the data is prepared already.
        augment: augments a batch of training inputs with a random generator.
        vocabulary: number of different tokens; 0 if the inputs are no tokens.
        preparation: the mapping that was applied to raw samples, or that ``prepare`` applies.
        labels: names of the classes, if they have any.
        content: hash of all samples, regardless of split and preparation; None if not known.
        domains: range ``(start, stop)`` of the inputs of each domain, by name.
    """

    name: str
    source: str
    train: Split
    test: Split
    classes: int
    informative: tuple[int, int] | None = None
    digest: str | None = None
    prepare: Callable[[Tensor], Tensor] | None = None
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None
    vocabulary: int = 0
    preparation: Preparation | None = None
    labels: tuple[str, ...] = ()
    content: str | None = None
    domains: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def inputs(self) -> int:
        """Number of values in a sample."""
        return math.prod(self.train.inputs.shape[1:])

    @property
    def outputs(self) -> int:
        """Number of outputs that a network needs."""
        return self.classes or 1

    @property
    def metric(self) -> str:
        """The metric to report: ``"accuracy"``, or ``"mae"`` for regression."""
        return "accuracy" if self.classes else "mae"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all values in the data."""
        if self.digest is not None:
            return self.digest
        digest = hashlib.sha256()
        for values in (*self.train, *self.test):
            digest.update(f"{values.dtype}{tuple(values.shape)}".encode())
            digest.update(values.contiguous().numpy().data)
        return digest.hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class FileOptions(SplitOptions):
    """Options of all data sets that are read from files.

    Args:
        preprocess: ``"author"``, ``"unit"``, ``"standard"``, ``"pixel_mean"`` or ``"none"``; see
            :meth:`focusing.data.batches.Preparation.fit`.
        fake: use random samples of the right shape instead of files.
        data_dir: folder of the files and of downloads.
        holdout: share of the training data that the run will hold out with
            :func:`focusing.data.hold_out`; statistics are computed without it.
        peek: read only what the source and the fingerprint need. Inputs stay raw, and nothing is
            downloaded.
        preparation: use this mapping instead of fitting ``preprocess``, for a network that was
            trained on other samples.
    """

    preprocess: str = "none"
    fake: bool = False
    data_dir: str | Path = "."
    holdout: float = 0.0
    peek: bool = False
    preparation: Preparation | None = None

    @property
    def folder(self) -> Path:
        """The data folder."""
        return Path(self.data_dir).expanduser()

    def files(self, name: str) -> DataFiles:
        """Find the files of a data set in the catalogue, or download them."""
        return obtain(catalogue()[name], self.folder, fetch=not self.peek)


@dataclass(frozen=True, kw_only=True)
class ImageOptions(FileOptions):
    """Options of all image data sets.

    Args:
        augment: augmentation of training images: an ``Augment``, or its options.
    """

    augment: Augment | Mapping[str, bool | float] = Augment()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        if not isinstance(self.augment, Augment):
            object.__setattr__(self, "augment", Augment(**self.augment))  # type: ignore[arg-type]


def takes_options(read: Callable[..., DataSet]) -> Callable[..., DataSet]:
    """Decorator: replace the ``options`` parameter of a function by one keyword per option.

    ``mnist(options: ImageOptions, *, pad: int = 0)`` becomes ``mnist(*, pad=0, split="official",
    ...)``. The new signature has the type and default of every option; the schema of ``conf/data``
    is derived from it.
    """
    first, *own = inspect.signature(read, eval_str=True).parameters.values()
    options_class = first.annotation
    shared = inspect.signature(options_class, eval_str=True).parameters.values()

    @wraps(read)
    def data_set(**options: Any) -> DataSet:
        check_arguments(data_set, options, "data.")
        common = {field.name: options.pop(field.name) for field in shared if field.name in options}
        return read(options_class(**common), **options)

    returned = get_type_hints(read)["return"]
    signature = inspect.Signature([*own, *shared], return_annotation=returned)
    data_set.__signature__ = signature  # type: ignore[attr-defined]
    data_set.__annotations__ = {field.name: field.annotation for field in (*own, *shared)}
    data_set.__annotations__["return"] = returned
    return data_set


@dataclass(frozen=True)
class Raw:
    """A data set as decoded from its files, before it is split and prepared.

    Args:
        inputs: (N, ...), the official training samples first.
        targets: (N,): class numbers, or values for regression.
        official: number of official training samples; None: there is no official split.
        classes: number of classes; 0 for regression.
        source: where the data comes from, for the record.
        content: hash of the arrays.
        max_value: largest possible input, if the smallest is 0; None: inputs have no known range.
        stat_axes: axes along which ``preprocess=standard`` computes separate statistics.
        vocabulary: number of different tokens; 0 if the inputs are no tokens.
        test_share: default test share of a random split; None: as in the official split.
        labels: names of the classes.
    """

    inputs: NDArray[Any]
    targets: NDArray[Any]
    official: int | None
    classes: int
    source: str
    content: str
    max_value: float | None = 255.0
    stat_axes: Sequence[int] = (-1,)
    vocabulary: int = 0
    test_share: float | None = None
    labels: Sequence[str] = ()

    @classmethod
    def of(
        cls, entry: CacheEntry, source: str, classes: int, official: int | None = None, **about: Any
    ) -> Raw:
        """Make a raw data set from cached arrays; ``train`` and ``vocabulary`` are scalars."""
        arrays = entry.arrays
        official = official or int(arrays.get("train", 0)) or None
        about["vocabulary"] = int(arrays.get("vocabulary", 0))
        raw = (arrays["inputs"], arrays["targets"], official, classes, source, entry.content)
        return cls(*raw, **about)


def read_raw(
    name: str,
    options: FileOptions,
    decode: Callable[..., Arrays],
    *,
    shape: tuple[int, ...],
    classes: int,
    key: Mapping[str, Any] | None = None,
    official_share: float = 0.0,
    vocabulary: int = 0,
    **about: Any,
) -> Raw:
    """Decode the files of a data set, through the cache, or make fake samples.

    Args:
        name: name in the catalogue.
        options: the user's options.
        decode: maps the paths of the files to ``inputs``, ``targets`` and, if the files define an
            official split, ``train``: the number of training samples.
        shape: shape of a fake sample.
        classes: number of classes; 0 for regression.
        key: what the arrays depend on besides the files.
        official_share: share of official training samples, if ``decode`` returns no ``train``.
        vocabulary: number of different tokens of a fake text.
        **about: further fields of :class:`Raw`.
    """
    if options.fake:
        return fake_samples(shape, classes, vocabulary=vocabulary, **about)
    files = options.files(name)
    entry = cached(name, {"files": files.hashes, **(key or {})}, lambda: decode(*files.paths))
    official = int(len(entry.arrays["inputs"]) * official_share)
    return Raw.of(entry, files.source, classes, official, **about)


def fake_samples(
    shape: tuple[int, ...],
    classes: int,
    *,
    max_value: float | None = 255.0,
    vocabulary: int = 0,
    official: bool = True,
    **about: Any,
) -> Raw:
    """Make a few hundred random samples, with which any config runs without files.

    Args:
        shape: shape of a sample.
        classes: number of classes; 0 for regression.
        max_value: inputs are drawn from 0 to this; None: from a normal distribution.
        vocabulary: number of different tokens, if the inputs are tokens.
        official: whether there is an official split.
        **about: further fields of :class:`Raw`.
    """
    random = np.random.default_rng(0)
    size = (FAKE_TRAIN + FAKE_TEST, *shape)
    check_memory(math.prod(size), f"data: {size[0]} samples of {'x'.join(map(str, shape))}")
    if vocabulary:
        inputs: NDArray[Any] = random.integers(0, vocabulary, size, dtype=np.int32)
    elif max_value is None:
        inputs = random.normal(size=size).astype(np.float32)
    elif max_value == 255:
        inputs = random.integers(0, 256, size, dtype=np.uint8)
    else:
        inputs = (max_value * random.random(size)).astype(np.float32)
    # Both splits have all classes.
    counts = (FAKE_TRAIN, FAKE_TEST)
    labels = [random.permutation(np.arange(count) % max(classes, 1)) for count in counts]
    targets = np.concatenate(labels) if classes else random.random(len(inputs))
    content = f"fake {shape} {classes} {max_value} {vocabulary}"
    about |= {"max_value": max_value, "vocabulary": vocabulary}
    return Raw(inputs, targets, FAKE_TRAIN if official else None, classes, "fake", content, **about)


def assemble(name: str, raw: Raw, options: FileOptions, *, pad: int = 0) -> DataSet:
    """Split, limit and prepare raw samples; ``pad`` adds columns of zeros on both sides."""
    check_memory(8 * pad * len(raw.targets), f"data.pad={pad}")
    indices = partition(raw.targets, raw.classes, raw.official, options, raw.test_share)
    if not all(map(len, indices)):
        raise UserError(f"data={name}: the training or the test data is empty.")
    augment: Augment | None = getattr(options, "augment", None) or None  # images only
    fitted = _fitted(raw, options, indices[0])
    train, test = (_take(raw, index) for index in indices)
    preparation: Preparation | None = None
    ready = True
    if not options.peek:
        preparation = options.preparation or _fit(name, raw, options, train, fitted)
        ready = preparation is None or 4 * raw.inputs.size < MAX_PREPARED_BYTES
        train, test = (
            Split(_prepare(inputs, preparation if ready else None, pad), targets)
            for inputs, targets in (train, test)
        )
    return DataSet(
        name,
        raw.source,
        train,
        test,
        raw.classes,
        informative=(pad, pad + raw.inputs.shape[-1]) if pad else None,
        digest=_fingerprint(raw, options, augment, (*indices, fitted), pad),
        prepare=None if ready else preparation,
        augment=augment,
        vocabulary=raw.vocabulary,
        preparation=preparation,
        labels=tuple(raw.labels),
        content=raw.content[:16],
    )


def _fitted(raw: Raw, options: FileOptions, train: Index) -> Index | None:
    """Training samples from which statistics are computed; None if all are used, or none."""
    if not options.holdout or options.preprocess not in FITTED:
        return None
    held = holdout_mask(raw.targets[train], options.holdout, options.run_seed, raw.classes)
    return np.flatnonzero(~held)


def _fit(
    name: str, raw: Raw, options: FileOptions, train: Split, fitted: Index | None
) -> Preparation | None:
    if raw.vocabulary:
        if options.preprocess != "none":
            raise UserError(
                f"data.preprocess={options.preprocess}: data={name} consists of tokens, which "
                "cannot be scaled: use none."
            )
        return None
    values = train.inputs.numpy()
    values = values if fitted is None else values[fitted]
    return Preparation.fit(
        options.preprocess, values, max_value=raw.max_value, stat_axes=raw.stat_axes
    )


def _prepare(inputs: Tensor, preparation: Preparation | None, pad: int) -> Tensor:
    inputs = inputs if preparation is None else preparation(inputs)
    return functional.pad(inputs, (pad, pad)) if pad else inputs


def _take(raw: Raw, index: Index) -> Split:
    contiguous = len(index) == index[-1] - index[0] + 1  # then a slice avoids a copy
    where: Any = slice(index[0], index[-1] + 1) if contiguous else index
    dtype = np.int64 if raw.classes else np.float32
    return Split(
        torch.from_numpy(np.ascontiguousarray(raw.inputs[where])),
        torch.from_numpy(np.ascontiguousarray(raw.targets[where], dtype=dtype)),
    )


def _fingerprint(
    raw: Raw,
    options: FileOptions,
    augment: Augment | None,
    indices: Sequence[Index | None],
    pad: int,
) -> str:
    about = [raw.content, options.preprocess, pad, *([asdict(augment)] if augment else [])]
    digest = hashlib.sha256(json.dumps(about).encode())
    for index in indices:
        if index is not None:
            digest.update(index.astype("<i8").tobytes() + b"|")
    return digest.hexdigest()[:16]
