"""Configs of commands."""

from typing import Any

from focusing.compose import check_config
from focusing.compose import compose_config as composed

__all__ = ["checked", "composed"]


def checked(*overrides: str) -> dict[str, Any]:
    """In plain containers."""
    return check_config(composed(*overrides))
