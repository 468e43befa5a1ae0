"""Whether a card, which may come from anywhere, makes sense."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from focusing.data.image_sets import INTERPOLATIONS
from focusing.errors import printable

if TYPE_CHECKING:
    from focusing.shipping.card import Card

MAX_VALUES = 2**26
"""Of a sample: a thousand times the largest here."""


def faults(card: Card) -> Iterator[str]:
    """What is wrong with a card, each in a few words."""
    if not _name(card.data):
        yield "data is not a name"
    shaped = _counts(card.shape) and len(card.shape) in (1, 3)
    if not shaped:
        yield "shape is not one number or three"
    if not (isinstance(card.classes, list) and all(map(_name, card.classes))):
        yield "classes are not a list of names"
    else:
        allowed = outputs_of(len(card.classes))
        outputs = card.model.get("outputs") if isinstance(card.model, dict) else None
        if outputs is not None and outputs not in allowed:
            yield f"{len(card.classes)} classes do not fit {outputs!r} outputs"
    whole = True
    for name in ("border", "pad", "vocabulary"):
        if not _count(getattr(card, name), least=0):
            whole = False
            yield f"{name} is not a number of things"
    if shaped and whole:
        yield from _preparation(card)
    for name in ("top", "pruned"):
        value = getattr(card, name)
        if not _number(value) or not 0 <= value < np.inf:
            yield f"{name} is not a positive number"
    if not isinstance(card.reading, dict):
        yield "reading is not a table"
    else:
        yield from _reading(card.reading)
    if not (isinstance(card.model, dict) and isinstance(card.tiles, dict)):
        yield "model or tiles are not tables"
    elif not all(map(_tiles, card.tiles.values())):
        yield "tiles are not lists of numbers"


def _preparation(card: Card) -> Iterator[str]:
    if card.border and len(card.shape) != 3:
        yield "only images have a border"
    grown = [side + 2 * card.border for side in card.shape[:2]] if card.border else card.shape
    shape = (*grown, *card.shape[len(grown) :])
    if math.prod(shape) + 2 * card.pad > MAX_VALUES:
        yield "a sample is too large"
        return
    for name in ("factor", "offset"):
        try:
            values = np.asarray(getattr(card, name), dtype=np.float64)
            np.broadcast_to(values, shape)
        except (TypeError, ValueError):
            yield f"{name} does not fit a sample"
        else:
            if not np.isfinite(values).all():
                yield f"{name} is not finite"


def _reading(options: Mapping[str, Any]) -> Iterator[str]:
    from focusing.shipping.card import READING

    for name, value in options.items():
        if name not in READING:
            yield f"reading has an unknown option {name}"
        elif name == "interpolation":
            if value not in INTERPOLATIONS:
                yield f"interpolation is not one of {', '.join(INTERPOLATIONS)}"
        elif not _count(value):
            yield f"{name} is not a number of things"


def outputs_of(classes: int) -> Sequence[int]:
    """Numbers of outputs that a network may have: two classes may share one."""
    return {0: (1,), 2: (1, 2)}.get(classes, (classes,))


def _name(value: Any) -> bool:
    return isinstance(value, str) and printable(value) == value


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _count(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _counts(values: Any) -> bool:
    return isinstance(values, list) and all(map(_count, values))


def _tiles(entry: Any) -> bool:
    if not (isinstance(entry, list) and len(entry) == 2 and _count(entry[0])):
        return False
    return isinstance(entry[1], list) and all(
        isinstance(tile, list) and len(tile) == 3 and all(_count(each, -1) for each in tile)
        for tile in entry[1]  # -1: a copy of inputs
    )
