"""Layers with learnable foci. Imports torch and nothing else of the package."""

from focusing.nn.anchored import AnchoredLinear
from focusing.nn.attention import FocusedAttention
from focusing.nn.dropout import Dropout
from focusing.nn.dynamic import DynamicFocus
from focusing.nn.inference import to_inference
from focusing.nn.linear import FocusedLinear
from focusing.nn.optim import FocusConstraint, param_groups
from focusing.nn.sparse import BandedLinear
from focusing.nn.spatial_transformer import SpatialTransformer
from focusing.nn.surgery import defocusify, focusify
from focusing.nn.windows import WindowReader, Windows

__all__ = [
    "AnchoredLinear",
    "BandedLinear",
    "Dropout",
    "DynamicFocus",
    "FocusConstraint",
    "FocusedAttention",
    "FocusedLinear",
    "SpatialTransformer",
    "WindowReader",
    "Windows",
    "defocusify",
    "focusify",
    "param_groups",
    "to_inference",
]
