"""What a config must satisfy beyond names and types, checked before anything starts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from focusing.errors import UserError

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
    "trainer.max_epochs": 1,
    "trainer.limit_batches": 1,
}
ABOVE_ZERO = ("optim.lr", "optim.anneal_from", "optim.clip_value")


def check(cfg: DictConfig) -> dict[str, Any]:
    """Raise a UserError that names the first impossible option.

    Returns:
        The config as plain containers, interpolations resolved.
    """
    _check_names(cfg, "")
    config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    if "_mlp" in str(config["model"].get("_target_")):
        config["model"]["hidden"] = _widths(config["model"]["hidden"])
    for name, allowed in CHOICES.items():
        value = _get(config, name)
        if not any(type(value) is type(choice) and value == choice for choice in allowed):
            choices = ", ".join(str(choice).lower() for choice in allowed)
            raise UserError(f"{name}={value} is not one of {choices}.")
    for name, least in AT_LEAST.items():
        value = _get(config, name)
        if value is not None and value < least:
            raise UserError(f"{name}={value} must be at least {least}.")
    for name in ABOVE_ZERO:
        value = _get(config, name)
        if value is not None and not value > 0:
            raise UserError(f"{name}={value} must be greater than 0.")
    for name in ("lr", "lr_mu", "lr_sigma"):
        if config["optim"][name] == math.inf:
            raise UserError(f"optim.{name}=inf must be finite.")
    if config["seed"] >= 2**63:
        raise UserError(f"seed={config['seed']} must be less than 2**63.")
    if not config["paths"]["output_dir"]:
        raise UserError("paths.output_dir is empty: give a folder.")
    if not re.fullmatch(r"\w[\w.,=+-]*", config["name"]):
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
    """Refuse options that ``+option=value`` has added to a schema."""
    schema = OmegaConf.get_type(node)
    for name in map(str, node):
        if is_dataclass(schema) and name not in {field.name for field in fields(schema)}:
            raise UserError(f"{prefix}{name} is not an option.")
        if not OmegaConf.is_missing(node, name) and isinstance(node[name], DictConfig):
            _check_names(node[name], f"{prefix}{name}.")


def check_devices(devices: Any) -> None:
    """Refuse more than one device."""
    one = devices == 1 or (isinstance(devices, list) and len(devices) == 1)
    if not one or isinstance(devices, bool):
        raise UserError(
            f"trainer.devices={devices}: a run uses one device, 1 or [index]; "
            "several runs can use one each."
        )


def _get(config: Mapping[str, Any], name: str) -> Any:
    value: Any = config
    for key in name.split("."):
        value = value[key]
    return value
