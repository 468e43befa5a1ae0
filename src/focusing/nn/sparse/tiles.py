"""Tilings of a sparse matrix: which neurons to compute together in one dense product.

A focused neuron needs the inputs around its centre. Neurons that need nearly the same inputs form a
tile: a small dense matrix over a slice of the inputs or, where these are scattered over an image,
over a gathered copy. ``group_neurons`` does the same for the smaller blocks of ``blocks.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

BLOCK = 16
"""Granularity of tile heights: a matrix product pads its rows to about this many."""
CALL_FACTORS = (1, 2, 4, 8, 16, 32, 64)
"""Multiples of the call cost to try; higher ones give fewer tiles."""
MAX_SINGLE_SHARE = 0.8
"""Tiles must take less than this share of the dense time of a single sample."""
MAX_CANDIDATES = 256
"""Neurons to compare when a group takes its next one."""

# Cost model, in multiply-adds per sample, fitted to measurements on a core that does 85 of them
# per ns. A tile costs a call; an input costs a load, and a copy if it has to be gathered.
CALL, LOAD, MOVE = 250, 12, 45
"""For batches of 32 to 512 samples."""
CALL_SINGLE, MOVE_SINGLE = 11_000, 10
"""For a single sample, which is bound by reading weights; loads cost nothing."""


@dataclass(frozen=True)
class Tile:
    """Some neurons and the inputs that they need: a slice, or a list of indices."""

    rows: Ints
    columns: slice | Ints

    @property
    def width(self) -> int:
        """Number of inputs."""
        if isinstance(self.columns, slice):
            return int(self.columns.stop - self.columns.start)
        return len(self.columns)

    def cost(self, call: float = CALL, move: float = MOVE, load: float = LOAD) -> float:
        """Estimated cost, in multiply-adds per sample."""
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
        """Estimated cost of all tiles, in multiply-adds per sample.

        Args:
            single: for a single sample, not for a batch.
            restore: add the cost of putting the outputs into the order of the neurons.
        """
        call, move, load = (CALL_SINGLE, MOVE_SINGLE, 0) if single else (CALL, MOVE, LOAD)
        moved = len(self.order) * move if restore and not self.sorted else 0
        first = -call  # relative to the dense product, which takes one call too
        return sum((tile.cost(call, move, load) for tile in self.tiles), first) + moved


def choose_tiling(used: Bools, positions: Floats, *, restore: bool = True) -> Tiling:
    """Find the cheapest tiling of a sparse matrix; one dense tile where no other pays.

    It is chosen for batches, but must not be slower than the dense product for a single sample.

    Args:
        used: which inputs each neuron needs, (n, m).
        positions: positions of the inputs, (m, d); neurons that need near ones share a tile.
        restore: whether outputs must come out in the order of the neurons.
    """
    neurons, inputs = used.shape
    rows = np.arange(neurons)
    best = Tiling([Tile(rows, slice(0, inputs))])
    cost, limit = best.cost(), MAX_SINGLE_SHARE * best.cost(single=True)
    for keys in (rows[:, None].astype(np.float64), _extent(used, positions)):
        for factor in CALL_FACTORS:  # until the tiles are few enough for a single sample
            tiling = Tiling(_halve(used, keys, rows, factor * CALL))
            if tiling.cost(single=True, restore=restore) <= limit:
                if tiling.cost(restore=restore) < cost:
                    best, cost = tiling, tiling.cost(restore=restore)
                break
    return best


def _extent(used: Bools, positions: Floats) -> Floats:
    """First and last position of each neuron's inputs on each axis, and their distance, (n, 3d)."""
    first = np.stack([np.where(used, axis, np.inf).min(1) for axis in positions.T], axis=1)
    last = np.stack([np.where(used, axis, -np.inf).max(1) for axis in positions.T], axis=1)
    extent = np.concatenate([first, last, last - first], axis=1)
    return np.where(np.isfinite(extent), extent, 0.0)  # neurons without inputs give inf


def _halve(used: Bools, keys: Floats, rows: Ints, call: float) -> list[Tile]:
    """Split neurons recursively into halves, as long as that is cheaper.

    Args:
        used: which inputs each neuron needs.
        keys: sort keys of all neurons, (n, k); each split takes the key that is cheapest.
        rows: the neurons to split.
        call: fixed cost of a tile.
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
    """Greedy groups of ``size`` neurons that need nearly the same inputs; ``used`` is (n, m).

    A group takes the neuron that adds the fewest zeros to it, until it is full.
    """
    needs = [int.from_bytes(np.packbits(row).tobytes(), "big") for row in used]  # bit sets
    left = np.argsort(used.argmax(1), kind="stable").tolist()
    groups = []
    while left:
        group = [left.pop(0)]
        inputs = needs[group[0]]
        while left and len(group) < size:
            # Zeros that a neuron adds, up to a constant: its new inputs for all members, and the
            # inputs of the group that it does not use for itself.
            added = [
                len(group) * needs[neuron].bit_count()
                - (len(group) + 1) * (needs[neuron] & inputs).bit_count()
                for neuron in left[:MAX_CANDIDATES]
            ]
            group.append(left.pop(added.index(min(added))))
            inputs |= needs[group[-1]]
        groups.append(np.sort(group))
    return groups
