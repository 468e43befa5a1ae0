"""Networks whose neurons learn where to look."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from focusing import functional
    from focusing.nn import (
        AnchoredLinear,
        BandedLinear,
        DynamicFocus,
        FocusConstraint,
        FocusedAttention,
        FocusedLinear,
        defocusify,
        focusify,
        param_groups,
        to_inference,
    )

# Large tensors on CPUs in huge pages: page faults of fresh ones cost a fifth of a step of a
# convolutional network (benchmarks/step.py). It stands here because torch reads it once, at the
# first tensor, and importing Lightning makes one.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

__all__ = [
    "AnchoredLinear",
    "BandedLinear",
    "DynamicFocus",
    "FocusConstraint",
    "FocusedAttention",
    "FocusedLinear",
    "__version__",
    "defocusify",
    "focusify",
    "functional",
    "param_groups",
    "to_inference",
]

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """Import torch when a layer is first asked for: `focusing --help` needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "functional":
        return import_module("focusing.functional")
    return getattr(import_module("focusing.nn"), name)


def __dir__() -> list[str]:
    return __all__
