from typing import Any

from focusing.compose import check, compose_config


def checked(*overrides: str) -> dict[str, Any]:
    """Compose and check a config; returns plain containers."""
    return check(compose_config(*overrides))
