"""A data set in memory, and how it is made of raw arrays: split, limit, prepare."""

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
from focusing.data.cache import Arrays, Decoded, decoded
from focusing.data.sources import DataFiles, catalogue, obtain
from focusing.data.splits import Index, Split, SplitOptions, held_out, partition
from focusing.errors import UserError
from focusing.instantiate import check_arguments
from focusing.validation import check_memory

LARGE = 2 * 1024**3
"""Bytes from which a data set keeps its raw type and is prepared batch by batch."""
FAKE_TRAIN, FAKE_TEST = 384, 128


@dataclass(frozen=True)
class DataSet:
    """A data set in memory.

    Args:
        name: short name.
        source: where the data comes from, for the record.
        train: the training data.
        test: the test data.
        classes: number of classes; 0 for regression.
        informative: first column that is not noise and the one after the last, if known.
        digest: the fingerprint, if it is known without reading all values again.
        prepare: maps a batch of inputs to the inputs of the network, for inputs that are too large
            for memory as floats; None: they are ready.
        augment: changes a batch of training inputs, with a generator of random numbers.
        vocabulary: number of different tokens, for text.
        preparation: the mapping that raw samples went, or with ``prepare`` will go, through.
        labels: names of the classes, if they have any.
        content: hash of all samples, regardless of split and preparation; None if not known.
        domains: kinds of inputs, each with its first input and the one after its last.
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
        """Number of inputs of a sample."""
        return math.prod(self.train.inputs.shape[1:])

    @property
    def outputs(self) -> int:
        """Number of outputs of a network for this data."""
        return self.classes or 1

    @property
    def metric(self) -> str:
        """The score to report: ``"accuracy"``, or ``"mae"`` for regression."""
        return "accuracy" if self.classes else "mae"

    @cached_property
    def fingerprint(self) -> str:
        """A hash that changes when any value of the data does."""
        if self.digest is not None:
            return self.digest
        digest = hashlib.sha256()
        for values in (*self.train, *self.test):
            digest.update(f"{values.dtype}{tuple(values.shape)}".encode())
            digest.update(values.contiguous().numpy().data)
        return digest.hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class FileOptions(SplitOptions):
    """The options of all data sets that are read from files, beside those of the split.

    Args:
        preprocess: ``"author"``, ``"unit"``, ``"standard"``, ``"pixel_mean"`` or ``"none"``; see
            :meth:`focusing.data.batches.Preparation.fit`.
        fake: use random samples of the right shape, without any file.
        data_dir: folder of the files, where downloads go too.
        holdout: share of the training data that the run will hold out with
            :func:`focusing.data.hold_out`: statistics leave it out.
        peek: read only enough for the source and the fingerprint: inputs stay raw, and nothing is
            downloaded.
        preparation: use this mapping instead of fitting ``preprocess``: for a network that was
            trained on other samples.
    """

    preprocess: str = "none"
    fake: bool = False
    data_dir: str | Path = "."
    holdout: float = 0.0
    peek: bool = False
    preparation: Preparation | None = None

    @property
    def augmentation(self) -> Augment:
        """The augmentation of training images: none."""
        return Augment()

    @property
    def folder(self) -> Path:
        """The data folder."""
        return Path(self.data_dir).expanduser()

    def files(self, name: str) -> DataFiles:
        """The files of a data set of the catalogue, downloaded if necessary."""
        return obtain(catalogue()[name], self.folder, fetch=not self.peek)


@dataclass(frozen=True, kw_only=True)
class ImageOptions(FileOptions):
    """The options of all data sets of images.

    Args:
        augment: random changes of training images: an ``Augment``, or its options.
    """

    augment: Augment | Mapping[str, bool | float] = Augment()  # noqa: RUF009 - frozen

    @property
    def augmentation(self) -> Augment:
        """The augmentation of training images."""
        if isinstance(self.augment, Augment):
            return self.augment
        return Augment(**self.augment)  # type: ignore[arg-type]


def takes_options(read: Callable[..., DataSet]) -> Callable[..., DataSet]:
    """Turn the first parameter of a function, its options object, into keyword parameters.

    ``mnist(options: ImageOptions, *, pad: int = 0)`` becomes ``mnist(*, pad=0, split="official",
    ...)``. The signature names every option with its type and default; the schema of ``conf/data``
    is derived from it.
    """
    first, *own = inspect.signature(read, eval_str=True).parameters.values()
    kind = first.annotation
    shared = inspect.signature(kind, eval_str=True).parameters.values()

    @wraps(read)
    def data_set(**options: Any) -> DataSet:
        check_arguments(data_set, options, "data.")
        common = {field.name: options.pop(field.name) for field in shared if field.name in options}
        return read(kind(**common), **options)

    returned = get_type_hints(read)["return"]
    signature = inspect.Signature([*own, *shared], return_annotation=returned)
    data_set.__signature__ = signature  # type: ignore[attr-defined]
    data_set.__annotations__ = {field.name: field.annotation for field in (*own, *shared)}
    data_set.__annotations__["return"] = returned
    return data_set


@dataclass(frozen=True)
class Raw:
    """A data set as its files have it.

    Args:
        inputs: (N, ...); the official training samples first.
        targets: (N,): class numbers, or values for regression.
        official: number of official training samples; None: there is no official split.
        classes: number of classes; 0 for regression.
        source: where it comes from, for the record.
        content: hash of the arrays.
        top: largest possible input, if the smallest is 0; None: there is no such range.
        keep: axes that have statistics of their own under ``preprocess=standard``.
        vocabulary: number of different tokens; 0: inputs are values.
        test_share: default share of a random split; None: the size of the official test data.
        labels: names of the classes.
    """

    inputs: NDArray[Any]
    targets: NDArray[Any]
    official: int | None
    classes: int
    source: str
    content: str
    top: float | None = 255.0
    keep: Sequence[int] = (-1,)
    vocabulary: int = 0
    test_share: float | None = None
    labels: Sequence[str] = ()

    @classmethod
    def of(
        cls, entry: Decoded, source: str, classes: int, official: int | None = None, **about: Any
    ) -> Raw:
        """Make it of decoded arrays; ``train`` and ``vocabulary`` among them are numbers."""
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
    """Decode the files of a data set through the cache, or make a fake one.

    Args:
        name: name in the catalogue.
        options: the user's options.
        decode: makes, of the paths of the files, ``inputs``, ``targets`` and, if there is an
            official split, ``train``: the number of training samples.
        shape: shape of a fake sample.
        classes: number of classes; 0 for regression.
        key: what the arrays depend on besides the files.
        official_share: share of the official training data, if ``decode`` makes no ``train``.
        vocabulary: number of different tokens of a fake text.
        **about: further fields of :class:`Raw`.
    """
    if options.fake:
        return fake(shape, classes, vocabulary=vocabulary, **about)
    files = options.files(name)
    entry = decoded(name, {"files": files.hashes, **(key or {})}, lambda: decode(*files.paths))
    official = int(len(entry.arrays["inputs"]) * official_share)
    return Raw.of(entry, files.source, classes, official, **about)


def fake(
    shape: tuple[int, ...],
    classes: int,
    *,
    top: float | None = 255.0,
    vocabulary: int = 0,
    official: bool = True,
    **about: Any,
) -> Raw:
    """A few hundred random samples: every config runs anywhere, and learns nothing.

    Args:
        shape: shape of a sample.
        classes: number of classes; 0 for regression.
        top: inputs lie between 0 and this; None: they are normally distributed.
        vocabulary: number of different tokens, which the inputs then are.
        official: whether there is an official split.
        **about: further fields of :class:`Raw`.
    """
    random = np.random.default_rng(0)
    size = (FAKE_TRAIN + FAKE_TEST, *shape)
    check_memory(math.prod(size), f"data: {size[0]} samples of {'x'.join(map(str, shape))}")
    if vocabulary:
        inputs: NDArray[Any] = random.integers(0, vocabulary, size, dtype=np.int32)
    elif top is None:
        inputs = random.normal(size=size).astype(np.float32)
    elif top == 255:
        inputs = random.integers(0, 256, size, dtype=np.uint8)
    else:
        inputs = (top * random.random(size)).astype(np.float32)
    # Every class is in both splits.
    counts = (FAKE_TRAIN, FAKE_TEST)
    labels = [random.permutation(np.arange(count) % max(classes, 1)) for count in counts]
    targets = np.concatenate(labels) if classes else random.random(len(inputs))
    content = f"fake {shape} {classes} {top} {vocabulary}"
    about |= {"top": top, "vocabulary": vocabulary}
    return Raw(inputs, targets, FAKE_TRAIN if official else None, classes, "fake", content, **about)


def assemble(name: str, raw: Raw, options: FileOptions, *, pad: int = 0) -> DataSet:
    """Split, limit and prepare raw samples; tables get ``pad`` columns of zeros on either side."""
    check_memory(8 * pad * len(raw.targets), f"data.pad={pad}")
    indices = partition(raw.targets, raw.classes, raw.official, options, raw.test_share)
    if not all(map(len, indices)):
        raise UserError(f"data={name}: the training or the test data is empty.")
    augment = options.augmentation or None
    if augment and raw.inputs.ndim != 4:
        raise UserError(f"data.augment: data={name} has no images to change.")
    fitted = _fitted(raw, options, indices[0])
    train, test = (_take(raw, index) for index in indices)
    preparation: Preparation | None = None
    ready = True
    if not options.peek:
        preparation = options.preparation or _fit(name, raw, options, train, fitted)
        ready = preparation is None or 4 * raw.inputs.size < LARGE
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
    """Indices into the training data that statistics come from; None: all, or no statistics."""
    if not options.holdout or options.preprocess not in FITTED:
        return None
    held = held_out(raw.targets[train], options.holdout, options.run_seed, raw.classes)
    return np.flatnonzero(~held)


def _fit(
    name: str, raw: Raw, options: FileOptions, train: Split, fitted: Index | None
) -> Preparation | None:
    if raw.vocabulary:
        if options.preprocess != "none":
            raise UserError(
                f"data.preprocess={options.preprocess}: data={name} has nothing to scale."
            )
        return None
    values = train.inputs.numpy()
    values = values if fitted is None else values[fitted]
    return Preparation.fit(options.preprocess, values, top=raw.top, keep=raw.keep)


def _prepare(inputs: Tensor, preparation: Preparation | None, pad: int) -> Tensor:
    inputs = inputs if preparation is None else preparation(inputs)
    return functional.pad(inputs, (pad, pad)) if pad else inputs


def _take(raw: Raw, index: Index) -> Split:
    contiguous = len(index) == index[-1] - index[0] + 1  # a slice copies nothing
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
