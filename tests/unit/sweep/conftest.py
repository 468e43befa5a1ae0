from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig

from focusing.sweep.expansion import hydra_context

Load = Callable[..., DictConfig]
SEARCH_OPTIONS: dict[str, Any] = {
    "n_trials": 4,
    "direction": "maximize",
    "sampler": "random",
    "seed": 0,
    "prune": False,
    "prune_after_trials": 5,
    "prune_after_epochs": 5,
}


@pytest.fixture
def context() -> Iterator[HydraContext]:
    """Hydra's context, as a sweep gets it."""
    with hydra_context() as context:
        yield context
    HydraConfig.instance().cfg = None


@pytest.fixture
def load(context: HydraContext) -> Load:
    """Return a function that composes the config of a sweep."""

    def load(*words: str) -> DictConfig:
        loader = context.config_loader
        return loader.load_configuration("train", list(words), run_mode=RunMode.MULTIRUN)

    return load
