"""Sparse layers for fast inference with pruned networks."""

from focusing.nn.sparse.banded import BandedLinear

__all__ = ["BandedLinear"]
