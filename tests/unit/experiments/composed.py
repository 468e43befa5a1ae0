"""Configs of commands."""

from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from focusing.compose import check, config_dir, prepare_hydra


def composed(*overrides: str) -> DictConfig:
    prepare_hydra()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        return compose("train", list(overrides))


def checked(*overrides: str) -> dict[str, Any]:
    """In plain containers."""
    return check(composed(*overrides))
