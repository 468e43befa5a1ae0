"""Which neurons to compute together: tiles of a sparse matrix that plain matrix products fill.

A focused neuron needs the inputs around its centre. Neurons that need nearly the same inputs make
a tile: a small dense matrix over the slice of inputs that they need, or, where these are scattered
over an image, over a copy of them. The smaller blocks of ``blocks.py`` are groups of neurons, too.
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
CALL_FACTORS = (1, 2, 4, 8, 16, 32, 64)
"""Costs of a tile to try, in calls."""
MAX_SINGLE_SHARE = 0.8
"""Tiles must promise to need less than this share of a single sample's time."""
MAX_CANDIDATES = 256
"""Neurons that are compared to fill a group."""

# Costs are counted in multiply-adds per sample, fitted to measurements on a core that does 85 of
# them per ns. A tile costs a call; an input costs a load, and a copy if it has to be moved.
CALL, LOAD, MOVE = 250, 12, 45
"""For batches of 32 to 512 samples."""
CALL_SINGLE, MOVE_SINGLE = 11_000, 10
"""For a single sample, whose time goes into fetching weights; loads cost nothing."""


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
        per_input = load + (0 if isinstance(self.columns, slice) else move)
        return call + (-(-len(self.rows) // BLOCK) * BLOCK + per_input) * self.width


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

    def cost(self, *, single: bool = False, restore: bool = True) -> float:
        """Estimated cost of all tiles, and of putting their outputs into the order of the neurons.

        Args:
            single: for a single sample, not for a batch.
            restore: whether the order matters.
        """
        call, move, load = (CALL_SINGLE, MOVE_SINGLE, 0) if single else (CALL, MOVE, LOAD)
        moved = len(self.order) * move if restore and not self.sorted else 0
        first = -call  # the whole matrix takes one call too
        return sum((tile.cost(call, move, load) for tile in self.tiles), first) + moved


def choose_tiling(used: Bools, positions: Floats, *, restore: bool = True) -> Tiling:
    """Find cheap tiles for a sparse matrix; a single one of everything where no others pay.

    They are chosen for batches, but none are slower than the whole matrix for a single sample.

    Args:
        used: which inputs each neuron needs, (n, m).
        positions: of the inputs, (m, d); neurons that need near ones are put together.
        restore: whether outputs must come out in the order of the neurons.
    """
    neurons, inputs = used.shape
    rows = np.arange(neurons)
    best = Tiling([Tile(rows, slice(0, inputs))])
    cost, limit = best.cost(), MAX_SINGLE_SHARE * best.cost(single=True)
    for keys in (rows[:, None].astype(np.float64), _extent(used, positions)):
        for factor in CALL_FACTORS:  # fewer tiles, if many are too many for one sample
            tiling = Tiling(_halve(used, keys, rows, factor * CALL))
            if tiling.cost(single=True, restore=restore) <= limit:
                if tiling.cost(restore=restore) < cost:
                    best, cost = tiling, tiling.cost(restore=restore)
                break
    return best


def _extent(used: Bools, positions: Floats) -> Floats:
    """Where the inputs of each neuron begin and end on each axis, and how far that is, (n, 3d)."""
    first = np.stack([np.where(used, axis, np.inf).min(1) for axis in positions.T], axis=1)
    last = np.stack([np.where(used, axis, -np.inf).max(1) for axis in positions.T], axis=1)
    extent = np.concatenate([first, last, last - first], axis=1)
    return np.where(np.isfinite(extent), extent, 0.0)  # of neurons that need nothing


def _halve(used: Bools, keys: Floats, rows: Ints, call: float) -> list[Tile]:
    """Tiles of neurons that need nearly the same inputs: halves of halves, as long as these pay.

    Args:
        used: which inputs each neuron needs.
        keys: to sort all neurons by, (n, k); halves are cut along the one that makes them cheapest.
        rows: the neurons to divide.
        call: cost of a tile beyond its arithmetic.
    """
    whole = _tile(used, rows)
    if len(rows) <= BLOCK:
        return [whole]
    half = max(1, round(len(rows) / 2 / BLOCK)) * BLOCK
    orders = [rows[np.argsort(key, kind="stable")] for key in keys[rows].T]
    pairs = [(np.sort(order[:half]), np.sort(order[half:])) for order in orders]
    pair = min(pairs, key=lambda pair: sum(_tile(used, part).cost(call) for part in pair))
    tiles = [tile for part in pair for tile in _halve(used, keys, part, call)]
    return tiles if sum(tile.cost(call) for tile in tiles) < whole.cost(call) else [whole]


def _tile(used: Bools, rows: Ints) -> Tile:
    needed = np.flatnonzero(used[rows].any(0))
    if not len(needed):
        return Tile(rows, slice(0, 0))
    span = Tile(rows, slice(int(needed[0]), int(needed[-1]) + 1))
    picked = Tile(rows, needed)
    return picked if picked.cost() < span.cost() else span


def group_neurons(used: Bools, size: int) -> list[Ints]:
    """Groups of so many neurons that need nearly the same inputs; ``used`` says which, (n, m).

    Whichever neuron adds least to the work of a group joins it, until it is full.
    """
    needs = [int.from_bytes(np.packbits(row).tobytes(), "big") for row in used]  # sets of bits
    left = np.argsort(used.argmax(1), kind="stable").tolist()
    groups = []
    while left:
        group = [left.pop(0)]
        inputs = needs[group[0]]
        while left and len(group) < size:
            # All others pay for inputs that only one needs, and that one for what it needs not.
            added = [
                len(group) * needs[neuron].bit_count()
                - (len(group) + 1) * (needs[neuron] & inputs).bit_count()
                for neuron in left[:MAX_CANDIDATES]
            ]
            group.append(left.pop(added.index(min(added))))
            inputs |= needs[group[-1]]
        groups.append(np.sort(group))
    return groups
