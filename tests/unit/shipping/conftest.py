"""Small runs for all tests of this folder."""

from pathlib import Path

import pytest

from focusing.compose import compose_config
from focusing.run import train

SMALL = ["figures=false", "trainer.max_epochs=2", "callbacks=none", "size=full"]
SYNTHETIC = ["data.n_samples=300", "model.hidden=[8]", "optim.batch_size=32"]


def make_run(folder: Path, *overrides: str) -> Path:
    train(compose_config(*SMALL, f"paths.output_dir={folder}", *overrides))
    [run] = folder.glob("*/*/seed=*")
    return run


@pytest.fixture(scope="session")
def focused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on synthetic data, with a validation split."""
    options = [*SYNTHETIC, "protocol=holdout", "trainer.max_epochs=8"]
    return make_run(tmp_path_factory.mktemp("focused"), *options)


@pytest.fixture(scope="session")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its dense twin."""
    options = [*SYNTHETIC, "model=dense", "protocol=holdout", "trainer.max_epochs=8"]
    return make_run(tmp_path_factory.mktemp("dense"), *options)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on fake images."""
    options = ["data=fashion", "data.fake=true", "data.preprocess=unit"]
    options += ["model=focus_s", "model.hidden=[300,200]", "model.sigma=0.05"]
    return make_run(tmp_path_factory.mktemp("pictures"), *options)
