"""What travels with an exported network: how to prepare inputs, and what outputs mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from focusing.errors import UserError
from focusing.models import Network
from focusing.nn import BandedLinear
from focusing.shipping.card_check import faults

if TYPE_CHECKING:  # a file can be used without what trains
    from focusing.shipping.trained import Trained

KEY = "focusing"
"""Under which a card is found in the metadata of a file."""
SCHEMA = 1
READING = ("coefficients", "frames", "window", "hop", "bands", "interpolation")
"""Options of data sets that say how files are read."""

TOPS = {"clt": 1.0}
"""Largest raw value of images, where it is not 255."""


@dataclass(frozen=True)
class Card:
    """Plain values only.

    Args:
        data: name of the data set.
        shape: of a raw sample.
        classes: names of the classes; none for regression.
        factor: raw values are multiplied by it; nested lists that fit a sample.
        offset: is added then.
        top: raw values of images go from 0 to it.
        border: so many zeros around a raw image.
        pad: so many zeros on either side of a prepared row.
        vocabulary: number of different tokens; 0: inputs are values.
        reading: options that say how files become raw samples.
        model: config of the network, with its sizes.
        tiles: of the banded layers, by name; their number of inputs comes first.
        pruned: share of the focused layers' connections that is gone.
        schema: of all this.
    """

    data: str
    shape: list[int]
    classes: list[str]
    factor: Any = 1.0
    offset: Any = 0.0
    top: float = 255.0
    border: int = 0
    pad: int = 0
    vocabulary: int = 0
    reading: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    tiles: dict[str, Any] = field(default_factory=dict)
    pruned: float = 0.0
    schema: int = SCHEMA

    def prepare(self, raw: NDArray[Any]) -> Tensor:
        """Raw samples (N, *shape) as the network wants them."""
        if self.vocabulary:
            return torch.from_numpy(raw.astype(np.int32))
        samples = torch.from_numpy(raw.astype(np.float32))
        if self.border:
            samples = functional.pad(samples, (0, 0, *[self.border] * 4))
        samples = samples * torch.tensor(self.factor) + torch.tensor(self.offset)
        return functional.pad(samples, (self.pad, self.pad)) if self.pad else samples

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | None, file: Any) -> Card:
        """From text, checked; the file is for the error message."""
        try:
            values: Mapping[str, Any] = json.loads(text or "")
            schema = values["schema"]
            if isinstance(schema, int) and schema > SCHEMA:
                raise UserError(
                    f"{file} was made by a newer version of focusing (schema {schema}, this one "
                    f"reads {SCHEMA}): update."
                )
            card = cls(**values)
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"{file} does not say how to prepare inputs: it is not from focusing export."
            ) from None
        fault = next(faults(card), "" if schema == SCHEMA else f"its schema is {schema!r}")
        if fault:
            raise UserError(f"{file} has a card that makes no sense: {fault}.")
        return card


def card_of(run: Trained, net: Network, fast: Any = None) -> Card:
    """The card of a run's network.

    Args:
        run: the run.
        net: its network, which may have been pruned.
        fast: the network as it is exported.
    """
    options, scale = run.config["data"], run.data.preparation
    padding = options.get("pad", 0)
    image = len(net.shape) == 3
    shape = [side - 2 * padding for side in net.shape[:2]] if image else [net.inputs - 2 * padding]
    masks = [each.mask for each in net.focused_layers().values() if each.mask is not None]
    connections = sum(each.weight.numel() for each in net.focused_layers().values())
    gone = sum(int((~each).sum()) for each in masks)
    model = {name: value for name, value in run.config["model"].items() if name != "name"}
    sizes: dict[str, Any] = {"inputs": list(net.shape), "outputs": run.data.outputs}
    if run.data.vocabulary:
        sizes["vocabulary"] = run.data.vocabulary
    modules = fast.named_modules() if fast is not None else ()
    return Card(
        run.data.name,
        [*shape, *net.shape[2:]],
        run.labels,
        factor=1.0 if scale is None else scale.factor.tolist(),
        offset=0.0 if scale is None else scale.offset.tolist(),
        top=TOPS.get(run.data.name, 255.0),
        border=padding if image else 0,
        pad=0 if image else padding,
        vocabulary=run.data.vocabulary,
        reading={name: options[name] for name in READING if name in options},
        model={**model, **sizes},
        tiles={
            name: [each.in_features, each.tiles]
            for name, each in modules
            if isinstance(each, BandedLinear)
        },
        pruned=gone / connections if connections else 0.0,
    )
