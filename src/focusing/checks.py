"""What a config must satisfy beyond names and types, checked before anything starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from focusing.compose import missing
from focusing.errors import UserError, printable
from focusing.schema import Wrong, plain

CHOICES: dict[str, tuple[str | bool, ...]] = {
    "resume": ("auto", "never"),
    "optim.drop_last": ("auto", True, False),
    "protocol.name": ("paper", "holdout", "last"),
    # Not 16-mixed: steps are made by hand, without its scaling of the loss.
    "trainer.precision": ("32-true", "64-true", "bf16-mixed", "bf16-true"),
}
AT_LEAST = {
    "seed": 0,
    "optim.batch_size": 1,
    "optim.accumulate": 1,
    "optim.l2": 0,
    "optim.lr_mu": 0,
    "optim.lr_sigma": 0,
    "optim.decay": 0,
    "optim.decay_mu": 0,
    "optim.decay_sigma": 0,
    "optim.sigma_l1": 0,
    "optim.sigma_l2": 0,
    "optim.mu_repulsion": 0,
    "optim.anneal_epochs": 0,
    "optim.momentum": 0,
    "optim.decay_epochs": 0,
    "trainer.max_epochs": 1,
    "trainer.limit_batches": 1,
    "sweep.trials": 1,
    "sweep.trial": 0,
}
AT_MOST = {"sweep.trials": 100_000}
BELOW = {"optim.momentum": 1}
ABOVE_ZERO = ("optim.lr", "optim.anneal_from", "optim.clip_value")
OF_FOCI = {"sigma_l1": 0, "sigma_l2": 0, "mu_repulsion": 0, "anneal_from": 1, "anneal_epochs": 0}
"""Options of the group optim that only say how foci learn, and the values that change nothing."""
MAX_INTEGER = 2**63 - 1


def check(cfg: DictConfig) -> dict[str, Any]:
    """Raise a UserError that names the first impossible option.

    Returns:
        The config as plain containers, interpolations resolved.
    """
    _check_names(cfg, "")
    config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    _check_values(config, "")
    try:
        plain(config)
    except Wrong as error:
        raise UserError(f"{error}.") from None
    if "_mlp" in str(config["model"].get("_target_")):
        config["model"]["hidden"] = _widths(config["model"]["hidden"])
    for name, allowed in CHOICES.items():
        value = _get(config, name)
        if not any(type(value) is type(choice) and value == choice for choice in allowed):
            choices = ", ".join(str(choice).lower() for choice in allowed)
            raise UserError(f"{name}={value} is not one of {choices}.")
    for name, least in AT_LEAST.items():
        if any(value < least for value in _numbers(config, name)):
            raise UserError(f"{name}={_get(config, name)} must be at least {least}.")
    for name, most in AT_MOST.items():
        if any(value > most for value in _numbers(config, name)):
            raise UserError(f"{name}={_get(config, name)} must be at most {most}.")
    for name, bound in BELOW.items():
        if any(not value < bound for value in _numbers(config, name)):
            raise UserError(f"{name}={_get(config, name)} must be less than {bound}.")
    for name in ABOVE_ZERO:
        if any(not value > 0 for value in _numbers(config, name)):
            raise UserError(f"{name}={_get(config, name)} must be greater than 0.")
    _check_foci(config)
    for name, folder in config["paths"].items():
        _check_folder(f"paths.{name}", folder)
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


def _widths(hidden: Any) -> list[int]:
    """Neurons of each layer: 40 is [40], and the same config."""
    widths = hidden if isinstance(hidden, list) else [hidden]
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in widths):
        raise UserError(f"model.hidden={hidden} is not a number of neurons or a list of them.")
    return widths


def _check_names(node: DictConfig, prefix: str) -> None:
    """Refuse options that ``+option=value`` has added to a schema, or ``~option`` has removed."""
    schema = OmegaConf.get_type(node)
    if is_dataclass(schema):
        known = [field.name for field in fields(schema)]
        for name in map(str, node):
            if name not in known:
                raise UserError(f"{prefix}{name} is not an option.")
        for name in known:
            if name not in node:
                raise UserError(missing(f"{prefix}{name}"))
    for name in map(str, node):
        if OmegaConf.is_missing(node, name):
            raise UserError(missing(f"{prefix}{name}"))
        if isinstance(node[name], DictConfig):
            _check_names(node[name], f"{prefix}{name}.")


def _check_values(value: Any, name: str) -> None:
    """Refuse what cannot be computed with or written down, anywhere in a config."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_values(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for item in value:
            _check_values(item, name)
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise UserError(f"{name}={value} is too large: the largest integer is {MAX_INTEGER}.")
    elif isinstance(value, str) and printable(value) != value:
        raise UserError(f"{name}={value} has characters that cannot be printed.")


def _check_foci(config: Mapping[str, Any]) -> None:
    """An option that changes nothing is a mistake."""
    model, optim = config["model"], config["optim"]
    if "sigma" in model:
        return
    for name, idle in OF_FOCI.items():
        if optim[name] != idle:
            raise UserError(
                f"optim.{name}={optim[name]} is of no use to model={model['name']}, which has no "
                f"foci, use {idle}."
            )


def _check_folder(name: str, folder: str) -> None:
    if not folder:
        raise UserError(f"{name} is empty: give a folder.")
    try:
        Path(folder).expanduser()
    except RuntimeError:
        raise UserError(f"{name}={folder}: there is no such user.") from None


def check_devices(devices: Any) -> None:
    """Refuse more than one device."""
    one = devices == 1 or (isinstance(devices, list) and len(devices) == 1)
    if not one or isinstance(devices, bool):
        raise UserError(
            f"trainer.devices={devices}: a run uses one device, 1 or [index]; "
            "several runs can use one each."
        )


def _numbers(config: Mapping[str, Any], name: str) -> list[Any]:
    """The number of an option, or its numbers; none where it is null."""
    value = _get(config, name)
    return value if isinstance(value, list) else [] if value is None else [value]


def _get(config: Mapping[str, Any], name: str) -> Any:
    value: Any = config
    for key in name.split("."):
        value = value[key]
    return value
