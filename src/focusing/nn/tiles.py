"""Which neurons to compute together: tiles of a sparse matrix that plain matrix products fill.

A focused neuron needs the inputs around its centre. Neurons that need nearly the same inputs make
a tile: a small dense matrix over the slice of inputs that they need, or, where these are scattered
over an image, over a copy of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

BLOCK = 16
"""Neurons are counted in blocks of this size, which is what a matrix product fills anyway."""
CALL = 2000
"""What a tile costs beyond its arithmetic, in multiply-adds per sample, for batches of 32 to 512.

This and the next two were fitted to measurements on a core that does 85 multiply-adds per ns.
"""
LOAD = 5
"""What an input costs a tile, however few neurons it has."""
MOVE = 45
"""What copying a value to where it is needed costs."""
CALL_ALONE, MOVE_ALONE = 11_000, 10
"""The same for a single sample, whose time goes into fetching weights; inputs cost nothing."""
SAFE = 0.8
"""Tiles must promise to need less than this share of a single sample's time."""


@dataclass(frozen=True)
class Tile:
    """Some neurons, and the inputs that they need: a slice, or any."""

    rows: Ints
    columns: slice | Ints

    @property
    def width(self) -> int:
        """Number of inputs."""
        if isinstance(self.columns, slice):
            return int(self.columns.stop - self.columns.start)
        return len(self.columns)

    def cost(self, call: float = CALL, move: float = MOVE, load: float = LOAD) -> float:
        """Multiply-adds per sample, or what takes as long."""
        rows = -(-len(self.rows) // BLOCK) * BLOCK
        each = rows + load + (0 if isinstance(self.columns, slice) else move)
        return call + each * self.width


@dataclass(frozen=True)
class Tiling:
    """Tiles that cover every neuron once, in the order in which outputs come out."""

    tiles: list[Tile]

    @property
    def order(self) -> Ints:
        """The neurons in the order of the tiles."""
        return np.concatenate([tile.rows for tile in self.tiles])

    @property
    def sorted(self) -> bool:
        """Whether outputs come out in the order of the neurons."""
        return bool((np.diff(self.order) == 1).all())

    def cost(self, *, alone: bool = False, restore: bool = True) -> float:
        """Estimated cost of all tiles, and of putting their outputs into the order of the neurons.

        Args:
            alone: for a single sample, not for a batch.
            restore: whether the order matters.
        """
        call, move, load = (CALL_ALONE, MOVE_ALONE, 0) if alone else (CALL, MOVE, LOAD)
        moved = len(self.order) * move if restore and not self.sorted else 0
        first = -call  # the whole matrix takes one call too
        return sum((tile.cost(call, move, load) for tile in self.tiles), first) + moved


def tiling(used: Bools, positions: Floats, *, restore: bool = True) -> Tiling:
    """The cheapest tiles that were found; a single one of everything where no others pay.

    They are chosen for batches, but none are slower than the whole matrix for a single sample.

    Args:
        used: which inputs each neuron needs, (n, m).
        positions: of the inputs, (m, d); neurons that need near ones are put together.
        restore: whether outputs must come out in the order of the neurons.
    """
    neurons, inputs = used.shape
    everything = Tile(np.arange(neurons), slice(0, inputs))
    best = Tiling([everything])
    cost, limit = best.cost(), SAFE * best.cost(alone=True)
    index = np.arange(neurons, dtype=np.float64)[:, None]
    extent = _extent(used, positions)
    ways = [(index, False), (extent, False)]
    if positions.shape[1] > 1:
        ways.append((extent, True))
    for features, widest in ways:
        for call in (CALL, 4 * CALL, 16 * CALL):  # fewer tiles, if many are too many for one sample
            found = Tiling(_best(used, features, _tile(used, everything.rows), call, widest)[1])
            if found.cost(alone=True, restore=restore) <= limit:
                if found.cost(restore=restore) < cost:
                    best, cost = found, found.cost(restore=restore)
                break
    return best


def _extent(used: Bools, positions: Floats) -> Floats:
    """Where the inputs of each neuron begin and end on each axis, (n, 2d)."""
    sides = [
        extreme(np.where(used, axis, outside), axis=1)
        for axis in positions.T
        for extreme, outside in ((np.min, np.inf), (np.max, -np.inf))
    ]
    features = np.stack(sides, axis=1)
    return np.where(np.isfinite(features), features, 0.0)  # of neurons that need nothing


def _best(
    used: Bools, features: Floats, tile: Tile, call: float, widest: bool
) -> tuple[float, list[Tile]]:
    """Halve the neurons of a tile, and the halves, and so on; keep the halves that pay.

    Args:
        used: which inputs each neuron needs.
        features: what neurons are sorted by before they are halved, (n, features).
        tile: all neurons.
        call: cost of a tile beyond its arithmetic.
        widest: halve by the feature that differs most, which makes patches of an image; else by
            the one whose halves are cheapest.
    """
    cost = tile.cost(call)
    if len(tile.rows) <= BLOCK or tile.width == 0:
        return cost, [tile]
    values = features[tile.rows]
    if widest:
        values = values[:, [np.argmax(np.ptp(values, axis=0))]]
    half = max(1, round(len(tile.rows) / 2 / BLOCK)) * BLOCK
    orders = [tile.rows[np.argsort(each, kind="stable")] for each in values.T]
    ways = [
        [_tile(used, np.sort(part)) for part in (order[:half], order[half:])] for order in orders
    ]
    way = min(ways, key=lambda halves: sum(part.cost(call) for part in halves))
    parts = [_best(used, features, part, call, widest) for part in way]
    divided = sum(part[0] for part in parts)
    if divided < cost:
        return divided, [tile for part in parts for tile in part[1]]
    return cost, [tile]


def _tile(used: Bools, rows: Ints) -> Tile:
    needed = np.flatnonzero(used[rows].any(0))
    if not len(needed):
        return Tile(rows, slice(0, 0))
    span = Tile(rows, slice(int(needed[0]), int(needed[-1]) + 1))
    picked = Tile(rows, needed)
    return picked if picked.cost() < span.cost() else span
