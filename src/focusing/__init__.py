"""Networks whose neurons learn where to look."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from focusing.nn import BandedLinear, FocusedLinear, defocusify, focusify, to_inference

__all__ = [
    "BandedLinear",
    "FocusedLinear",
    "__version__",
    "defocusify",
    "focusify",
    "to_inference",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import torch when a layer is first asked for: `focusing --help` needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import focusing.nn

    return getattr(focusing.nn, name)


def __dir__() -> list[str]:
    return __all__
