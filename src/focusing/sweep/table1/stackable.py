"""What a stack of networks can do: anything else is refused, not ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from focusing.config import Optim, group_schemas
from focusing.errors import UserError
from focusing.results.identity import ONLOOKERS
from focusing.sweep.table1.records import DTYPES

FREE = {
    "optim": ("lr", "lr_mu", "lr_sigma", "momentum", "batch_size", "drop_last", "shuffle", "l2"),
    "model": ("name", "hidden", "mu", "sigma", "train_mu", "train_sigma", "init")
    + ("mu_range", "sigma_range", "grid", "normalizer", "backend", "cutoff", "later_sigma"),
}
"""Options of which a stack takes any value; of the others only what the schema begins with."""


def check_stackable(config: Mapping[str, Any]) -> None:
    """Raise a UserError that names the first option that a stack does not know."""
    if config["sweep"]["trials"] < 1:
        raise UserError(f"sweep.trials={config['sweep']['trials']} must be at least 1.")
    if config["data"]["name"] != "synthetic":
        raise UserError("sweep.stacked=true trains the trials of Table 1: use data=synthetic.")
    if "mu" not in config["model"]:
        raise UserError(
            f"sweep.stacked=true trains a focused network beside a dense one: use model=focus_s, "
            f"not {config['model']['name']}."
        )
    _require("optim.name", config["optim"]["name"], "SGD")
    for group, schema in (("optim", Optim), ("model", group_schemas()["model"]["focused"])):
        for each in fields(schema):
            usual = each.default_factory() if callable(each.default_factory) else each.default
            if each.name not in (*FREE[group], "name") and usual is not MISSING:
                _require(f"{group}.{each.name}", config[group][each.name], usual)
    if config["model"]["normalizer"] == "none":
        raise _refusal("model.normalizer", "none", "l2, sum and mean")
    if len(config["model"]["hidden"]) != 1:
        raise _refusal("model.hidden", config["model"]["hidden"], "one layer")
    if config["optim"]["momentum"] is None:
        raise _refusal("optim.momentum", None, "a number")
    if config["trainer"]["precision"] not in DTYPES:
        raise _refusal("trainer.precision", config["trainer"]["precision"], " or ".join(DTYPES))
    for group, known in (("callbacks", (*ONLOOKERS, "clip")), ("logger", ("csv",))):
        for name, options in config[group].items():
            if name not in known and options is not None:
                raise UserError(f"{group}.{name} needs sweep.stacked=false.")
    if not config["callbacks"].get("clip"):
        raise _refusal("callbacks.clip", None, "callbacks=default")


def _require(name: str, value: Any, only: Any) -> None:
    if value != only:
        raise _refusal(name, value, str(only))


def _refusal(name: str, value: Any, only: str) -> UserError:
    return UserError(f"{name}={value} needs sweep.stacked=false; a stack knows {only} only.")
