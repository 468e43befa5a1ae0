"""Configs as ``focusing train`` composes them."""

from collections.abc import Iterator
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from focusing.compose import check, config_dir, prepare_hydra


@pytest.fixture(scope="module")
def hydra() -> Iterator[None]:
    prepare_hydra()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        yield


def composed(*overrides: str) -> DictConfig:
    return compose("train", list(overrides))


def config(*overrides: str) -> dict[str, Any]:
    """A checked config; needs the fixture ``hydra``."""
    return check(composed(*overrides))


def files(*groups: str) -> list[str]:
    """The choices of groups of conf/."""
    return sorted(path.stem for group in groups for path in (config_dir() / group).glob("*.yaml"))
