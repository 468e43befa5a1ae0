from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hydra._internal.callbacks import Callbacks
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig

from focusing.compose import config_dir, prepare_hydra

Load = Callable[..., DictConfig]
SEARCH: dict[str, Any] = {
    "n_trials": 4,
    "direction": "maximize",
    "sampler": "random",
    "seed": 0,
    "prune": False,
    "prune_after_trials": 5,
    "prune_after_epochs": 5,
}
"""Options of a search."""


@pytest.fixture
def context() -> Iterator[HydraContext]:
    """Hydra, as a sweep has it."""
    prepare_hydra()
    hydra = Hydra.create_main_hydra2("train", create_config_search_path(str(config_dir())))
    yield HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks())
    GlobalHydra.instance().clear()
    HydraConfig.instance().cfg = None


@pytest.fixture
def load(context: HydraContext) -> Load:
    """Composes the config of a sweep."""

    def load(*words: str) -> DictConfig:
        loader = context.config_loader
        return loader.load_configuration("train", list(words), run_mode=RunMode.MULTIRUN)

    return load
