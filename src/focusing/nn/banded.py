"""A sparse linear layer whose neurons see intervals of inputs, for inference."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from focusing.nn.plan import NARROW_TILE, tile_edges


class BandedLinear(nn.Module):
    """Computes ``x W^T + b`` from the intervals of inputs in which the rows of W are not zero.

    The neurons are sorted by where they look; each tile of neighbours is a small dense layer on
    the slice of inputs that it needs. The result is exact: only zeros are left out.

    Args:
        weight: (n, m), mostly zero.
        bias: (n,) or None.

    Shape:
        - Input: (*, m).
        - Output: (*, n).
    """

    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Cut the weight into tiles."""
        super().__init__()
        self.out_features, self.in_features = weight.shape
        weight = weight.detach()
        used = (weight != 0).cpu().numpy()
        empty = ~used.any(1)
        start = np.where(empty, 0, used.argmax(1))
        stop = np.where(empty, 0, self.in_features - used[:, ::-1].argmax(1))
        order = np.argsort(start + stop, kind="stable")
        edges = tile_edges(self.out_features, NARROW_TILE)
        self.slices = list(
            zip(
                np.minimum.reduceat(start[order], edges).tolist(),
                np.maximum.reduceat(stop[order], edges).tolist(),
                strict=True,
            )
        )
        rows = torch.from_numpy(order).to(weight.device)
        place = torch.empty_like(rows).scatter_(0, rows, torch.arange(len(rows)).to(rows))
        self.register_buffer("place", place)
        tiles = torch.split_with_sizes(rows, np.diff(edges, append=self.out_features).tolist())
        for index, (tile, (left, right)) in enumerate(zip(tiles, self.slices, strict=True)):
            self.register_buffer(f"weight_{index}", weight[tile, left:right].contiguous())
        self.register_buffer("bias", None if bias is None else bias.detach().clone())

    @property
    def work(self) -> float:
        """Share of the n * m products that are computed."""
        tiles = (self.get_buffer(f"weight_{index}") for index in range(len(self.slices)))
        return sum(tile.numel() for tile in tiles) / (self.in_features * self.out_features)

    def forward(self, input: Tensor) -> Tensor:
        """Map (*, m) to (*, n)."""
        parts = [
            functional.linear(input[..., left:right], self.get_buffer(f"weight_{index}"))
            for index, (left, right) in enumerate(self.slices)
        ]
        output = torch.cat(parts, dim=-1).index_select(-1, self.get_buffer("place"))
        return output if self.bias is None else output + self.bias

    def extra_repr(self) -> str:
        """Sizes and what is left to compute."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"tiles={len(self.slices)}, work={self.work:.3f}"
        )
