from typing import Any

from focusing.compose import check_config, compose_config


def checked(*overrides: str) -> dict[str, Any]:
    """Compose and check a config; returns plain containers."""
    return check_config(compose_config(*overrides))
