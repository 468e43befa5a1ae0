"""How to walk through a focused product: tiles of neurons over the inputs that they can reach.

A focused neuron sees one contiguous interval of inputs. Neurons sorted by their centres therefore
form a band, which tiles of neighbouring neurons cover with plain matrix products on slices.
"""

from __future__ import annotations

import math
import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focusing.nn.line import LEAST_WIDTH, gaussian_sums
from focusing.nn.memory import scratch

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

BLOCK = 16
"""Matrix products are fastest on multiples of this many neurons and inputs."""
NARROW_TILE, WIDE_TILE = 6, 8
"""Blocks of neurons in a tile that sees less, or more, than half of the inputs.

With its inputs a tile fits into a core's cache; fewer neurons waste less of a narrow band.
"""
CALM = 60.0
"""Largest -exponent of a neuron for which float32 loses nothing to cancellation or underflow."""
ORIGINS = 32
"""Tiles measure positions from the nearest multiple of 1 / ORIGINS, so that bases are shared."""
NEARLY_ALL = 0.85
"""Share of the products from which on tiles of all inputs are faster than sorting neurons."""
USES = 64
"""A tiling is made anew after so many uses, as foci that shrink leave it too wide."""


class Tile(NamedTuple):
    """Some neurons and the slice of inputs that they reach.

    Attributes:
        rows: which neurons, in the order of the tiling.
        columns: which inputs.
        basis: [1, t, t^2] of these inputs, (1 + 2d, columns), where t is the position relative to
            the origin of the tile.
        delicate: those of the rows, counted from the first, whose coefficients come near underflow
            somewhere in the tile, which takes more care; None: there are none.
        exact: the basis in float64, if there are any.
    """

    rows: slice
    columns: slice
    basis: Tensor
    delicate: Tensor | None
    exact: Tensor


class Tiling:
    """Tiles that cover every neuron once, good for foci that stay within their bounds.

    Attributes:
        tiles: the tiles.
        order: neurons in the order of the tiles; None: as they are.
        work: share of the n * m products that the tiles compute.
        walk: an order of the tiles in which the first one sees all inputs, if any does.
        covered: whether one does.
        delicate: the delicate neurons of all tiles, in their order; None: there are none.
        origin: where the tile of each neuron has its origin, the same on every axis, (n, 1).
    """

    def __init__(
        self, centers: Floats, widths: Floats, layout: Layout, reach: float, dtype: torch.dtype
    ) -> None:
        """Tile the foci (n, d); see ``plan`` for the arguments."""
        self._narrowest = 0.9 * widths
        self._leftmost, self._rightmost = centers - 0.5 * widths, centers + 0.5 * widths
        neurons, inputs = len(centers), layout.tau.shape[1]
        narrow = 2 * layout.radius(widths, reach).mean() < 0.5
        edges = tile_edges(neurons, NARROW_TILE if narrow else WIDE_TILE)
        rows = np.diff(edges, append=neurons)
        low, high = np.tile(layout.low, (len(edges), 1)), np.tile(layout.high, (len(edges), 1))
        start, stop = np.zeros(len(edges), np.intp), np.full(len(edges), inputs)
        lower, upper = np.full(len(edges), -np.inf), np.full(len(edges), np.inf)
        order = None
        sound = bool(np.isfinite(centers).all() and np.isfinite(widths).all())  # not diverged
        if sound and layout.sliceable and reach < math.inf:
            order = _order(centers[:, 0], widths[:, 0])
            if order is not None:
                centers, widths = centers[order], widths[order]
            line = layout.tau[0]
            radius = layout.radius(widths, reach)
            nearest = centers[:, 0].clip(line[0], line[-1])  # a centre outside sees the border
            left = np.minimum.reduceat(nearest - radius, edges)
            right = np.maximum.reduceat(nearest + radius, edges)
            start = np.searchsorted(line, left) // BLOCK * BLOCK
            stop = np.searchsorted(line, right, side="right")
            stop = np.minimum(-(-stop // BLOCK) * BLOCK, inputs)
            low[:, 0], high[:, 0] = line[start], line[stop - 1]
            # A focus that sees neither of the next inputs needs no more than its tile.
            lower = np.where(start > 0, line[start - 1], lower)
            upper = np.where(stop < inputs, line[np.minimum(stop, inputs - 1)], upper)

        origins = np.rint((low[:, 0] + high[:, 0]) * (ORIGINS / 2))
        half = np.maximum(*(np.abs(side - origins[:, None] / ORIGINS) for side in (low, high)))
        self.origin = np.repeat(origins / ORIGINS, rows)[:, None]
        farthest = (np.abs(centers - self.origin) + half.repeat(rows, axis=0)) / widths
        delicate = ~((farthest**2).sum(1) / 2 <= CALM)  # those that have diverged, too
        self.tiles = [
            Tile(
                slice(row, row + count),
                slice(first, last),
                layout.basis(index, dtype)[:, first:last],
                _indices(delicate[row : row + count]),
                layout.basis(index, torch.float64 if exact else dtype)[:, first:last],
            )
            for row, count, first, last, index, exact in zip(
                *(part.tolist() for part in (edges, rows, start, stop, origins.astype(int))),
                np.logical_or.reduceat(delicate, edges),
                strict=True,
            )
        ]
        self.delicate = _indices(delicate)
        self.work = float(rows @ (stop - start)) / (neurons * inputs)
        whole = np.flatnonzero(stop - start == inputs)
        self.covered = len(whole) > 0
        self.walk = list(range(len(edges)))
        if self.covered:  # such a tile writes to all inputs, so that others may add to them
            self.walk.insert(0, self.walk.pop(int(whole[0])))
        self.order = None if order is None else torch.from_numpy(order)
        self.sizes = rows.tolist()
        self._indices = order
        self._lower, self._upper = lower.repeat(rows), upper.repeat(rows)
        if order is not None:
            back = np.argsort(order)
            self._lower, self._upper = self._lower[back], self._upper[back]
        self._dtype = dtype
        self._left = USES
        self._scratch = threading.local()

    def sort(self, values: Floats) -> Floats:
        """Values of the neurons in the order of the tiles."""
        return values if self._indices is None else values[self._indices]

    def holds(self, centers: Floats, widths: Floats, radius: Floats, dtype: torch.dtype) -> bool:
        """Whether the tiling still serves these foci."""
        self._left -= 1
        if self._left < 0 or dtype != self._dtype:
            return False
        # Bounds of foci that had diverged are NaN and hold for none.
        if not (widths >= self._narrowest).all():  # some may have become delicate
            return False
        if not ((centers >= self._leftmost).all() and (centers <= self._rightmost).all()):
            return False
        if self.work == 1:
            return True
        first = centers[:, 0]
        return bool((first - radius > self._lower).all() and (first + radius < self._upper).all())

    def scratch(self) -> list[tuple[Tensor, Tensor]]:
        """Two matrices in the shape of each tile, in memory that this thread has used before.

        Memory fresh from the system would cost more than the arithmetic that is done in it.
        """
        found: list[tuple[Tensor, Tensor]] | None = getattr(self._scratch, "tiles", None)
        if found is None:
            shapes = [
                (count, tile.basis.shape[1])
                for count, tile in zip(self.sizes, self.tiles, strict=True)
            ]
            size = max(math.prod(shape) for shape in shapes)
            space = scratch(2 * size, self._dtype, torch.device("cpu")).view(2, size)
            found = [
                tuple(part[: math.prod(shape)].view(shape) for part in space) for shape in shapes
            ]
            self._scratch.tiles = found
        return found


class Plan(NamedTuple):
    """A tiling, and each gaussian in the basis of its tile.

    Attributes:
        tiling: the tiles.
        exponents: coefficients of the basis that give -|tau - mu|^2 / (2 sigma^2), (n, 1 + 2d),
            in the order of the tiles, as are the others; with the normaliser, if that is known.
        shift: centre of each neuron relative to the origin of its tile, (n, d).
        precision: 1 / sigma^2, (n, d).
        spread: sums of q of the normaliser times [1, t, t^2], over all inputs, (1 + 2d, n), where
            these are known in closed form; t relative to the centre.
    """

    tiling: Tiling
    exponents: Floats
    shift: Floats
    precision: Floats
    spread: Floats | None


class Layout:
    """The positions of the inputs, read once for planning on the CPU."""

    def __init__(self, tau: Tensor, *, regular: bool) -> None:
        """Read positions of shape (m, d); regular: they form a grid."""
        self.tau: Floats = np.ascontiguousarray(tau.detach().cpu().double().numpy().T)
        self.low, self.high = self.tau.min(1), self.tau.max(1)
        gaps = np.diff(self.tau[0])
        # Only then are inputs that are near each other neighbours, so that slices can be skipped.
        self.sliceable = bool((gaps >= 0).all()) and (regular or len(self.tau) == 1)
        even = len(gaps) > 0 and np.ptp(gaps) < 1e-3 * gaps.mean()
        self._even = even and len(self.tau) == 1
        self._step = (self.high[0] - self.low[0]) / max(1, len(gaps))  # gaps are rounded
        # A centre is at most this far from its nearest input, against which a cutoff is measured.
        self._nearest = gaps.max(initial=0.0) / 2
        self._bases: dict[tuple[int, torch.dtype], Tensor] = {}
        self._tilings: dict[float, Tiling] = {}

    def basis(self, origin: int, dtype: torch.dtype) -> Tensor:
        """[1, t, t^2] of all inputs, measured from ``origin / ORIGINS`` on every axis."""
        found = self._bases.get((origin, dtype))
        if found is None:
            t = self.tau - origin / ORIGINS
            array = np.vstack([np.ones((1, t.shape[1])), t, t * t])
            found = self._bases[origin, dtype] = torch.from_numpy(array).to(dtype)
        return found

    def radius(self, widths: Floats, reach: float) -> Floats:
        """How far each focus sees along the first axis, (n,)."""
        radius: Floats = widths[:, 0] * reach + self._nearest
        return radius

    @np.errstate(all="ignore")  # foci that have diverged give NaN, as weights do
    def plan(
        self,
        mu: Tensor,
        sigma: Tensor,
        reach: float,
        dtype: torch.dtype,
        normalizer: str,
        *,
        always: bool = False,
    ) -> Plan:
        """Plan the product for the foci (n, d) of this moment.

        Args:
            mu: centres.
            sigma: apertures.
            reach: inputs that are this many sigma farther from mu than the nearest one may be
                skipped; infinity: none are.
            dtype: precision of the product.
            normalizer: name of the normaliser.
            always: skip inputs even if it takes longer: neurons out of order cost a copy of what
                they reach.
        """
        centers: Floats = mu.detach().double().numpy()
        widths: Floats = np.abs(sigma.detach().double().numpy())
        tiling = self._tiling(centers, widths, reach, dtype)
        if not always and tiling.order is not None and tiling.work >= NEARLY_ALL:
            tiling = self._tiling(centers, widths, math.inf, dtype)
        sorted_centers, sorted_widths = tiling.sort(centers), tiling.sort(widths)
        shift = sorted_centers - tiling.origin
        precision = 1 / (sorted_widths * sorted_widths)
        slope = shift * precision
        axes = shift.shape[1]
        exponents = np.empty((len(shift), 1 + 2 * axes))
        exponents[:, 0] = (shift * slope).sum(1) * -0.5
        exponents[:, 1 : 1 + axes] = slope
        exponents[:, 1 + axes :] = precision * -0.5
        spread = None
        if self._even and normalizer != "none" and dtype == torch.float32:  # exact to 1e-8
            spread = self._spread(sorted_centers, sorted_widths, normalizer)
            if spread is not None:
                exponents[:, 0] += log_scale(spread, self.tau.shape[1], normalizer)
        return Plan(tiling, exponents, shift, precision, spread)

    def _tiling(self, centers: Floats, widths: Floats, reach: float, dtype: torch.dtype) -> Tiling:
        """The tiling of last time, if it still serves, or a new one."""
        found = self._tilings.get(reach)
        if found is None or not found.holds(centers, widths, self.radius(widths, reach), dtype):
            with torch.inference_mode(False):  # what is kept must serve training too
                found = self._tilings[reach] = Tiling(centers, widths, self, reach, dtype)
        return found

    def _spread(self, centers: Floats, widths: Floats, normalizer: str) -> Floats | None:
        """Sums of q times [1, t, t^2], if the inputs are dense and none of the foci outside."""
        center, width = centers[:, 0], widths[:, 0]
        if normalizer == "l2":
            width = width * math.sqrt(0.5)
        distances = np.empty((2, len(center)))
        np.subtract(center, self.low, out=distances[0])
        np.subtract(self.high, center, out=distances[1])
        if not (width.min() >= LEAST_WIDTH * self._step and distances.min() >= 0):
            return None
        return gaussian_sums(distances, width, self._step)


def log_scale(spread: Floats, inputs: int, normalizer: str) -> Floats:
    """Logarithm of what each gaussian is multiplied by, (n,), from the sums of q."""
    scale: Floats = np.log(spread[0]) * (-0.5 if normalizer == "l2" else -1.0)
    scale += 0.5 * math.log(inputs)
    return scale


def tile_edges(neurons: int, size: int) -> Ints:
    """First neuron of each tile: tiles of nearly equal size, about ``size`` whole blocks."""
    blocks = -(-neurons // BLOCK)
    count = max(1, round(blocks / size))
    return np.arange(count) * blocks // count * BLOCK


def _indices(chosen: npt.NDArray[np.bool_]) -> Tensor | None:
    return torch.from_numpy(np.flatnonzero(chosen)) if chosen.any() else None


def _order(centers: Floats, widths: Floats) -> Ints | None:
    """Sort by centre, wide foci apart from narrow ones: a tile is as wide as its widest neuron."""
    if widths.max() > 4 * widths.min():
        return np.lexsort((centers, np.floor(np.log2(widths) / 2)))
    if (centers[1:] >= centers[:-1]).all():
        return None
    return np.argsort(centers, kind="stable")
