"""Optimizers, callbacks, loggers and small networks of conf/ become what they stand for.

Data sets and networks: tests/unit/models/test_on_data.py.
"""

import pytest
import pytorch_lightning as pl

from focusing.compose import config_dir, read_recipes
from focusing.config import Optim
from focusing.instantiate import instantiate
from focusing.training.loggers import check_loggers
from focusing.training.optimizer import build_optimizer
from focusing.training.trainer import build_net, load_data
from tests.unit.config.conftest import config, files

pytestmark = pytest.mark.usefixtures("hydra")
SMALL = ("data.fake=true", "size=smoke")


@pytest.mark.parametrize(("data", "model"), [("catsdogs", "focus_2d"), ("fsdd", "vgg_focus")])
def test_smoke_makes_networks_for_images_small(data: str, model: str) -> None:
    cfg = config(f"data={data}", f"model={model}", "size=smoke")
    net = build_net(cfg, load_data(cfg))
    assert sum(value.numel() for value in net.parameters()) < 300_000


def test_smoke_knows_every_network_for_images() -> None:
    images = (
        "mnist",
        "clt",
        "shifted",
        "cifar10",
        "fashion",
        "lfw",
        "fsdd",
        "catsdogs",
        "multi_domain",
    )
    keys = {f"smoke_{name}_{family}" for name in images for family in ("simple", "cnn", "vgg")}
    assert keys <= read_recipes(config_dir() / "recipe")["scale"].keys()


@pytest.mark.parametrize("name", files("optim"))
def test_optimizers(name: str) -> None:
    cfg = config(f"optim={name}", *SMALL)
    optimizer = build_optimizer(build_net(cfg, load_data(cfg)), Optim(**cfg["optim"]))
    assert type(optimizer).__name__ == cfg["optim"]["name"]


@pytest.mark.parametrize("name", files("callbacks"))
def test_callbacks(name: str) -> None:
    nodes = [node for node in config(f"callbacks={name}")["callbacks"].values() if node]
    assert all(instantiate(node, pl.Callback) for node in nodes)


@pytest.mark.parametrize("name", files("logger"))
def test_loggers(name: str) -> None:
    check_loggers(config(f"logger={name}")["logger"])
