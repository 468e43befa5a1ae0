"""Pruned layers that are really faster, for inference."""

from focusing.nn.sparse.banded import BandedLinear

__all__ = ["BandedLinear"]
