"""Every network of conf/model on every data set that it is for, and a sentence on the others."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir

from focusing.checks import check
from focusing.compose import config_dir, prepare_hydra
from focusing.data import DataSet
from focusing.errors import UserError
from focusing.models import Network
from focusing.training.assembly import build_net, load_data
from focusing.training.metrics import loss_of

IMAGES = ("mnist", "fashion", "clt", "cifar10", "lfw", "fsdd")
TABLES = ("synthetic", "boston", "reuters", "dna")
HIDDEN = {"synthetic": [4], "boston": [64, 64], "reuters": [150], "dna": [60]}
"""Where the paper has other widths than 800."""
VGG = ("vgg_dense", "vgg_focus")
FASTTEXT = ("fasttext_dense", "fasttext_focus")


@pytest.fixture(autouse=True)
def hydra() -> Iterator[None]:
    prepare_hydra()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        yield


@cache
def config_of(data: str, model: str, *overrides: str) -> dict[str, Any]:
    fake = [] if data == "synthetic" else ["data.fake=true"]
    return check(compose("train", [f"data={data}", f"model={model}", *fake, *overrides]))


def built(config: dict[str, Any]) -> tuple[DataSet, Network]:
    data = load_data(config)
    return data, build_net(config, data)


def check_step(data: DataSet, net: Network) -> None:
    """A step of training: the outputs are right, and every trained weight has a gradient."""
    raw = data.train.inputs[:6]
    inputs = raw if data.prepare is None else data.prepare(raw)
    assert net.shape == tuple(inputs.shape[1:])
    output = net(inputs)
    single = data.classes == 0 or data.vocabulary
    assert output.shape == (6, 1 if single else data.classes)
    loss_of(output, data.train.targets[:6]).backward()
    for name, parameter in net.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name


@pytest.mark.parametrize(
    ("model", "data"),
    [*product(["focus_s"], [*TABLES, *IMAGES]), *product(["dense"], ["mnist", "boston"])],
)
def test_simple_networks(data: str, model: str) -> None:
    config = config_of(data, model)
    check_step(*built(config))
    assert config["model"]["hidden"] == HIDDEN.get(data, [800, 800])
    assert config["model"]["dropout"] == ([] if data in HIDDEN else [0.2, 0.25])
    assert config["model"]["batch_norm"] == (data != "boston")


@pytest.mark.parametrize("data", IMAGES)
@pytest.mark.parametrize("model", ["focus_2d", "cnn_focus"])
def test_networks_for_pictures(data: str, model: str) -> None:
    hidden = [32, 32] if model == "focus_2d" else 32  # to save time
    options = {**config_of("mnist", model)["model"], "hidden": hidden}
    found, net = built({**config_of(data, "focus_s"), "model": options})
    check_step(found, net)
    if model == "focus_2d":
        height, width, channels = found.train.inputs.shape[1:]
        first, second = net.focused_layers().values()
        assert repr(first.topology) == repr(
            ((height, width), channels) if channels > 1 else (height, width)
        )
        assert second.mu.shape[1] == 1
        assert second.sigma.mean().item() == pytest.approx(0.025)


@pytest.mark.parametrize("model", ["focus_c", "fixed_s", "fixed_2d", "cnn_dense"])
def test_the_other_networks_on_mnist(model: str) -> None:
    check_step(*built(config_of("mnist", model)))


@pytest.mark.parametrize("model", VGG)
def test_vgg_on_photographs(model: str) -> None:
    check_step(*built(config_of("cifar10", model, "model.pretrained=false")))


def test_small_features_on_large_photographs() -> None:
    small = ["model.pretrained=false", "model.features=small"]
    check_step(*built(config_of("catsdogs", "vgg_focus", *small)))


@pytest.mark.parametrize("model", FASTTEXT)
def test_fasttext_on_texts(model: str) -> None:
    data, net = built(config_of("imdb", model, "data.ngrams=1"))
    check_step(data, net)
    assert len(net.embedding.weight) == data.vocabulary


@pytest.mark.parametrize(
    ("data", "model", "sentence"),
    [
        ("synthetic", "focus_2d", r"topology=image needs images .* shape \(40,\)"),
        ("boston", "cnn_dense", "A convolutional network needs images"),
        ("dna", "vgg_focus", "features=vgg16 needs images"),
        ("mnist", "vgg_dense", "needs images of 32x32 or more, these are 28x28"),
        ("mnist", "fasttext_focus", "model=fasttext_focus is for texts: data=mnist is not"),
        ("imdb", "cnn_focus", "data=imdb is made of words: use a model that embeds them"),
    ],
)
def test_data_of_another_kind_is_refused(data: str, model: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        built(config_of(data, model))


def test_a_checkpoint_needs_no_pretrained_weights() -> None:
    config = config_of("cifar10", "vgg_dense", "model.features=resnet18", "model.weights=none.pth")
    data = load_data(config)
    with pytest.raises(UserError, match=r"model.weights=none.pth cannot be read"):
        build_net(config, data)
    torch.manual_seed(0)
    assert build_net(config, data, pretrained=False).shape == (32, 32, 3)
