"""All configs compose; invalid ones are rejected with a helpful message."""

import copy
import re
from operator import attrgetter
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from focusing.compose import (
    check_config,
    compose_config,
    config_dir,
    override_data,
    overrides_of_twin,
)
from focusing.config import Optim, data_dir
from focusing.errors import UserError
from focusing.messages import user_message
from focusing.models import DynamicNetwork
from focusing.results.identity import config_hash
from focusing.training.loggers import check_loggers
from focusing.training.optimizer import build_optimizer
from focusing.training.trainer import build_net, load_data
from tests.unit.config.conftest import config, files

pytestmark = pytest.mark.usefixtures("hydra")
GROUPS = ("protocol", "trainer", "callbacks", "debug", "size", "variant")
"""Groups that no other test composes; test_on_data.py composes data and networks."""


@pytest.fixture(scope="module")
def default(hydra: None) -> DictConfig:
    return compose_config()


def changed(default: DictConfig, overrides: str) -> DictConfig:
    """Change values of the default config; compose anew to choose, add or remove options."""
    if re.search(r"[+~]|^\w+=\w+ |^(data|optim|model)=", overrides):
        return compose_config(*overrides.split())
    config = copy.deepcopy(default)
    for override in OverridesParser.create().parse_overrides(overrides.split()):
        OmegaConf.update(config, override.key_or_group, override.value())
    return config


@pytest.mark.parametrize("group", GROUPS)
def test_all_files_of_a_group_compose(group: str) -> None:
    for name in files(group):
        config(f"{group}={name}")


@pytest.mark.parametrize("name", files("optim"))
def test_every_optimizer_can_be_built(name: str) -> None:
    cfg = config(f"optim={name}", "size=smoke")
    optimizer = build_optimizer(build_net(cfg, load_data(cfg)), Optim(**cfg["optim"]))
    assert type(optimizer).__name__ == cfg["optim"]["name"]


@pytest.mark.parametrize("name", files("logger"))
def test_every_logger_passes_its_check(name: str) -> None:
    check_loggers(config(f"logger={name}")["logger"])


@pytest.mark.parametrize(("data", "model"), [("catsdogs", "focus_2d"), ("fsdd", "vgg_focus")])
def test_smoke_networks_for_images_are_small(data: str, model: str) -> None:
    cfg = config(f"data={data}", f"model={model}", "size=smoke")
    net = build_net(cfg, load_data(cfg))
    assert sum(value.numel() for value in net.parameters()) < 300_000


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ("experiment=stuck", {"model.mu": 0.25, "model.sigma": 0.025}),
        ("experiment=sides", {"model.mu": "spread"}),
        ("experiment=stuck model.mu=0.3", {"model.mu": 0.3}),
        ("experiment=stuck model=fixed_s", {"model.sigma": 0.1}),
        ("model=fixed_s", {"model.sigma": 0.1}),
        ("model=focus_c", {"model.mu": "center"}),
        ("optim=sgd", {"optim.lr": 0.1}),
        ("optim=adam", {"optim.lr": 1e-3, "optim.momentum": None}),
    ],
)
def test_experiments_and_recipes_apply_to_their_own_model_and_optimizer(
    overrides: str, expected: dict[str, object]
) -> None:
    composed = compose_config(*overrides.split())
    assert {name: attrgetter(name)(composed) for name in expected} == expected


@pytest.mark.parametrize(
    ("overrides", "windows"),
    [
        ("model=dense", None),
        ("model=dynamic_2d", "saliency"),
        ("model=stn_2d", "stn"),
        ("model=dense dynamic=saliency", "saliency"),
        ("model=dynamic_2d dynamic=stn", "stn"),
        ("model=stn_2d dynamic=static", "static"),
        ("model=dynamic_2d dynamic=none", None),
    ],
)
def test_chosen_windows_replace_those_of_the_model(overrides: str, windows: str | None) -> None:
    cfg = config("data=mnist", "data.fake=true", "data.limit_train=8", *overrides.split())
    dynamic = cfg["model"]["dynamic"]
    assert (dynamic and (dynamic.get("kind") or dynamic["centre"])) == windows
    assert isinstance(build_net(cfg, load_data(cfg)), DynamicNetwork) == bool(windows)


def test_recipes_of_windows_are_for_any_network() -> None:
    for model in ("dynamic_dense", "dense dynamic=saliency", "cnn_focus dynamic=stn"):
        windows = config("data=fsdd", *f"model={model}".split())["model"]["dynamic"]
        assert (windows["axes"], windows["grid"]) == ([1], [20])
    small = ("data.fake=true", "data.limit_train=8")
    for data in ("clt", "shifted", "fsdd", "cifar10"):
        cfg = config(f"data={data}", "model=transformer_focus", "dynamic=saliency", *small)
        build_net(cfg, load_data(cfg))  # the patch divides the window
    assert config("data=clt", "model=transformer_focus")["model"]["patch"] == 6


def test_config_files_are_few_and_commented() -> None:
    files = list(config_dir().rglob("*.yaml"))
    assert len(files) < 105
    for path in files:
        text = path.read_text()
        assert "#" in text or len(text.splitlines()) < 8, f"{path} has no comments"


def test_default_is_the_papers_learning_to_focus() -> None:
    default = config()
    assert default == config("experiment=learning_to_focus")
    assert (default["data"]["informative"], default["data"]["noise"]) == (20, 20)


@pytest.mark.parametrize("model", ["dense", "focus_s", "fixed_s"])
def test_experiment_name_does_not_depend_on_the_model(model: str) -> None:
    assert compose_config(f"model={model}").name == "learning_to_focus"
    assert compose_config(f"model={model}", "data=clt").name == "clt"
    assert compose_config(f"model={model}", "experiment=sides").name == "sides"


MODEL_OPTIONS = (
    *("sigma=[0.05,0.2]", "mu=0.3", "focus=triangle", "normalizer=sum", "normalizer=mean"),
    *("grid=index", "topology=[8,5]", "init=he", "init=glorot", "backend=fused", "cutoff=1e-5"),
    *("bias=false", "train_mu=false", "sigma_range=[0.02,0.5]", "mu_range=[0.1,0.9]"),
    *("batch_norm=false", "dropout=[0.5]", "input_dropout=0.2"),
)


@pytest.mark.parametrize("option", MODEL_OPTIONS)
def test_model_options_reach_the_layer(default: DictConfig, option: str) -> None:
    config = check_config(changed(default, f"model.{option}"))
    build_net(config, load_data(config))


NOT_COMPOSED = {
    "model.sgima=0.1": "model.sgima is not an option, did you mean model.sigma?",
    "modle=dense": "modle is not an option, did you mean model?",
    "model=focus_x": "model=focus_x does not exist, did you mean model=focus_s?",
    "data.augment.flip=true": "data.augment is not an option of data=synthetic; there are classes,",
    "trainer.max_epoch=3": "trainer.max_epoch is not an option, did you mean trainer.max_epochs?",
    "optim.lr=fast": "optim.lr: Value 'fast'",
    "model.train_mu=maybe": "model.train_mu: Value 'maybe'",
    "seed=one": "seed: Value 'one'",
    "size=null": "size=null is not a choice; size is one of ",
    "variant=null": "variant=null is not a choice; variant is one of ",
    "callbacks=null": "callbacks=null is not a choice; callbacks is one of ",
    "logger=5": "logger=5 is not a choice; logger is one of ",
    "hydra=null": "Config group override must be a string or a list. Got NoneType",
    "~size=5": "Config group override deletion value must be a string",
    "model=focus_s,": "model=focus_s,: mismatched input '<EOF>'",
    "optim.options.eps=1": "optim.options.eps has no value to change: write +optim.options.eps=",
    "~data": "data is missing: give it a value, and leave out the ~ that removes it.",
}


@pytest.mark.parametrize("override", NOT_COMPOSED)
def test_message_for_an_unknown_name_type_or_choice(override: str) -> None:
    with pytest.raises((HydraException, UserError, ValueError)) as raised:
        compose_config(override)
    message = str(user_message(raised.value))
    assert message.startswith(NOT_COMPOSED[override])
    assert "\n" not in message


INVALID = {
    "+foo=1": "foo is not an option",
    "+model.foo=1": "model.foo is not an option",
    "seed=-1": "seed=-1 must be at least 0",
    "resume=maybe": "resume=maybe is not one of auto, never",
    "optim.accumulate=0": "optim.accumulate=0 must be at least 1",
    "optim.lr=0": "optim.lr=0.0 must be greater than 0",
    "optim.lr=inf": "optim.lr is inf: it must be finite",
    "optim.lr_mu=-1": "optim.lr_mu=-1.0 must be at least 0",
    "seed=99999999999999999999": "is too large",
    "trainer.precision=16-true": "is not one of 32-true",
    "paths.output_dir=": "paths.output_dir is empty",
    "trainer.devices=2": "one device",
    "trainer.devices=[0,1]": "one device",
    "optim.l2=nan": "optim.l2 is nan: it must be finite",
    "optim.decay=1e200": r"optim.decay is 1e\+200",
    "optim=adam +optim.options.eps=nan": "optim.options.eps is nan",
    "model.sigma=[0.1,nan]": "model.sigma.1 is nan",
    "+callbacks.x.y.z=[{a:nan}]": "callbacks.x.y.z.0.a is nan",
    "protocol.name=holdout protocol.holdout=1.5": r"protocol\.holdout=1\.5 must lie",
    f"name={'n' * 230}": "cannot be the name of a folder",
    "name=a/b": "cannot be the name of a folder",
    "protocol.holdout=0.2": "of no use to protocol=best_test",
    "protocol.name=test": "is not one of best_test, holdout, last",
    "optim.batch_size=100000000000000000000": "optim.batch_size is too large: 1",
    "optim.momentum=5": "optim.momentum=5.0 must be less than 1",
    "optim.momentum=-1": "optim.momentum=-1.0 must be at least 0",
    "optim.decay_epochs=[3,-1]": r"optim.decay_epochs=\[3, -1\] must be at least 0",
    "sweep.trials=1000000000000": "sweep.trials=1.* must be at most",
    "paths.output_dir='~nosuchuser/x'": "paths.output_dir=~nosuchuser/x: there is no such user",
    "paths.data_dir='~nosuchuser/x'": "paths.data_dir=~nosuchuser/x: there is no such user",
    "paths.output_dir='a\x1bb'": "paths.output_dir has characters that",
    "~seed": "seed is missing",
    "~paths": "paths is missing",
    "~trainer": "trainer.accelerator is missing",
    "data.n_samples=???": "data.n_samples is missing",
}


@pytest.mark.parametrize("override", INVALID)
def test_invalid_values_are_rejected(default: DictConfig, override: str) -> None:
    with pytest.raises(UserError, match=INVALID[override]):
        check_config(changed(default, override))


def test_options_of_foci_are_rejected_for_dense_networks(default: DictConfig) -> None:
    dense = compose_config("data=cifar10", "model=cnn_dense", "variant=author")
    check_config(dense)  # the recipes set none of them
    for option in ("sigma_l1=1", "mu_repulsion=1", "anneal_epochs=3"):
        with pytest.raises(UserError, match=r"optim\..* is of no use to model=cnn_dense"):
            check_config(changed(dense, f"optim.{option}"))
        check_config(changed(default, f"optim.{option}"))


def test_a_wide_start_of_sigma_needs_an_end(default: DictConfig) -> None:
    with pytest.raises(UserError, match=r"optim\.anneal_from=16 has no effect without"):
        check_config(changed(default, "optim.anneal_from=16"))
    both = changed(changed(default, "optim.anneal_from=16"), "optim.anneal_epochs=125")
    assert check_config(both)["optim"]["anneal_epochs"] == 125


TWINS = {
    "data=mnist model=focus_s seed=1": "data=mnist seed=1",
    "model=dynamic_2d dynamic=static model.dynamic.zoom=true seed=1": "seed=1",
    "model.sigma=0.1 model.hidden=[8,8] optim.lr=0.1": "model.hidden=[8,8] optim.lr=0.1",
    "optim.mu_repulsion=1 optim.sigma_l2=1 +optim.foci.options.lr=1 optim.name=SGD": (
        "optim.name=SGD"
    ),
    "optim.foci.name=Adam optim.anneal_from=4 seed=3": "seed=3",
    "seed=nothing": None,
}


@pytest.mark.parametrize("overrides", TWINS)
def test_a_command_for_the_dense_twin(overrides: str) -> None:
    expected, words = TWINS[overrides], overrides_of_twin(overrides.split(), "dense")
    assert words == (None if expected is None else ["model=dense", *expected.split()])


@pytest.mark.parametrize("override", ["=1", "+='1'", "~", "+@model=1", ""])
def test_overrides_without_a_name_are_rejected(override: str) -> None:
    with pytest.raises(UserError, match="an option has a name"):
        compose_config(override)


def test_message_for_a_removed_group_that_is_read_before_the_check() -> None:
    with pytest.raises(AttributeError) as raised:
        _ = compose_config("~sweep").sweep
    assert str(user_message(raised.value)).startswith("sweep is missing")


def test_lists_of_interpolations_are_limited() -> None:
    with pytest.raises(OmegaConfBaseException) as raised:
        check_config(compose_config("model.hidden=${focusing.spread:0,1,1000000000}"))
    message = "model.hidden: focusing.spread: 1000000000 is not a number from 1 to 100000."
    assert user_message(raised.value) == message


TOO_LARGE = {
    "model.hidden=1000000000000": "model=focus_s with 47000000000002 parameters would take",
    "model.hidden=9000000000000000000": "model=focus_s: its layers are too large",
    "data.n_samples=1000000000000": "data.n_samples=1000000000000 of 40 columns .* would take",
    "data.noise=1000000000000": "1000000000020 columns .* would take",
    "data.clusters=1000000000000": "1000000000000 clusters would take",
    "data=mnist data.fake=true data.pad=10000000": "data.pad=10000000 would take",
    "data=catsdogs data.fake=true data.size=1000000": "samples of 1000000x1000000x3 would take",
    "data=boston data.fake=true data.pad=1000000000000": "data.pad=1000000000000 would take",
    "data=fsdd data.frames=1000000000000": "frames=1000000000000.* would take",
}


@pytest.mark.parametrize("overrides", TOO_LARGE)
def test_memory_is_checked_before_allocating(default: DictConfig, overrides: str) -> None:
    config = check_config(changed(default, overrides))
    with pytest.raises(UserError, match=TOO_LARGE[overrides]):
        build_net(config, load_data(config))


def test_other_errors_have_no_user_message() -> None:
    assert user_message(RuntimeError("x")) is None


def test_hidden_may_be_a_number_or_a_list(default: DictConfig) -> None:
    number = check_config(changed(default, "model.hidden=4"))
    assert number["model"]["hidden"] == [4]
    assert config_hash(number) == config_hash(check_config(changed(default, "model.hidden=[4]")))
    for invalid in ("abc", "[4,x]", "true"):
        with pytest.raises(UserError, match="is not a number of neurons or a list of them"):
            check_config(changed(default, f"model.hidden={invalid}"))


SAVED = {"_target_": "focusing.data.synthetic", "name": "synthetic", "n_samples": 50}


def test_data_overrides_keep_other_options_unless_they_choose_another_file() -> None:
    for overrides, samples in (([], 50), (["data=synthetic"], 2857)):
        data = override_data(SAVED, [*overrides, "data.noise=4"])
        assert (data["n_samples"], data["noise"]) == (samples, 4)


def test_data_overrides_keep_the_preprocessing() -> None:
    saved = {"name": "mnist", "preprocess": "pixel_mean"}
    assert override_data(saved, ["data=fashion"])["preprocess"] == "pixel_mean"
    other = override_data(saved, ["data=fashion", "data.preprocess=unit"])
    assert other["preprocess"] == "unit"
    assert "preprocess" not in override_data(saved, ["data=synthetic"])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("data.n_samples=[", "cannot be read"),
        ("data.noise=&", "cannot be read"),
        ("model.sigma=1", "only the data can be changed"),
    ],
)
def test_invalid_data_overrides_are_rejected(change: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        override_data(SAVED, [change])


def test_data_folder_from_the_environment_or_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FOCUSING_DATA_DIR", str(tmp_path))
    assert data_dir() == str(tmp_path)
    monkeypatch.delenv("FOCUSING_DATA_DIR")
    assert data_dir().endswith("focusing")
    assert Path(data_dir()).is_absolute()
