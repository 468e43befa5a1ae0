"""How to walk through a focused product: tiles of neurons over the inputs that they can reach.

A focused neuron sees one contiguous interval of inputs. Neurons sorted by their centres therefore
form a band, which tiles of neighbouring neurons cover with plain matrix products on slices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focusing.nn.memory import Reserve, as_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

BLOCK = 16
"""Matrix products are fastest on multiples of this many neurons and inputs."""
TILE = 6
"""Blocks of neurons in a tile: fewer would waste less of a band, but each has its cost."""
NEARLY_ALL = 0.8
"""Share of the products from which on a product in one piece is faster."""
USES = 64
"""A tiling is made anew after so many uses, as foci that shrink leave it too wide."""


class Tile(NamedTuple):
    """Some neurons and the slice of inputs that they reach.

    Attributes:
        rows: which neurons, in the order of the tiling.
        columns: which inputs.
        values: where the tile is in a vector of the coefficients of all tiles.
    """

    rows: slice
    columns: slice
    values: slice

    def of(self, vector: Tensor) -> Tensor:
        """The part of a vector of all tiles that is of this one, (rows, columns)."""
        return vector[self.values].view(-1, self.columns.stop - self.columns.start)


class Tiling:
    """Tiles that cover every neuron once.

    Attributes:
        whole: whether it is one tile of all neurons, as they are, and all inputs.
        tiles: the tiles.
        order: neurons in the order of the tiles; None: as they are.
        size: number of coefficients in all tiles.
        table: for each row of the tiling its neuron, its first input, the one behind the last, and
            the place of its first coefficient in a vector of all of them, (n, 4).
    """

    def __init__(self, edges: Ints, start: Ints, stop: Ints, order: Ints, *, whole: bool) -> None:
        """Make tiles that begin at the rows ``edges`` and see the inputs from start to stop."""
        rows, columns = np.diff(edges, append=len(order)), stop - start
        ends = np.cumsum(rows * columns)
        places = ends - rows * columns
        limits = (part.tolist() for part in (edges, edges + rows, start, stop, places, ends))
        self.tiles = [
            Tile(slice(row, below), slice(first, last), slice(place, end))
            for row, below, first, last, place, end in zip(*limits, strict=True)
        ]
        within = np.arange(len(order)) - edges.repeat(rows)
        place = places.repeat(rows) + within * columns.repeat(rows)
        self.whole, self.size = whole, int(ends[-1])
        with torch.inference_mode(False):  # it must serve training too
            self.order = None if (np.diff(order) == 1).all() else torch.from_numpy(order)
        self.table = np.column_stack([order, start.repeat(rows), stop.repeat(rows), place])


class Band(Tiling):
    """Tiles of what foci see, good for all foci that see no more."""

    def __init__(self, centers: Floats, widths: Floats, radius: Floats, line: Floats) -> None:
        """Tile foci that see ``radius`` to either side of their centres, over inputs on a line."""
        order, edges = _order(centers, widths), tile_edges(len(centers), TILE)
        rows = np.diff(edges, append=len(order))
        left = np.minimum.reduceat((centers - radius)[order], edges)
        right = np.maximum.reduceat((centers + radius)[order], edges)
        start = np.searchsorted(line, left) // BLOCK * BLOCK
        stop = np.searchsorted(line, right, side="right")
        stop = np.minimum(-(-stop // BLOCK) * BLOCK, len(line))
        super().__init__(edges, start, stop, order, whole=False)
        # A focus that sees neither of the next inputs needs no more than its tile.
        beyond = np.concatenate([[-np.inf], line, [np.inf]])
        self._lower, self._upper = np.empty((2, len(order)))
        self._lower[order] = beyond[start].repeat(rows)
        self._upper[order] = beyond[stop + 1].repeat(rows)

    def holds(self, centers: Floats, radius: Floats) -> bool:
        """Whether it still serves foci that have moved; those that have diverged have no place."""
        return len(centers) == len(self._lower) and bool(
            (centers - radius > self._lower).all() and (centers + radius < self._upper).all()
        )


class Layout:
    """The positions of the inputs, read once for planning on the CPU.

    Attributes:
        tau: positions, (d, m).
        memory: for coefficients.
    """

    def __init__(self, tau: Tensor, *, regular: bool) -> None:
        """Read positions of shape (m, d); regular: they form a grid."""
        self.tau = tau.detach().numpy().T.copy()  # not a view: tensors may move
        self.memory = Reserve()
        self._line: Floats = self.tau[0].astype(np.float64)
        gaps = np.diff(self._line)
        # Only then are inputs that are near each other neighbours, so that slices can be skipped.
        self._sliceable = bool((gaps >= 0).all()) and (regular or len(self.tau) == 1)
        # A centre is at most this far from its nearest input, against which a cutoff is measured.
        self._nearest = gaps.max(initial=0.0) / 2
        self._whole: Tiling | None = None
        self._band: Band | None = None
        self._left = 0

    def whole(self, neurons: int) -> Tiling:
        """One tile of everything."""
        if self._whole is None or len(self._whole.table) != neurons:
            first, inputs = np.zeros(1, np.intp), np.full(1, len(self._line))
            self._whole = Tiling(first, first, inputs, np.arange(neurons), whole=True)
        return self._whole

    def tiling(self, mu: Tensor, sigma: Tensor, reach: float, *, always: bool) -> Tiling:
        """Tile the product for the foci (n, d) of this moment.

        Args:
            mu: centres.
            sigma: apertures.
            reach: inputs that are this many sigma farther from mu than the nearest one may be
                skipped.
            always: skip inputs even if a product in one piece is faster.
        """
        whole, band = self.whole(len(mu)), self._band
        if not self._sliceable:
            return whole
        self._left -= 1
        if self._left >= 0 and band is None:
            return whole
        line = self._line
        with np.errstate(all="ignore"):  # foci that have diverged give NaN, as weights do
            centers: Floats = as_array(mu)[:, 0].astype(np.float64)
            centers = centers.clip(line[0], line[-1])  # a centre outside sees the border
            widths: Floats = np.abs(as_array(sigma)[:, 0].astype(np.float64))
            radius = widths * reach + self._nearest
            if self._left >= 0 and band is not None and band.holds(centers, radius):
                return band
            band = None
            if np.isfinite(centers).all() and np.isfinite(radius).all():
                band = Band(centers, widths, radius, line)
                if not always and band.size >= NEARLY_ALL * whole.size:
                    band = None
        self._left, self._band = USES, band
        return band or whole


def tile_edges(neurons: int, size: int) -> Ints:
    """First neuron of each tile: tiles of nearly equal size, about ``size`` whole blocks."""
    blocks = -(-neurons // BLOCK)
    count = max(1, round(blocks / size))
    return np.arange(count) * blocks // count * BLOCK


def _order(centers: Floats, widths: Floats) -> Ints:
    """Sort by centre, wide foci apart from narrow ones: a tile is as wide as its widest neuron."""
    if widths.max() > 4 * widths.min():
        return np.lexsort((centers, np.floor(np.log2(widths) / 2)))
    return np.argsort(centers, kind="stable")
