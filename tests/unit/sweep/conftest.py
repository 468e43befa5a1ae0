from collections.abc import Iterator

import pytest
from hydra._internal.callbacks import Callbacks
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import HydraContext

from focusing.compose import config_dir, prepare_hydra


@pytest.fixture
def context() -> Iterator[HydraContext]:
    """Hydra, as a sweep has it."""
    prepare_hydra()
    hydra = Hydra.create_main_hydra2("train", create_config_search_path(str(config_dir())))
    yield HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks())
    GlobalHydra.instance().clear()
    HydraConfig.instance().cfg = None
