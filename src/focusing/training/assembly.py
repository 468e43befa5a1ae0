"""From a config to what is trained: the data, its splits and the network."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from focusing.data import DataSet, Split, hold_out
from focusing.data.preprocess import Preparation
from focusing.data.sample import settle
from focusing.errors import UserError
from focusing.instantiate import instantiate
from focusing.models import Network
from focusing.validation import check_memory

WORDS = "focusing.data.imdb"
"""The data set whose inputs are words, not values."""


def load_data(
    config: Mapping[str, Any], *, peek: bool = False, preparation: Preparation | None = None
) -> DataSet:
    """Make or read the data set of a config.

    Args:
        config: of a run.
        peek: only for its source and its fingerprint: neither download nor prepare anything.
        preparation: of the samples, if they are for a network that was trained on others.
    """
    _check_words(config)
    options = {name: value for name, value in config["data"].items() if name != "name"}
    surroundings = {"run_seed": config["seed"], "holdout": config["protocol"]["holdout"]}
    if "split" in options:  # it is read from files
        surroundings |= {"data_dir": config["paths"]["data_dir"], "peek": peek}
        surroundings |= {"preparation": preparation}
    try:
        return instantiate(options, DataSet, **surroundings)
    except FileNotFoundError as error:
        raise UserError(f"data={config['data']['name']}: {error.filename} is missing.") from None


def _check_words(config: Mapping[str, Any]) -> None:
    """Refuse a network that does not read words before they are decoded, which takes a while."""
    if config["data"]["_target_"] == WORDS and "embedding" not in config["model"]:
        raise UserError(
            f"data={config['data']['name']} is made of words: use a model that embeds them, "
            f"model=fasttext_focus or model=fasttext_dense, not {config['model']['name']}."
        )


def settle_source(config: dict[str, Any], *, strict: bool) -> None:
    """Write into a config whether its data will be the sample of 5000 digits.

    Args:
        config: ``data.on_missing``, if it has one, becomes ``"sample"`` or ``"error"``.
        strict: no sample unless the user asked for it.
    """
    settle(config["data"], Path(config["paths"]["data_dir"]).expanduser(), strict=strict)


def split_data(config: Mapping[str, Any], data: DataSet) -> dict[str, Split]:
    """The splits of a data set under the config's protocol: train, maybe val, test."""
    share = config["protocol"]["holdout"]
    if not share:
        return {"train": data.train, "test": data.test}
    rest, held = hold_out(data.train, share, config["seed"], data.classes)
    return {"train": rest, "val": held, "test": data.test}


def build_net(config: Mapping[str, Any], data: DataSet, *, pretrained: bool = True) -> Network:
    """Make the network of a config; its weights depend on the seed alone.

    Args:
        config: plain containers.
        data: what it is for.
        pretrained: read the weights that the config begins with; of no use before a checkpoint.
    """
    options = {name: value for name, value in config["model"].items() if name != "name"}
    if "pretrained" in options and not pretrained:
        options |= {"pretrained": False, "weights": None}
    sizes: dict[str, Any] = {"inputs": data.train.inputs.shape[1:], "outputs": data.outputs}
    if "embedding" in options:
        if not data.vocabulary:
            raise UserError(
                f"model={config['model']['name']} is for texts: data={data.name} is not."
            )
        sizes["vocabulary"] = data.vocabulary
    _check_size(config, options, sizes)
    torch.manual_seed(config["seed"])
    return instantiate(options, Network, **sizes)


def _check_size(config: Mapping[str, Any], options: dict[str, Any], sizes: dict[str, Any]) -> None:
    """Refuse a network whose weights and gradients cannot be in memory; on meta it takes none."""
    empty = {"pretrained": False, "weights": None} if "pretrained" in options else {}
    try:
        with torch.device("meta"):
            net = instantiate({**options, **empty}, Network, **sizes)
    except RuntimeError as error:
        if "overflow" not in str(error):  # a network of the user's own, which needs values
            return
        raise UserError(f"model={config['model']['name']}: its layers are too large.") from None
    trained = sum(each.numel() for each in net.parameters())
    what = f"model={config['model']['name']} with {trained} parameters"
    check_memory(2 * trained * torch.get_default_dtype().itemsize, what)


def check_single(config: Mapping[str, Any], net: Network, train: Split) -> None:
    """Refuse batches of one sample for a network that cannot be trained on them."""
    samples, optim = len(train.targets), config["optim"]
    size, limit = optim["batch_size"], config["trainer"]["limit_batches"]
    if size == 1:
        cause = "optim.batch_size=1"
    elif samples == 1:
        cause = "There is 1 training sample"
    elif samples % size == 1 and optim["drop_last"] is False and not limit:
        cause = "optim.drop_last=false leaves a last batch of 1 sample"
    else:
        return
    try:  # nothing is computed on this device
        deepcopy(net).to("meta").train()(net.example().to("meta"))
    except ValueError:
        raise UserError(
            f"{cause}: batch norm needs 2 or more samples in a batch; use more, or "
            "model.batch_norm=false."
        ) from None


def has_batch_norm(net: nn.Module) -> bool:
    """Whether any layer normalises over a batch."""
    return any(isinstance(layer, _BatchNorm) for layer in net.modules())
