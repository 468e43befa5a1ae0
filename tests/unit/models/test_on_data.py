"""Every network of conf/model on the data sets that it fits, and errors for the others."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch

from focusing.compose import check_config, compose_config, hydra_ready, model_family
from focusing.config import Optim
from focusing.data import DataSet
from focusing.errors import UserError
from focusing.models import Network
from focusing.training.metrics import loss_of
from focusing.training.optimizer import build_optimizer
from focusing.training.trainer import build_net, load_data

PICTURES = ("mnist", "fashion", "clt", "cifar10", "lfw", "fsdd", "catsdogs")
TABLES = ("synthetic", "boston", "reuters", "dna")
ON = {
    "simple": ("mnist", *TABLES, *PICTURES[1:], "shifted", "multi_domain"),
    "cnn": PICTURES,
    "vgg": ("cifar10", "clt", "lfw", "catsdogs"),
    "fasttext": ("imdb",),
    "transformer": ("clt", "imdb"),
    "focus_2d": PICTURES,
    "fixed_2d": PICTURES,
    "fields_2d": PICTURES,
    "anchored_2d": PICTURES,
    "focus_nd": ("fsdd", *PICTURES[:-2]),
}
"""Data sets by family of networks, or by network."""
MODELS = {
    "dense": ("MLP", False),
    "focus_s": ("MLP", True),
    "focus_c": ("MLP", True),
    "fixed_s": ("MLP", True),
    "focus_2d": ("MLP", True),
    "fixed_2d": ("MLP", True),
    "fields_2d": ("MLP", True),
    "anchored_2d": ("MLP", True),
    "focus_nd": ("MLP", True),
    "dynamic_dense": ("DynamicNetwork", False),
    "dynamic_2d": ("DynamicNetwork", True),
    "stn_dense": ("DynamicNetwork", False),
    "stn_2d": ("DynamicNetwork", True),
    "cnn_dense": ("CNN", False),
    "cnn_focus": ("CNN", True),
    "vgg_dense": ("Transfer", False),
    "vgg_focus": ("Transfer", True),
    "fasttext_dense": ("FastText", False),
    "fasttext_focus": ("FastText", True),
    "transformer_dense": ("Transformer", False),
    "transformer_focus": ("Transformer", False),  # its heads are focused, not its layers
}
EVERYWHERE = ("focus_s", "focus_2d", "cnn_focus", "vgg_focus", "transformer_focus")
"""Models that are tested on all data sets that they fit."""
HIDDEN = {"synthetic": [4], "boston": [64, 64], "reuters": [150], "dna": [60]}
"""The paper's widths, where they are not 800."""


@pytest.fixture(autouse=True)
def hydra() -> Iterator[None]:
    with hydra_ready():
        yield


@cache
def config_of(data: str, model: str, *overrides: str) -> dict[str, Any]:
    fake = [] if data == "synthetic" else ["data.fake=true"]
    return check_config(compose_config(f"data={data}", f"model={model}", *fake, *overrides))


def built(config: dict[str, Any]) -> tuple[DataSet, Network]:
    data = load_data(config)
    return data, build_net(config, data)


def check_step(data: DataSet, net: Network) -> None:
    """Check the shape of the outputs, and that all trainable parameters get gradients."""
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
    [
        (model, data)
        for model in MODELS
        for place, data in enumerate(ON.get(model, ON[model_family(model)]))
        if place == 0 or model in EVERYWHERE  # the others differ in values, not in code
    ],
)
def test_every_network_on_every_data_set(model: str, data: str) -> None:
    config = config_of(data, model, "size=smoke")
    samples, net = built(config)
    assert (type(net).__name__, bool(net.focused_layers())) == MODELS[model]
    check_step(samples, net)
    trained = not model.endswith("dense") and not model.startswith("fixed")
    groups = build_optimizer(net, Optim(**config["optim"])).param_groups
    assert ({"mu", "sigma"} <= {group["name"] for group in groups}) is trained


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_image_topology(name: str) -> None:
    data, net = built(config_of(name, "focus_2d", "size=smoke"))
    height, width, channels = data.train.inputs.shape[1:]
    [first] = net.focused_layers().values()
    assert repr(first.topology) == repr(
        ((height, width), channels) if channels > 1 else (height, width)
    )
    assert first.sigma.mean().item() == pytest.approx(0.1)
    assert (first.mu.min().item(), first.mu.max().item()) == pytest.approx((0.1, 0.9))


def test_the_published_focus_2d_has_two_focused_layers() -> None:
    """Its config has no ``focus_layers``, and its second layer sees a line."""
    config = config_of("mnist", "focus_2d")
    model = {**config["model"], "later_sigma": 0.025}
    for option in ("focus_layers", "margin", "later_topology", "units_per_focus", "anchored"):
        del model[option]
    _, net = built({**config, "model": model})
    first, second = net.focused_layers().values()
    assert first.mu.min().item() == pytest.approx(0.2)
    assert (second.mu.shape[1], second.sigma.mean().item()) == (1, pytest.approx(0.025))


def test_sample_topology() -> None:
    config = config_of(
        "fsdd", "focus_nd", "model.focus_layers=all", "model.later_topology=previous"
    )
    data, net = built(config)
    check_step(data, net)
    first, second = net.focused_layers().values()
    assert first.topology.axes == tuple(data.train.inputs.shape[1:3])
    assert torch.equal(second.tau, first.mu)


@pytest.mark.parametrize("data", [*TABLES, "mnist"])
def test_simple_networks_have_the_papers_layers(data: str) -> None:
    model = config_of(data, "focus_s")["model"]
    assert model["hidden"] == HIDDEN.get(data, [800, 800])
    dropout = {"mnist": [0.2, 0.25], "reuters": [0.5]}  # of Reuters, Keras' example
    assert model["dropout"] == dropout.get(data, [])
    assert model["batch_norm"] == (data not in ("boston", "reuters"))


@pytest.mark.parametrize(
    ("data", "model", "sentence"),
    [
        ("synthetic", "focus_2d", r"topology=image needs images .* shape \(40,\)"),
        ("synthetic", "focus_nd", r"topology=sample needs .* shape \(40,\): use topology=null"),
        ("boston", "cnn_dense", "A convolutional network needs images"),
        ("dna", "vgg_focus", "features=vgg16 needs images"),
        ("mnist", "vgg_dense", "needs images of 32x32 or more, these are 28x28"),
        ("lfw", "transformer_dense", "patch=4 does not divide the images"),
        ("dna", "transformer_focus", "A transformer without words needs images"),
        ("mnist", "fasttext_focus", "model=fasttext_focus is for texts: data=mnist is not"),
        ("imdb", "cnn_focus", "data=imdb is made of words: use a model that embeds them"),
    ],
)
def test_models_that_do_not_fit_the_data(data: str, model: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        built(config_of(data, model))


def test_a_checkpoint_needs_no_pretrained_weights() -> None:
    config = config_of("cifar10", "vgg_dense", "model.features=resnet18", "model.weights=none.pth")
    data = load_data(config)
    with pytest.raises(UserError, match=r"model.weights=none.pth cannot be read"):
        build_net(config, data)
    torch.manual_seed(0)
    assert build_net(config, data, pretrained=False).shape == (32, 32, 3)
    config = {**config, "model": {**config["model"], "pretrained": False}}
    with pytest.raises(UserError, match=r"weights=none.pth is not read when model.pretrained=fal"):
        build_net(config, data)
