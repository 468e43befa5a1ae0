"""The card in an exported file: how to prepare inputs, and the meaning of outputs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch.nn import functional

from focusing.data.image_sets import INTERPOLATIONS
from focusing.errors import UserError, printable
from focusing.models import Network
from focusing.nn import BandedLinear

if TYPE_CHECKING:  # an exported file is used without the code that trains
    from focusing.shipping.trained import Trained

KEY = "focusing"
"""Key of the card in the metadata of a file."""
SCHEMA = 1
MAX_VALUES = 2**26
"""Limit on the values of a sample: a thousand times the largest of our data sets."""
READING_OPTIONS = ("coefficients", "frames", "window", "hop", "bands", "interpolation")
"""Options of data sets that define how files are read."""
MAX_PIXELS = {"clt": 1.0}
"""Largest raw pixel value of data sets where it is not 255."""


def _check_printable(name: str) -> str:
    if printable(name) != name:
        raise ValueError("has characters that cannot be printed")
    return name


Name = Annotated[str, AfterValidator(_check_printable)]
Tile = Annotated[list[Annotated[int, Field(ge=-1)]], Field(min_length=3, max_length=3)]
"""Number of neurons, first input (-1 for a list of inputs) and number of inputs."""
STRICT = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")


@dataclass(frozen=True, config=STRICT)
class Card:
    """How to use an exported network. All fields are validated: files may come from strangers.

    Args:
        data: name of the data set.
        shape: shape of a raw sample, with one or three dimensions.
        classes: names of the classes; empty for regression.
        factor: raw values are multiplied by it; a number, or nested lists that broadcast.
        offset: added after multiplying.
        top: largest raw value of images.
        border: width of the zero border of images, added before scaling.
        pad: number of zeros on either side of a row, added after scaling.
        vocabulary: number of different tokens; 0 if inputs are not tokens.
        reading: options for reading files.
        model: config of the network, including input and output sizes.
        tiles: number of inputs and tiles of every banded layer, by name.
        pruned: fraction of the focused layers' connections that was dropped.
        schema: version of this format.
    """

    data: Name
    shape: Annotated[list[PositiveInt], Field(min_length=1, max_length=3)]
    classes: list[Name]
    factor: Any = 1.0
    offset: Any = 0.0
    top: NonNegativeFloat = 255.0
    border: NonNegativeInt = 0
    pad: NonNegativeInt = 0
    vocabulary: NonNegativeInt = 0
    reading: dict[str, PositiveInt | str] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    tiles: dict[str, tuple[PositiveInt, list[Tile]]] = field(default_factory=dict)
    pruned: NonNegativeFloat = 0.0
    schema: Annotated[int, Field(ge=SCHEMA)] = SCHEMA

    @model_validator(mode="after")
    def _check(self) -> Card:
        if len(self.shape) == 2:
            raise ValueError("shape is not one number or three")
        outputs = self.model.get("outputs")
        if outputs is not None and outputs not in allowed_outputs(len(self.classes)):
            raise ValueError(f"{len(self.classes)} classes do not fit {outputs!r} outputs")
        if self.border and len(self.shape) != 3:
            raise ValueError("only images have a border")
        shape = [side + 2 * self.border for side in self.shape[:2]] + self.shape[2:]
        if math.prod(shape) + 2 * self.pad > MAX_VALUES:
            raise ValueError("a sample is too large")
        for name in ("factor", "offset"):
            try:
                values = np.asarray(getattr(self, name), dtype=np.float64)
                np.broadcast_to(values, shape)
            except (TypeError, ValueError):
                raise ValueError(f"{name} does not fit a sample") from None
            if not np.isfinite(values).all():
                raise ValueError(f"{name} is not finite")
        for name, value in self.reading.items():
            if name not in READING_OPTIONS:
                raise ValueError(f"reading has an unknown option {name}")
            if name == "interpolation" and value not in INTERPOLATIONS:
                raise ValueError(f"interpolation is not one of {', '.join(INTERPOLATIONS)}")
            if name != "interpolation" and isinstance(value, str):
                raise ValueError(f"{name} is not a whole number")
        return self

    def prepare(self, raw: NDArray[Any]) -> Tensor:
        """Prepare raw samples (N, *shape) for the network."""
        if self.vocabulary:
            return torch.from_numpy(raw.astype(np.int32))
        with np.errstate(over="ignore"):  # infinities, which the caller looks for
            samples = torch.from_numpy(raw.astype(np.float32))
        if self.border:
            samples = functional.pad(samples, (0, 0, *[self.border] * 4))
        samples = samples * torch.tensor(self.factor) + torch.tensor(self.offset)
        return functional.pad(samples, (self.pad, self.pad)) if self.pad else samples

    def to_json(self) -> str:
        """Encode as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | None, file: Any) -> Card:
        """Decode and validate a card; ``file`` is for error messages."""
        try:
            schema = json.loads(text or "")["schema"]
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"{file} does not say how to prepare inputs: it is not from focusing export."
            ) from None
        if isinstance(schema, int) and schema > SCHEMA:
            raise UserError(
                f"{file} was made by a newer version of focusing (schema {schema}, this one "
                f"reads {SCHEMA}): update."
            )
        try:
            return _CARD.validate_json(text or "")
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"]))
            reason = fault["msg"].removeprefix("Input ").removeprefix("Value error, ")
            raise UserError(f"{file} has an invalid card: {f'{where} {reason}'.strip()}.") from None


_CARD = TypeAdapter(Card)


def allowed_outputs(classes: int) -> Sequence[int]:
    """Possible numbers of outputs: one per class; two classes may share one logit."""
    return {0: (1,), 2: (1, 2)}.get(classes, (classes,))


def describe_network(run: Trained, net: Network, exported: Any = None) -> Card:
    """Make the card of a run's network.

    Args:
        run: the run.
        net: its network, possibly pruned.
        exported: the network for inference that is exported, if any.
    """
    options, scale = run.config["data"], run.data.preparation
    padding = options.get("pad", 0)
    is_image = len(net.shape) == 3
    sides = net.shape[:2] if is_image else [net.inputs]
    model = {name: value for name, value in run.config["model"].items() if name != "name"}
    sizes: dict[str, Any] = {"inputs": list(net.shape), "outputs": run.data.outputs}
    if run.data.vocabulary:
        sizes["vocabulary"] = run.data.vocabulary
    modules = exported.named_modules() if exported is not None else ()
    return Card(
        run.data.name,
        [*(side - 2 * padding for side in sides), *net.shape[2:]],
        run.labels,
        factor=1.0 if scale is None else scale.factor.tolist(),
        offset=0.0 if scale is None else scale.offset.tolist(),
        top=MAX_PIXELS.get(run.data.name, 255.0),
        border=padding if is_image else 0,
        pad=0 if is_image else padding,
        vocabulary=run.data.vocabulary,
        reading={name: options[name] for name in READING_OPTIONS if name in options},
        model={**model, **sizes},
        tiles={
            name: (module.in_features, module.tiles)
            for name, module in modules
            if isinstance(module, BandedLinear)
        },
        pruned=sparsity_of(net),
    )


def sparsity_of(net: Network) -> float:
    """Fraction of the focused layers' connections that was pruned."""
    layers = net.focused_layers().values()
    dropped = sum(int((~layer.mask).sum()) for layer in layers if layer.mask is not None)
    return dropped / max(1, sum(layer.weight.numel() for layer in layers))
