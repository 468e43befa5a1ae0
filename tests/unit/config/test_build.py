"""Every file of conf/ becomes what it stands for: data, networks, optimizers, callbacks."""

from collections.abc import Iterator
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from hydra import compose, initialize_config_dir

from focusing.compose import check, config_dir, prepare_hydra, read_recipes
from focusing.config import Optim
from focusing.instantiate import instantiate
from focusing.models import Network
from focusing.training.loggers import check_loggers
from focusing.training.optimizer import build_optimizer
from focusing.training.trainer import build_net, load_data

SMALL = ("data.fake=true", "size=smoke")


@pytest.fixture(autouse=True, scope="module")
def hydra() -> Iterator[None]:
    prepare_hydra()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        yield


def files(group: str) -> list[str]:
    return sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))


def config(*overrides: str) -> dict[str, Any]:
    return check(compose("train", list(overrides)))


def fitting(*, data: str | None = None, model: str | None = None) -> tuple[str, str]:
    """A network for that data, or data for that network."""
    if data is not None:
        return f"data={data}", "model=fasttext_focus" if data == "imdb" else "model=focus_s"
    assert model is not None
    return f"data={'imdb' if model.startswith('fasttext') else 'cifar10'}", f"model={model}"


@pytest.mark.parametrize("name", files("data"))
def test_data(name: str) -> None:
    given = config(*fitting(data=name), *SMALL)
    data = load_data(given)
    assert data.name == name
    assert 0 < len(data.train.targets) <= 64
    net = build_net(given, data)
    inputs = data.test.inputs if data.prepare is None else data.prepare(data.test.inputs)
    with torch.no_grad():
        assert net.eval()(inputs).isfinite().all()


@pytest.mark.parametrize(("data", "model"), [("catsdogs", "focus_2d"), ("fsdd", "vgg_focus")])
def test_smoke_makes_networks_for_images_small(data: str, model: str) -> None:
    given = config(f"data={data}", f"model={model}", "size=smoke")
    net = build_net(given, load_data(given))
    assert sum(each.numel() for each in net.parameters()) < 300_000


def test_smoke_knows_every_network_for_images() -> None:
    images = ("mnist", "clt", "cifar10", "fashion", "lfw", "fsdd", "catsdogs")
    keys = {f"smoke_{name}_{family}" for name in images for family in ("simple", "cnn", "vgg")}
    assert keys <= read_recipes(config_dir() / "recipe")["scale"].keys()


@pytest.mark.parametrize("name", files("model"))
def test_models_and_the_papers_optimizer(name: str) -> None:
    given = config(*fitting(model=name), *SMALL)
    net = build_net(given, load_data(given))
    assert isinstance(net, Network)
    assert bool(net.focused_layers()) is not name.endswith("dense")
    rates = {group["name"] for group in build_optimizer(net, Optim(**given["optim"])).param_groups}
    trained = bool(net.focused_layers()) and not name.startswith("fixed")
    assert ({"mu", "sigma"} <= rates) is trained


@pytest.mark.parametrize("name", files("optim"))
def test_optimizers(name: str) -> None:
    given = config(f"optim={name}", *SMALL)
    net = build_net(given, load_data(given))
    optimizer = build_optimizer(net, Optim(**given["optim"]))
    assert type(optimizer).__name__ == given["optim"]["name"]


@pytest.mark.parametrize("choice", [f"callbacks={each}" for each in files("callbacks")])
def test_callbacks(choice: str) -> None:
    given = [each for each in config(choice)["callbacks"].values() if each]
    assert all(instantiate(each, pl.Callback) for each in given)


@pytest.mark.parametrize("name", files("logger"))
def test_loggers(name: str) -> None:
    check_loggers(config(f"logger={name}")["logger"])
