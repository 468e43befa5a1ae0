"""Composed configs."""

from typing import Any

from focusing.compose import check
from focusing.compose import compose_config as composed

__all__ = ["checked", "composed"]


def checked(*overrides: str) -> dict[str, Any]:
    """Compose and check a config; returns plain containers."""
    return check(composed(*overrides))
