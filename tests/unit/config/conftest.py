"""Helpers that compose configs as ``focusing train`` does."""

from collections.abc import Iterator
from typing import Any

import pytest

from focusing.compose import check_config, compose_config, config_dir, hydra_ready


@pytest.fixture(scope="module")
def hydra() -> Iterator[None]:
    with hydra_ready():
        yield


def config(*overrides: str) -> dict[str, Any]:
    """Compose and check a config; needs the fixture ``hydra``."""
    return check_config(compose_config(*overrides))


def files(*groups: str) -> list[str]:
    """Names of all files in groups of conf/."""
    return sorted(path.stem for group in groups for path in (config_dir() / group).glob("*.yaml"))
