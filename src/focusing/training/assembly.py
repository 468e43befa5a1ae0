"""From a config to what is trained: the data, its parts and the network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from focusing.data import DataSet, Part, hold_out
from focusing.data.sample import settle
from focusing.errors import UserError
from focusing.instantiate import instantiate

EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)


def load_data(config: Mapping[str, Any]) -> DataSet:
    """Make or read the data set of a config."""
    options = {name: value for name, value in config["data"].items() if name != "name"}
    surroundings = {}
    if "split" in options:  # it is read from files
        surroundings = {"data_dir": config["paths"]["data_dir"], "run_seed": config["seed"]}
    try:
        data = instantiate(options, **surroundings)
    except FileNotFoundError as error:
        raise UserError(f"data={config['data']['name']}: {error.filename} is missing.") from None
    assert isinstance(data, DataSet)  # noqa: S101 - for the type checker
    return data


def settle_source(config: dict[str, Any], *, strict: bool) -> None:
    """Write into a config whether its data will be the sample of 5000 digits.

    Args:
        config: ``data.on_missing``, if it has one, becomes ``"sample"`` or ``"error"``.
        strict: no sample unless the user asked for it.
    """
    settle(config["data"], Path(config["paths"]["data_dir"]).expanduser(), strict=strict)


def split(config: Mapping[str, Any], data: DataSet) -> dict[str, Part]:
    """The parts of a data set under the config's protocol: train, maybe val, test."""
    share = config["protocol"]["holdout"]
    if not share:
        return {"train": data.train, "test": data.test}
    rest, held = hold_out(data.train, share, config["seed"], data.classes)
    return {"train": rest, "val": held, "test": data.test}


def build_net(config: Mapping[str, Any], data: DataSet) -> nn.Module:
    """Make the network of a config; its weights depend on the seed alone."""
    options = {name: value for name, value in config["model"].items() if name != "name"}
    torch.manual_seed(config["seed"])
    net = instantiate(options, inputs=data.inputs, outputs=data.outputs)
    assert isinstance(net, nn.Module)  # noqa: S101 - for the type checker
    if data.vocabulary and not any(isinstance(each, EMBEDDINGS) for each in net.modules()):
        raise UserError(f"data={data.name} is made of tokens: use a model that embeds them.")
    return net
