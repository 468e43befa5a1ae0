"""Every file of conf/ becomes what it stands for: data, networks, optimizers, callbacks."""

import pytest
import pytorch_lightning as pl
import torch

from focusing.compose import config_dir, read_recipes
from focusing.config import Optim
from focusing.instantiate import instantiate
from focusing.models import Network
from focusing.training.loggers import check_loggers
from focusing.training.optimizer import build_optimizer
from focusing.training.trainer import build_net, load_data
from tests.unit.config.conftest import config, files

pytestmark = pytest.mark.usefixtures("hydra")
SMALL = ("data.fake=true", "size=smoke")


def fitting(*, data: str | None = None, model: str | None = None) -> tuple[str, str]:
    """A network for that data, or data for that network."""
    if data is not None:
        return f"data={data}", "model=fasttext_focus" if data == "imdb" else "model=focus_s"
    assert model is not None
    return f"data={'imdb' if model.startswith('fasttext') else 'cifar10'}", f"model={model}"


@pytest.mark.parametrize("name", files("data"))
def test_data(name: str) -> None:
    cfg = config(*fitting(data=name), *SMALL)
    data = load_data(cfg)
    assert data.name == name
    assert 0 < len(data.train.targets) <= 64
    net = build_net(cfg, data)
    inputs = data.test.inputs if data.prepare is None else data.prepare(data.test.inputs)
    with torch.no_grad():
        assert net.eval()(inputs).isfinite().all()


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


@pytest.mark.parametrize("name", files("model"))
def test_models_and_the_papers_optimizer(name: str) -> None:
    cfg = config(*fitting(model=name), *SMALL)
    net = build_net(cfg, load_data(cfg))
    assert isinstance(net, Network)
    if name != "transformer_focus":  # its heads focus, not its layers
        assert bool(net.focused_layers()) is not name.endswith("dense")
    rates = {group["name"] for group in build_optimizer(net, Optim(**cfg["optim"])).param_groups}
    trained = not name.endswith("dense") and not name.startswith("fixed")
    assert ({"mu", "sigma"} <= rates) is trained


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
