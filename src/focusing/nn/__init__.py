"""The focusing neuron. Pure torch: usable without the rest of the package."""

from focusing.nn.banded import BandedLinear
from focusing.nn.inference import to_inference
from focusing.nn.linear import FocusedLinear
from focusing.nn.surgery import defocusify, focusify

__all__ = ["BandedLinear", "FocusedLinear", "defocusify", "focusify", "to_inference"]
