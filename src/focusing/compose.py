"""Compose configs with Hydra, and check them.

The files in conf/recipe/ hold many small configs each. A file has sections, a section has recipes:
for ``recipe/data: lfw`` Hydra loads recipe ``lfw`` of section ``data``, as it would load a file
recipe/data/lfw.yaml. Keys expand as in a shell: ``{mnist,clt}_simple`` defines two recipes. Recipes
of the same name are merged, and the later one wins.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache, wraps
from itertools import product
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, _utils, base, grammar_parser
from yaml import YAMLError

from focusing.config import (
    FOCI_ONLY,
    LEGACY_NAME,
    PAPER_EDITION,
    Config,
    Optim,
    data_dir,
    group_schemas,
)
from focusing.errors import UserError
from focusing.instantiate import check_arguments, check_hydra, trusted
from focusing.messages import missing_option_message, unreadable_config
from focusing.validation import InvalidValueError, check_json_value

MAX_LINSPACE_LENGTH = 100_000
"""Longest list that an interpolation may create."""


def prepare_hydra() -> None:
    """Register our schemas, recipes and resolvers with Hydra, and guard what it composes."""
    store = ConfigStore.instance()
    if "schema.yaml" in store.repo and OmegaConf.has_resolver("focusing.family"):
        return  # already done; every job of a sweep calls this
    store.store(name="schema", node=Config)
    for group, schemas in group_schemas().items():
        for name, schema in schemas.items():
            store.store(group=f"schema/{group}", name=name, node=schema)
    for section, recipes in read_recipes(config_dir() / "recipe").items():
        for name, recipe in recipes.items():
            store.store(group=f"recipe/{section}", name=name, node=recipe, package="_global_")
    # Hydra deep-copies the store whenever it composes or lists configs (40 ms, 180 times for
    # --help). There is no need: the store returns copies of its nodes.
    ConfigStore.__deepcopy__ = lambda self, memo: self  # type: ignore[attr-defined]
    # OmegaConf parses the same interpolations for every config, a fifth of the time of composing.
    parse = lru_cache(maxsize=4096)(grammar_parser.parse)
    base.parse = _utils.parse = parse  # type: ignore[attr-defined]
    # Hydra acts on its own part of a config right after loading it, and has no hook before that.
    if not hasattr(ConfigLoaderImpl.load_configuration, "__wrapped__"):
        ConfigLoaderImpl.load_configuration = _with_checks(ConfigLoaderImpl.load_configuration)  # type: ignore[method-assign]
    OmegaConf.register_new_resolver("focusing.data_dir", data_dir, replace=True)
    OmegaConf.register_new_resolver("focusing.spread", linspace, replace=True)
    OmegaConf.register_new_resolver("focusing.family", model_family, replace=True)
    OmegaConf.register_new_resolver("focusing.windows", model_windows, replace=True)


@contextmanager
def hydra_ready() -> Iterator[None]:
    """Initialize Hydra with our configs, unless a command or an outer block has done so."""
    prepare_hydra()
    ready = GlobalHydra.instance().is_initialized()
    with nullcontext() if ready else initialize_config_dir(str(config_dir()), version_base="1.3"):
        yield


def command_flags(hydra: Any) -> list[str]:
    """What a command needs besides its options to be repeated, given the group ``hydra``.

    These are ``--config-dir``, ``--trust-target`` and options of Hydra.
    """
    flags = []
    for source in hydra.runtime.config_sources:
        if source.provider == "command-line":
            flags += ["--config-dir", source.path]
    for name in sorted(trusted()):
        flags += ["--trust-target", name]
    own = [word for word in hydra.overrides.hydra if not word.startswith("hydra.mode=")]
    return [*flags, *own]


def compose_config(*overrides: str) -> DictConfig:
    """Compose the config of a command line; :func:`check_config` validates and converts it."""
    with hydra_ready():
        return compose("train", list(overrides))


def _with_checks(load: Callable[..., DictConfig]) -> Callable[..., DictConfig]:
    @wraps(load)
    def load_and_check(
        loader: Any, config_name: str, overrides: Any, run_mode: RunMode, **more: Any
    ) -> Any:
        for override in overrides:
            _check_override(override)
        try:
            config = load(loader, config_name, upgrade_overrides(overrides), run_mode, **more)
        except (YAMLError, UnicodeDecodeError) as error:
            raise UserError(unreadable_config(loader, error)) from None
        check_hydra(config.hydra, sweeps=run_mode == RunMode.MULTIRUN)
        return config

    return load_and_check


def _check_override(text: str) -> None:
    """Reject overrides that Hydra would reject without naming them."""
    if re.match(r"\s*[+~]*(@[^=]*)?(=|$)", text):
        raise UserError(f"{text}: an option has a name, option=value.")
    name = text.partition("=")[0].lstrip("+")
    choices = sorted(path.stem for path in (config_dir() / name).glob("*.yaml"))
    if choices and "=" in text:
        (override,) = OverridesParser.create().parse_overrides([text])
        if not override.is_sweep_override() and not isinstance(override.value(), str | list | dict):
            raise UserError(f"{text} is not a choice; {name} is one of {', '.join(choices)}.")


def upgrade_overrides(overrides: Sequence[str]) -> list[str]:
    """Replace the names of version 0.1 in overrides, with a note on stderr."""
    renamed = []
    for override in overrides:
        option = re.match(r"\+*(size|variant|protocol)(\.name)?=", override)
        if option and re.search(rf"\b{LEGACY_NAME}\b", override):
            old, override = (
                override,
                re.sub(rf"\b{LEGACY_NAME}\b", PAPER_EDITION[option[1]], override),
            )
            _note(f"Note: {old} is now called {override}.")
        renamed.append(override)
    return renamed


@cache  # print every note once per process
def _note(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def config_dir() -> Path:
    """The folder conf/, in an installed package or at the root of a checkout."""
    packaged = Path(__file__).parent / "conf"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "conf"


def model_family(model: str) -> str:
    """The family of a model, whose members share recipes: ``cnn`` of ``cnn_focus``."""
    prefix = model.partition("_")[0]
    return prefix if prefix in ("cnn", "vgg", "fasttext", "transformer") else "simple"


def model_windows(model: str, _root_: DictConfig) -> str:
    """The windows before a model: the choice of ``dynamic=``, or its own, as ``stn`` of stn_2d."""
    own = {"dynamic": "saliency", "stn": "stn"}.get(model.partition("_")[0], "none")
    return str(_root_.get("dynamic", own))  # Hydra resolves this among the choices of groups


def linspace(low: float, high: float, count: int) -> list[float]:
    """Evenly spaced numbers, both ends included: ``${focusing.spread:0.1,0.9,40}``."""
    if not 0 < count <= MAX_LINSPACE_LENGTH:
        raise UserError(
            f"focusing.spread: {count} is not a number from 1 to {MAX_LINSPACE_LENGTH}."
        )
    return [round(low + (high - low) * i / max(1, count - 1), 6) for i in range(count)]


def read_recipes(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the recipes of all files in a folder, by section and name."""
    sections: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.yaml")):
        for section, entries in OmegaConf.load(path).items():
            recipes = sections.setdefault(str(section), {})
            for key, recipe in entries.items():
                for name in expand_braces(str(key)):
                    recipes[name] = OmegaConf.merge(recipes.get(name, {}), recipe)
    return sections


def expand_braces(key: str) -> list[str]:
    """Expand braces as a shell does: ``{a,b}_c`` is a_c and b_c."""
    pieces = re.split(r"\{([^}]*)\}", key)  # text, list, text, list, ..., text
    options = [
        [name.strip() for name in piece.split(",")] if i % 2 else [piece]
        for i, piece in enumerate(pieces)
    ]
    return ["".join(parts) for parts in product(*options)]


def override_data(saved: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Apply command-line overrides to the data group of a config.

    Args:
        saved: the data group.
        overrides: ``data=<name>`` starts from another file of the group, ``data.<key>=<value>``
            changes an option. The preprocessing stays unless ``data.preprocess=`` changes it.
    """
    for change in overrides:
        if not re.match(r"data(\.\w+)*=", change):
            raise UserError(f"{change}: only the data can be changed, with data=... or data.x=...")
    chosen = [change for change in overrides if change.startswith("data=")]
    changes = [change.removeprefix("data.") for change in overrides if change.startswith("data.")]
    data = compose_config(*(chosen or [f"data={saved['name']}"])).data
    if not chosen:
        data = OmegaConf.merge(data, dict(saved))
    elif "preprocess" in saved and "preprocess" in data:
        data.preprocess = saved["preprocess"]
    data = OmegaConf.merge(data, *map(_read_change, changes))
    return OmegaConf.to_container(data, resolve=True)  # type: ignore[return-value]


def _read_change(change: str) -> DictConfig:
    try:
        return OmegaConf.from_dotlist([change])
    except YAMLError as error:
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        raise UserError(f"data.{change} cannot be read: {reason}.") from None


def check_config(cfg: DictConfig) -> dict[str, Any]:
    """Validate a composed config.

    Returns:
        The config as dicts and lists, with interpolations resolved.

    Raises:
        UserError: names the first invalid option.
    """
    _check_names(cfg, "")
    config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    try:
        check_json_value(config)
    except InvalidValueError as error:
        raise UserError(f"{error}.") from None
    if "_mlp" in str(config["model"].get("_target_")):
        config["model"]["hidden"] = _widths(config["model"]["hidden"])
    check_arguments(Config, config)
    _check_foci(config)
    for name, folder in config["paths"].items():
        if not folder:
            raise UserError(f"paths.{name} is empty: give a folder.")
        try:
            Path(folder).expanduser()
        except RuntimeError:
            raise UserError(f"paths.{name}={folder}: there is no such user.") from None
    if not re.fullmatch(r"\w[\w.,=+-]{0,99}", config["name"]):
        raise UserError(f"name={config['name']} cannot be the name of a folder.")
    if config["variant"] == "author2018" and config["data"]["name"] != "synthetic":
        raise UserError(
            "variant=author2018 is of the author's synthetic experiments: use data=synthetic, "
            "or variant=author."
        )
    check_devices(config["trainer"]["devices"])
    protocol = config["protocol"]
    if protocol["name"] == "holdout" and not 0 < protocol["holdout"] < 1:
        raise UserError(f"protocol.holdout={protocol['holdout']} must lie between 0 and 1.")
    if protocol["name"] != "holdout" and protocol["holdout"]:
        raise UserError(f"protocol.holdout is of no use to protocol={protocol['name']}, use 0.")
    return config


def is_valid(overrides: Sequence[str]) -> bool:
    """Whether a command line, of a single run, gives a config without mistakes."""
    try:
        check_config(compose_config(*overrides))
    except Exception:  # noqa: BLE001 - asked for hints, which must not fail a run
        return False
    return True


def overrides_of_twin(
    overrides: Sequence[str], twin: str, valid: Callable[[Sequence[str]], bool] = is_valid
) -> list[str] | None:
    """A command line with another network in its place: without what that network has not.

    Args:
        overrides: the command line.
        twin: the network; several, of a sweep, with commas.
        valid: whether a command line has no mistakes.

    Returns:
        The overrides; None if there is no such command, as for an experiment whose file sets
        options of its networks.
    """
    chosen = ("model=", "dynamic=", "model.dynamic")
    others = [override for override in overrides if not override.lstrip("+").startswith(chosen)]
    own = [word for word in others if word.lstrip("+").startswith(("model.", "optim."))]
    kept = [f"model={twin}", *others]
    if valid(kept):
        return kept
    shared = [word for word in kept if word not in own]
    if not own or not valid(shared):
        return None
    kept = [word for word in kept if word not in own or valid([*shared, word])]
    return kept if valid(kept) else None


def check_devices(devices: Any) -> None:
    """Reject more than one device."""
    one = devices == 1 or (isinstance(devices, list) and len(devices) == 1)
    if not one or isinstance(devices, bool):
        raise UserError(
            f"trainer.devices={devices}: a run uses one device, 1 or [index]; "
            "several runs can use one each."
        )


def _widths(hidden: Any) -> list[int]:
    """Number of neurons of every hidden layer; 40 becomes [40], so both give the same config."""
    widths = hidden if isinstance(hidden, list) else [hidden]
    if not all(isinstance(width, int) and not isinstance(width, bool) for width in widths):
        raise UserError(f"model.hidden={hidden} is not a number of neurons or a list of them.")
    return widths


def _check_names(node: DictConfig, prefix: str) -> None:
    """Reject options that ``+option=value`` has added to a schema, or ``~option`` has removed."""
    schema = OmegaConf.get_type(node)
    if is_dataclass(schema):
        known = [field.name for field in fields(schema)]
        for name in map(str, node):
            if name not in known:
                raise UserError(f"{prefix}{name} is not an option.")
        for name in known:
            if name not in node:
                raise UserError(missing_option_message(f"{prefix}{name}"))
    for name in map(str, node):
        if OmegaConf.is_missing(node, name):
            raise UserError(missing_option_message(f"{prefix}{name}"))
        if isinstance(node[name], DictConfig):
            _check_names(node[name], f"{prefix}{name}.")


def _check_foci(config: Mapping[str, Any]) -> None:
    """Reject options that would have no effect on this model."""
    model, optim, foci = config["model"], config["optim"], config["optim"]["foci"]
    if foci["name"] is None and (foci["momentum"] or foci["options"]):
        raise UserError("optim.foci has options but no name: give optim.foci.name, such as Adam.")
    if "sigma" in model:
        if optim["anneal_from"] != 1 and optim["anneal_epochs"] == 0:
            raise UserError(
                f"optim.anneal_from={optim['anneal_from']:g} has no effect without "
                "optim.anneal_epochs: set it to the number of epochs in which sigma narrows."
            )
        return
    unused = f"is of no use to model={model['name']}, which has no foci, use"
    if foci["name"] is not None and not model.get("dynamic"):
        raise UserError(f"optim.foci.name={foci['name']} {unused} null.")
    for option in fields(Optim):
        value = optim[option.name]
        if option.name in FOCI_ONLY and value != option.default:
            raise UserError(f"optim.{option.name}={value} {unused} {option.default:g}.")
