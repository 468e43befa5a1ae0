"""The recipes in conf/recipe/ are consistent, and have the settings of the paper."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from focusing.compose import config_dir, expand_braces, read_recipes
from focusing.errors import UserError
from focusing.training.trainer import build_net, load_data
from tests.unit.config.conftest import config, files

pytestmark = pytest.mark.usefixtures("hydra")
FAMILIES = ("simple", "cnn", "vgg", "fasttext", "transformer")
SIZES, VARIANTS = ("smoke", "quick", "short", "full"), ("text", "author", "author2018")


class TestTables:
    def test_braces_expand(self) -> None:
        assert expand_braces("lfw") == ["lfw"]
        assert expand_braces("{a, b}_c_{d,e}") == ["a_c_d", "a_c_e", "b_c_d", "b_c_e"]

    def test_recipes_of_one_name_are_merged(self, tmp_path: Path) -> None:
        table = "data:\n  '{x,y}': {optim: {lr: 1, l2: 1}}\n  x: {optim: {lr: 2}}\n"
        (tmp_path / "a.yaml").write_text(table)
        (tmp_path / "b.yaml").write_text("data:\n  y: {seed: 3}\n")
        cfg = read_recipes(tmp_path)["data"]
        assert cfg["x"] == {"optim": {"lr": 2, "l2": 1}}
        assert cfg["y"] == {"optim": {"lr": 1, "l2": 1}, "seed": 3}

    def test_recipes_refer_to_existing_configs(self) -> None:
        """Hydra does not report recipes that are never used."""
        data, model, experiments = files("data"), files("model"), files("experiment")
        kinds = [f"{d}_{f}" for d in data for f in FAMILIES]
        known = {
            "data": data,
            "network": kinds,
            "model": [f"{d}_{m}" for d in data for m in model],
            "windows": [f"{kind}_{windows}" for kind in kinds for windows in files("dynamic")],
            "rates": [f"{kind}_{optim}" for kind in kinds for optim in files("optim")],
            "author": [f"author_{kind}" for kind in kinds],
            "author_model": [f"{v}_{d}_{m}" for v in VARIANTS for d in data for m in model],
            "experiment": [f"{e}_{m}" for e in experiments for m in model],
            "variant": [f"{e}_{v}" for e in experiments for v in VARIANTS],
            "variant_data": [f"{e}_{v}_{d}" for e in experiments for v in VARIANTS for d in data],
            "size": [f"{e}_{s}" for e in experiments for s in SIZES],
            "scale": [f"{s}_{kind}" for s in SIZES for kind in kinds],
        }
        recipes = read_recipes(config_dir() / "recipe")
        lines = (config_dir() / "train.yaml").read_text()
        for section, names in recipes.items():
            assert f"- optional recipe/{section}: " in lines
            assert set(names) <= set(known[section]), section

    def test_smoke_has_recipes_for_all_image_networks(self) -> None:
        texts_and_tables = {"boston", "dna", "imdb", "reuters", "synthetic"}
        images = set(files("data")) - texts_and_tables
        keys = {f"smoke_{name}_{family}" for name in images for family in ("simple", "cnn", "vgg")}
        assert keys <= read_recipes(config_dir() / "recipe")["scale"].keys()


SGD = (0.1, 0.01, 0.01, 512, 200)
PAPER: dict[tuple[str, str], tuple[Any, ...]] = {
    # lr, lr_mu, lr_sigma, batch, epochs, hidden, mu, sigma
    ("mnist", "dense"): (*SGD, [800, 800], None, None),
    ("mnist", "fixed_s"): (*SGD, [800, 800], "spread", 0.1),
    ("mnist", "focus_c"): (*SGD, [800, 800], "center", 0.025),
    ("mnist", "focus_s"): (*SGD, [800, 800], "spread", 0.025),
    ("mnist", "cnn_dense"): (*SGD, 256, None, None),
    ("mnist", "cnn_focus"): (*SGD, 256, "spread", 0.025),
    ("clt", "focus_s"): (*SGD, [800, 800], "spread", 0.025),
    ("clt", "cnn_focus"): (*SGD, 256, "spread", 0.025),
    ("cifar10", "focus_s"): (*SGD, [800, 800], "spread", 0.025),
    ("cifar10", "cnn_focus"): (*SGD, 256, "spread", 0.025),
    ("cifar10", "vgg_focus"): (1e-3, 1e-3, 1e-4, 32, 250, 40, "spread", 0.025),
    ("fashion", "focus_s"): (0.1, 0.01, 5e-4, 512, 200, [800, 800], "spread", 0.025),
    ("fashion", "cnn_focus"): (*SGD, 256, "spread", 0.025),
    ("lfw", "dense"): (0.01, 0.01, 0.01, 32, 200, [800, 800], None, None),
    ("lfw", "fixed_s"): (0.01, 0.01, 0.01, 32, 200, [800, 800], "spread", 0.1),
    ("lfw", "cnn_focus"): (0.01, 0.01, 0.01, 32, 200, 256, "spread", 0.025),
    ("fsdd", "focus_s"): (0.05, 0.05, 0.05, 32, 200, [800, 800], "spread", 0.025),
    ("fsdd", "cnn_focus"): (0.05, 0.05, 0.05, 32, 200, 256, "spread", 0.025),
    ("catsdogs", "vgg_focus"): (1e-3, 1e-3, 0.01, 64, 50, 40, "spread", 0.025),
    ("boston", "focus_s"): (1e-3, 1e-3, 1e-3, 16, 200, [64, 64], "spread", 0.25),
    ("reuters", "dense"): (0.01, 0.01, 0.01, 64, 30, [150], None, None),
    ("reuters", "focus_s"): (0.01, 0.01, 0.01, 64, 30, [150], "spread", 0.25),
    ("dna", "focus_s"): (1e-3, 1e-3, 1e-3, 32, 200, [60], "spread", 0.025),
    ("imdb", "fasttext_focus"): (1e-3, 1e-3, 1e-3, 32, 7, None, 0.5, 0.5),
    ("synthetic", "focus_s"): (1e-3, 1e-3, 1e-4, 128, 250, [4], "center_jitter", 0.08),
}


def row(cfg: dict[str, Any]) -> tuple[Any, ...]:
    model, optim = cfg["model"], cfg["optim"]
    rates = (optim["lr"], optim["lr_mu"], optim["lr_sigma"])
    sizes = (optim["batch_size"], cfg["trainer"]["max_epochs"], model.get("hidden"))
    return (*rates, *sizes, model.get("mu"), model.get("sigma"))


@pytest.mark.parametrize(("data", "model"), PAPER)
def test_default_training_is_the_papers(data: str, model: str) -> None:
    cfg = config(f"data={data}", f"model={model}")
    assert row(cfg) == PAPER[data, model]
    optimizer = {"boston": "RMSprop", "imdb": "Adam"}.get(data, "SGD")
    assert cfg["optim"]["name"] == optimizer
    assert cfg["optim"]["momentum"] == (0.9 if optimizer == "SGD" else None)
    assert (cfg["optim"]["decay_epochs"], cfg["optim"]["clip_value"]) == ([], None)
    assert cfg["model"].get("train_mu", True) is not model.startswith("fixed")
    dropout = {"[800, 800]": [0.2, 0.25], "256": [0.5, 0.5]}
    expected = dropout.get(str(cfg["model"].get("hidden")), cfg["model"].get("dropout"))
    assert cfg["model"].get("dropout") == expected
    assert cfg["protocol"]["name"] == "best_test"


def test_default_data_options() -> None:
    boston, dna = config("data=boston")["data"], config("data=dna")["data"]
    assert boston["split"] == "kfold10"
    assert (dna["split"], dna["test_share"], dna["split_seed"]) == ("random", None, None)
    lfw = config("data=lfw")["data"]
    assert (lfw["augment"]["flip"], lfw["augment"]["shift"]) == (True, 0.1)
    assert config("data=imdb", "model=fasttext_dense")["data"]["ngrams"] == 2


CATSDOGS_MU = [pytest.approx(mu, abs=1e-6) for mu in np.linspace(0.1, 0.9, 40)]
CLT_RATES = {"lr": 0.01, "lr_mu": 0.01, "lr_sigma": 0.01}
AUTHOR: dict[tuple[str, str], dict[str, Any]] = {
    ("mnist", "focus_s"): {"hidden": [784, 784], "decay_epochs": [100, 150], "decay": 0.5},
    ("mnist", "dense"): {"hidden": [800, 800], "input_dropout": 0.2, "dropout": [0.25, 0.25]},
    ("mnist", "cnn_focus"): {"decay_epochs": [30, 100], "decay": 0.9, "decay_sigma": 0.5},
    ("clt", "focus_s"): {**CLT_RATES, "decay_sigma": 0.9, "init": "glorot"},
    ("clt", "cnn_focus"): {"init": "glorot"},
    ("cifar10", "focus_s"): {"lr": 0.1, "decay_epochs": [30, 80, 120, 180], "clip_value": 1.0},
    ("cifar10", "cnn_focus"): {"lr": 0.05, "lr_mu": 0.005, "sigma_l2": 1e-10},
    ("cifar10", "vgg_focus"): {"sigma": 0.08, "lr_sigma": 1e-3, "pad": 3},
    ("fashion", "focus_s"): {"lr_sigma": 0.01},
    ("fashion", "cnn_focus"): {"lr": 0.01, "lr_mu": 0.1, "batch_size": 256, "sigma": 0.5},
    ("fashion", "cnn_dense"): {"lr": 0.01, "batch_size": 256},
    ("lfw", "fixed_s"): {"sigma": 0.025, "decay_epochs": [50, 100, 150], "hidden": [784, 784]},
    ("catsdogs", "vgg_focus"): {"decay_epochs": [10, 20], "mu": CATSDOGS_MU},
    ("catsdogs", "vgg_dense"): {"decay_epochs": [10, 20], "hidden": 40},
    ("boston", "focus_s"): {"sigma_range": [0.05, 1.0]},
    ("reuters", "dense"): {
        "hidden": [150] * 2,
        "batch_size": 16,
        "dropout": [],
        "batch_norm": True,
    },
    ("imdb", "fasttext_focus"): {"sigma": 1.0, "mu_range": [-0.1, 1.1]},
}


@pytest.mark.parametrize(("data", "model"), AUTHOR)
def test_author_variant_has_the_authors_settings(data: str, model: str) -> None:
    few = ("data.fake=true", "data.limit_train=8", "data.limit_test=8")
    cfg = config(f"data={data}", f"model={model}", "variant=author", *few)
    assert cfg["variant"] == "author"
    for key, value in AUTHOR[data, model].items():
        group = "optim" if key in cfg["optim"] else "model"
        assert cfg[group][key] == value, key
    build_net(cfg, load_data(cfg), pretrained=False)


@pytest.mark.parametrize("name", files("experiment"))
def test_author_variant_of_every_experiment(name: str) -> None:
    cfg = config(f"experiment={name}", "variant=author")
    assert (cfg["name"], cfg["variant"]) == (name, "author")


def test_author_variant_of_learning_to_focus() -> None:
    cfg = config("experiment=learning_to_focus", "variant=author")
    data = cfg["data"]
    assert (data["generator"], data["noise_kind"]) == ("classification", "uniform")
    assert (cfg["optim"]["lr_mu"], cfg["optim"]["shuffle"]) == (1e-4, False)


@pytest.mark.parametrize("name", ["learning_to_focus", "sides", "stuck", "rescue"])
def test_author2018_differs_from_author_in_the_neuron_only(name: str) -> None:
    cfg, author = (
        config(f"experiment={name}", f"variant={variant}") for variant in ("author2018", "author")
    )
    first = {"normalizer": "mean", "init": "he", "grid": "index"}
    first |= {"mu_range": [0.01, 0.99], "sigma_range": [0.01, 0.5]}
    assert cfg == {**author, "variant": "author2018", "model": {**author["model"], **first}}
    dense = config(f"experiment={name}", "variant=author2018", "model=dense")
    assert dense["data"] == cfg["data"]


def test_author2018_needs_synthetic_data() -> None:
    with pytest.raises(UserError, match=r"author2018 .* use data=synthetic, or variant=author\.$"):
        config("data=mnist", "variant=author2018")


@pytest.mark.parametrize("model", ["dense", "focus_s"])
def test_redundancy_is_the_same_in_both_variants(model: str) -> None:
    text, code = (
        config("experiment=redundancy", f"model={model}", f"variant={variant}")
        for variant in ("text", "author")
    )
    assert {**code, "variant": "text"} == text


def test_reuters_is_the_keras_example() -> None:
    for model in ("dense", "focus_s"):
        cfg = config("data=reuters", f"model={model}")["model"]
        assert (cfg["hidden"], cfg["dropout"], cfg["batch_norm"]) == ([150], [0.5], False)


@pytest.mark.parametrize(
    ("overrides", "epochs"),
    [
        (["experiment=table2_cnn", "data=mnist", "model=cnn_focus"], 20),
        (["experiment=table4_other", "data=reuters"], 20),
        (["experiment=table4_other", "data=imdb", "model=fasttext_focus"], 7),
        (["experiment=learning_to_focus"], 250),
        (["experiment=timing", "data=mnist"], 3),
    ],
)
def test_short_differs_from_full_in_epochs_only(overrides: list[str], epochs: int) -> None:
    short, paper = (config(*overrides, f"size={size}") for size in ("short", "full"))
    assert short["trainer"]["max_epochs"] == epochs
    paper["trainer"]["max_epochs"], paper["size"] = epochs, "short"
    assert short == paper


def test_author_learning_rates_of_n_hidden() -> None:
    def rates(*overrides: str) -> tuple[float, ...]:
        optim = config("experiment=n_hidden", *overrides)["optim"]
        return optim["lr"], optim["lr_mu"], optim["lr_sigma"]

    assert rates("data=cifar10") == (0.1, 0.01, 0.01)
    assert rates("data=cifar10", "variant=author") == (0.01, 1e-3, 1e-3)
    assert rates("data=cifar10", "variant=author", "optim.lr=1") == (1, 1e-3, 1e-3)
    assert rates("data=mnist", "variant=author") == (0.1, 0.01, 0.01)


def test_initialization_is_the_codes_in_both_variants() -> None:
    for variant in ("text", "author"):
        assert config("data=mnist", f"variant={variant}")["model"]["init"] == "focus_glorot"
